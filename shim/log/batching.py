"""Record sets into batches. Touches no file."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from protocol.batches import BatchHeader, encode_batch, encoded_size, read_header

MAX_BATCH_BYTES: Final = 1 << 20
"""Record sets share a batch up to this size (about a broker's ``message.max.bytes``); a larger one is alone."""

MAX_RECORD_SET_BYTES: Final = 100 << 20
"""A larger record set is refused (its ``encoded_size``); the default of ``offsets.topic.segment.bytes``."""

RecordSet = Sequence[tuple[bytes, bytes | None]]
"""(key, value) pairs that are recovered all together or not at all; value None is a tombstone."""


class PreparedBatch(NamedTuple):
    """A batch as it goes to the disk."""

    data: bytes
    header: BatchHeader


def prepare_batches(offset: int, record_sets: Sequence[RecordSet], timestamp_ms: int) -> list[PreparedBatch]:
    """Batches that hold these record sets from ``offset`` on; none when there are no records.

    Raises OSError (EMSGSIZE) for a record set beyond MAX_RECORD_SET_BYTES, ValueError for an impossible timestamp.
    """
    records = record_sets[0] if len(record_sets) == 1 else [record for each in record_sets for record in each]
    if not records:
        return []
    shares = [records] if encoded_size(records) <= MAX_BATCH_BYTES else _shares(record_sets)
    batches = []
    for share in shares:
        data = encode_batch(offset, share, timestamp_ms)
        offset += len(share)
        batches.append(PreparedBatch(data, read_header(data)))
    return batches


def _shares(record_sets: Sequence[RecordSet]) -> Iterator[RecordSet]:
    share: list[tuple[bytes, bytes | None]] = []
    share_size = 0
    for record_set in record_sets:
        size = encoded_size(record_set)
        if size > MAX_RECORD_SET_BYTES:
            reason = f"{len(record_set)} records of one request: {size} bytes, {MAX_RECORD_SET_BYTES} are allowed"
            raise OSError(errno.EMSGSIZE, reason)
        if share and share_size + size > MAX_BATCH_BYTES:
            yield share
            share, share_size = [], 0
        share += record_set
        share_size += size
    if share:
        yield share
