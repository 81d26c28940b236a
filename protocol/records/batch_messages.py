"""The records of a batch as messages of the older formats, without an object for each: for who gives old clients what
newer ones have written (Kafka 3.9 and older did that for each fetch).

Headers go, and in magic 0 timestamps. The layouts are told in :mod:`protocol.records.batches` and
:mod:`protocol.records.message_sets`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from protocol.records.batch_errors import BatchError, CorruptBatch, DecompressedTooLarge
from protocol.records.batch_layout import COMPRESSION, HEADER_SIZE, LOG_APPEND_TIME, MIN_OBJECT_SIZE, BatchHeader
from protocol.records.compression import MAX_DECOMPRESSED_SIZE, Compression, decompress
from protocol.records.message_sets import wrapped
from protocol.records.record_messages import PARTS, record_messages

_OFFSET_SIZE: Final = 8


class BatchMessages(NamedTuple):
    """``parts``: for each record, in their order, two of them, which are its message as it stands in an uncompressed
    set, or inside a wrapper: what has to be added to its offset there is ``base_offset``. ``codec``: the batch's."""

    parts: list[bytes]
    base_offset: int
    magic: int
    codec: Compression
    timestamp: int
    log_append_time: bool

    @property
    def size(self) -> int:
        """In messages."""
        return len(self.parts) // PARTS

    def joined(self, count: int, codec: Compression, level: int | None = None) -> bytes:
        """The first so many as a message set; with a codec in one wrapper. One is needed where the batch has one."""
        content = b"".join(self.parts[: PARTS * count] if count < self.size else self.parts)
        if not codec:
            return content
        last = int.from_bytes(self.parts[PARTS * (count - 1)][:_OFFSET_SIZE], "big", signed=True) + self.base_offset
        time = self.timestamp if self.magic else None
        return wrapped(content, last, self.magic, codec, time, level=level, log_append_time=self.log_append_time)


def batch_messages(
    buf: bytes, pos: int, header: BatchHeader, magic: int, first_offset: int, max_size: int = MAX_DECOMPRESSED_SIZE
) -> BatchMessages:
    """Of the batch at ``pos``, whose header is read and whose CRC is checked, the records from ``first_offset`` on as
    messages of ``magic`` 0 or 1.

    ``max_size`` and what it raises: as for :func:`protocol.records.batches.records_of`; and CorruptBatch for offsets
    that do not rise.
    """
    codec = header.attributes & COMPRESSION
    start, end = pos + HEADER_SIZE, pos + header.size
    if codec:
        if header.record_count * MIN_OBJECT_SIZE > max_size:
            raise DecompressedTooLarge(f"{header.record_count} records where {max_size} bytes are allowed", pos)
        buf = decompress(codec, buf[start:end], max_size, start)
        start, end = 0, len(buf)
    append_time = bool(header.attributes & LOG_APPEND_TIME) and magic > 0
    try:
        all_at = header.max_timestamp if append_time and not codec else None
        parts, base_offset = record_messages(buf, start, end, header, magic, first_offset, all_at)
    except IndexError:
        raise CorruptBatch("record cut off", pos) from None
    except BatchError as error:
        raise CorruptBatch(f"{error.reason} (at byte {error.position} of the records)", pos) from None
    return BatchMessages(parts, base_offset, magic, Compression(codec), header.max_timestamp, append_time)
