"""What a record batch of magic 2 consists of; the format itself is told in :mod:`protocol.records.batches`."""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final, NamedTuple

HEADER_SIZE: Final = 61
"""Bytes of a batch before its first record."""

LENGTH_OVERHEAD: Final = 12
"""Bytes of a batch that its own length field does not count."""

LENGTH_POSITION: Final = 8
"""Before it stands the base offset."""

MAGIC: Final = 2
MAGIC_POSITION: Final = 16
"""Where the magic is, in message sets too: all formats can be told apart by it."""

NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1

MIN_OBJECT_SIZE: Final = 64
"""Bytes that each record and each header of a compressed batch counts at least against the limit of its decompressed
size: read, they are objects, which take more than the 7 and 2 bytes that they can be."""

SKIM_ABOVE: Final = 8192
"""Records and headers that are made out of a batch or a message set before all the rest of it is skimmed: they are
objects, which take up to 40 times the bytes that they were, and nobody shall have more of them made than these for what
is refused at its end. They take some 2 MiB beside their contents."""

PREFIX: Final = struct.Struct(">qiibI")
CONTROL_KEY: Final = struct.Struct(">hh")
END_TRANSACTION: Final = struct.Struct(">hi")
CRC: Final = struct.Struct(">I")
CRC_POSITION: Final = PREFIX.size - CRC.size
CHECKED_FROM: Final = PREFIX.size
PRODUCER: Final = struct.Struct(">qhi")
"""Producer id, epoch and base sequence."""
PRODUCER_POSITION: Final = 43
MAX_INT64: Final = 2**63 - 1
BASE_OFFSETS: Final = (-(2**63) + 2**31, 2**63 - 1 - 2**31)  # from there, no offset delta leads beyond 64 bits

COMPRESSION: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40


class ControlRecordType(IntEnum):
    """Types of control records (Kafka 4.3)."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class EndTransactionMarker(NamedTuple):
    """What a control record of type ABORT or COMMIT says: how a producer's transaction ended in this partition."""

    type: ControlRecordType
    coordinator_epoch: int


class Record(NamedTuple):
    """One record. ``timestamp``: milliseconds since the epoch, -1 when it has none; ``offset``: absolute.

    Header keys are UTF-8 by the protocol, but not every producer keeps to that: bytes that are not are surrogates here
    (PEP 383, ``surrogateescape``), and are written again as they were. Java has replacement characters for them.
    """

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int = NO_TIMESTAMP
    offset: int = -1


class BatchHeader(NamedTuple):
    """The 61 bytes before the records, as they stand there; ``length`` counts the bytes after itself."""

    base_offset: int
    length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.length + LENGTH_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The first offset after this batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> int:
        """A :class:`Compression`, or a number that no Kafka uses."""
        return self.attributes & COMPRESSION

    @property
    def is_log_append_time(self) -> bool:
        """All records have the batch's max timestamp, whatever their deltas say (KIP-32)."""
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """The records are control records (:func:`control_record_type`), not data."""
        return bool(self.attributes & CONTROL)

    @property
    def delete_horizon(self) -> int | None:
        """From when on tombstones in here may be dropped, milliseconds since the epoch (KIP-534), or None."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None


END_TRANSACTION_TYPES: Final = (ControlRecordType.ABORT, ControlRecordType.COMMIT)
