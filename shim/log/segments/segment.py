"""Reading a segment file batch by batch, believing nothing in it."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from protocol.records.batches import (
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    BatchHeader,
    CorruptBatch,
    Record,
    TruncatedBatch,
    UnsupportedBatch,
    check_crc,
    read_header,
    records_of,
)
from protocol.records.column_reading import record_columns
from shim.log.disk.files import Files
from shim.log.errors import CorruptLog, LogError

_READ_SIZE: Final = 1 << 20
_MAGIC_POSITION: Final = 16
_OFFSET_AND_LENGTH: Final = struct.Struct(">qi")
_MAGIC_BYTE: Final = bytes((MAGIC,))


class SoundBatch(NamedTuple):
    """A batch of which length, magic, CRC, offsets and records are in order. ``end``: where the next one starts.

    ``raw`` are the bytes that were checked.
    """

    position: int
    end: int
    header: BatchHeader
    records: Sequence[Record]
    raw: bytes


class Segment(NamedTuple):
    """A closed segment: ``size`` bytes that nobody writes to any more. ``next_offset``: the next segment's base."""

    path: Path
    base_offset: int
    next_offset: int
    size: int


class BadBytes(Exception):
    """The segment cannot be read on from ``position``.

    ``intact`` when the CRC there is right all the same: the bytes are what was once written, and no torn write.
    """

    def __init__(self, position: int, reason: str, *, intact: bool = False) -> None:
        super().__init__(reason)
        self.position = position
        self.reason = reason
        self.intact = intact


ReadRecords: TypeAlias = Callable[[bytes, int, BatchHeader], Sequence[Record]]
"""The records of a batch, of which the buffer, its position there and its header are given, and the CRC was checked;
raises CorruptBatch, UnsupportedBatch."""

Unread: TypeAlias = Callable[[BatchHeader], bool]
"""Whether a batch with that header is given with no records, whatever it holds."""


def sound_records(buf: bytes, pos: int, header: BatchHeader) -> list[Record]:
    """A :data:`ReadRecords` that holds them to what a log has: offsets within the batch, and rising."""
    records = records_of(buf, pos, header)
    # Kafka's clients read such records, so `records_of` does; no broker writes them into a log.
    last, end = header.base_offset - 1, header.next_offset
    for record in records:
        if not last < record.offset < end:
            raise CorruptBatch(f"offset {record.offset} after {last}", pos)
        last = record.offset
    return records


def sound_columns(buf: bytes, pos: int, header: BatchHeader) -> Sequence[Record]:
    """As :func:`sound_records`, in columns where the batch is in no transaction and has many that are alike."""
    columns = record_columns(buf, pos, header)
    return sound_records(buf, pos, header) if columns is None else columns


def sound_batches(
    files: Files,
    fd: int,
    size: int,
    offset: int,
    *,
    position: int = 0,
    gaps: bool = False,
    unread_below: int = 0,
    unread: Unread | None = None,
    read: ReadRecords = sound_records,
) -> Iterator[SoundBatch]:
    """The batches from ``position`` on in the first ``size`` bytes of a segment; ``offset`` is due there.

    Offsets are without a gap: each batch starts where the one before it ended. The base offset is not covered by the
    CRC, so this is also what protects it. With ``gaps``, as compaction leaves them, they rise at least.

    Batches that end at or below offset ``unread_below`` are given as ``unread`` ones are: with no records.

    Raises BadBytes at the first byte that is no part of a sound batch, UnsupportedBatch for a compressed batch,
    OSError.
    """
    window = b""
    window_at = 0
    while position < size:
        at = position - window_at
        try:
            header = read_header(window, at)
            check_crc(window, at, header)
        except TruncatedBatch as truncated:
            if truncated.size > size - position:
                raise BadBytes(position, truncated.reason) from None
            window = files.read_at(fd, min(max(truncated.size, _READ_SIZE), size - position), position)
            window_at = position
            if len(window) < truncated.size:
                raise BadBytes(position, f"the file ends {truncated.size - len(window)} bytes early") from None
            continue
        except CorruptBatch as corrupt:
            raise BadBytes(position, corrupt.reason) from None
        if header.base_offset < offset or (header.base_offset > offset and not gaps):
            # A base offset below the expected one can be a torn header (zeros where the disk did not get to); a
            # higher one cannot.
            reason = f"base offset {header.base_offset} where {offset} is due"
            raise BadBytes(position, reason, intact=header.base_offset > offset)
        next_offset = header.next_offset
        try:
            left_out = next_offset <= unread_below or (unread is not None and unread(header))
            records = () if left_out else read(window, at, header)
        except CorruptBatch as corrupt:
            raise BadBytes(position, f"{corrupt.reason}, under a right CRC", intact=True) from None
        end = position + header.length + LENGTH_OVERHEAD
        yield SoundBatch(position, end, header, records, window[at : at + end - position])
        position = end
        offset = next_offset


def closed_batches(
    files: Files,
    fd: int,
    segment: Segment,
    *,
    position: int = 0,
    offset: int | None = None,
    unread_below: int = 0,
    unread: Unread | None = None,
    read: ReadRecords = sound_records,
) -> Iterator[SoundBatch]:
    """The batches of a closed segment, which ends where the next one begins.

    ``position`` is where a batch starts, and ``offset`` at or below that batch's; by default both are the segment's.
    Raises CorruptLog, LogError for a compressed batch, OSError.
    """
    due = segment.base_offset if offset is None else offset
    try:
        for batch in sound_batches(
            files,
            fd,
            segment.size,
            due,
            position=position,
            gaps=True,
            unread_below=unread_below,
            unread=unread,
            read=read,
        ):
            due = batch.header.next_offset
            yield batch
    except BadBytes as bad:
        raise CorruptLog(segment.path, bad.position, bad.reason) from None
    except UnsupportedBatch as unsupported:
        raise LogError(f"{segment.path}: {unsupported.reason}") from None
    if due != segment.next_offset:
        reason = f"the segment ends here at offset {due}, the next one begins at {segment.next_offset}"
        raise CorruptLog(segment.path, segment.size, reason)


def find_sound_batch(files: Files, fd: int, start: int, size: int, offset: int) -> int | None:
    """Position of the first complete batch with a right CRC and base offset ``offset`` or above that starts at
    ``start`` or later.

    Every byte position is tried, as a damaged length says nothing about where the next batch starts. Bytes inside a
    record that look like a batch are found too: that errs on the side of keeping what is there.
    """
    position = start
    while size - position >= HEADER_SIZE:
        window = files.read_at(fd, min(_READ_SIZE, size - position), position)
        # Candidates are those of which this window has the magic byte; the next window begins with the first whose it
        # has not.
        if len(window) <= _MAGIC_POSITION:
            return None
        index = window.find(_MAGIC_BYTE, _MAGIC_POSITION)
        while index >= 0:
            at = index - _MAGIC_POSITION
            base_offset, length = _OFFSET_AND_LENGTH.unpack_from(window, at)
            whole = length + LENGTH_OVERHEAD
            if base_offset >= offset and HEADER_SIZE <= whole <= size - position - at:
                batch = (
                    window[at : at + whole] if at + whole <= len(window) else files.read_at(fd, whole, position + at)
                )
                if _is_sound(batch):
                    return position + at
            index = window.find(_MAGIC_BYTE, index + 1)
        position += len(window) - _MAGIC_POSITION
    return None


def _is_sound(batch: bytes) -> bool:
    try:
        check_crc(batch, 0, read_header(batch))
    except CorruptBatch:
        return False
    return True
