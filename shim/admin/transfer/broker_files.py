"""Segments of `__consumer_offsets` as brokers left them: Kafka 0.10 to 4.3, whatever format and codec they are in.

Not a second reader of the shim's own log: of what is read here (message sets, compression, transactions, control
batches) that log holds nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from protocol.partition import OFFSETS_TOPIC
from protocol.records.batches import (
    LENGTH_OVERHEAD,
    NO_PRODUCER_ID,
    BatchError,
    ControlRecordType,
    Record,
    check_crc,
    control_record_type,
    read_header,
    records_of,
)
from protocol.records.compression import MAX_DECOMPRESSED_SIZE
from protocol.records.message_layout import PREFIX_SIZE
from protocol.records.message_sets import decode_message_set, read_messages
from shim.log import CorruptLog
from shim.log.disk.files import Files
from shim.log.segments.segment import find_sound_batch

_SEGMENT: Final = re.compile(r"(\d{20})\.log(\.swap|\.cleaned)?")
_PARTITION: Final = re.compile(re.escape(OFFSETS_TOPIC) + r"-(0|[1-9]\d{0,8})")
_HEAD_SIZE: Final = 17  # offset, length, and at its end the magic, in all three formats
_READ_SIZE: Final = 1 << 20
_SWAP: Final = ".swap"

_KEY_LENGTH_AT: Final = (18, 26)  # in a message of magic 0, and of magic 1
_SMALLEST_MESSAGE: Final = 26
# Where a message may begin: an offset that is not negative, a size from 14 on, magic 0 or 1. All positions are tried.
_MESSAGE: Final = re.compile(rb"(?s)(?=[\0-\x7f].{7}(?!\0\0\0[\0-\x0d])[\0-\x7f].{7}[\0\1])")


class Batch(NamedTuple):
    """Records that were written together. ``producer_id`` is -1 outside of a transaction."""

    path: Path
    position: int
    size: int
    producer_id: int
    records: Sequence[Record]


class TransactionEnd(NamedTuple):
    """The marker that ends a producer's transaction in this partition."""

    path: Path
    position: int
    size: int
    producer_id: int
    committed: bool


class IgnoredTail(NamedTuple):
    """What a broker would cut off when it starts: it was stopped in the middle of a write."""

    path: Path
    position: int
    size: int
    reason: str


def offsets_folders(files: Files, log_dirs: Sequence[Path]) -> dict[int, Path]:
    """The folders of `__consumer_offsets` in a broker's log directories, by partition.

    Raises ValueError for a partition that is in two of them, OSError.
    """
    found: dict[int, Path] = {}
    for log_dir in log_dirs:
        for name in files.names(log_dir):
            if match := _PARTITION.fullmatch(name):
                partition = int(match[1])
                if partition in found:
                    raise ValueError(f"partition {partition} is in {found[partition].parent} and in {log_dir}")
                found[partition] = log_dir / name
    return dict(sorted(found.items()))


def segments_of(files: Files, folder: Path) -> list[Path]:
    """Rising, as a broker would have them after its start (the LogLoader of Kafka 4.3, the Log of 0.10).

    A broker that was killed while it put a cleaned segment in the place of others leaves that one as `.log.swap`,
    whole: it is given instead of the segments that begin between its base and its end. Where there is a `.cleaned` at
    or below it, the broker had not come so far, and what it stands for is still there. `.deleted` files are replaced
    already.

    Raises CorruptLog for a damaged swap file, OSError.
    """
    found = [(int(match[1]), match[2], name) for name in files.names(folder) if (match := _SEGMENT.fullmatch(name))]
    unfinished = min((base for base, kind, _ in found if kind == ".cleaned"), default=None)
    segments = {base: folder / name for base, kind, name in found if kind is None}
    for base, kind, name in found:
        if kind == _SWAP and (unfinished is None or base < unfinished):
            end = _end_of(files, folder / name)
            segments = {at: path for at, path in segments.items() if path.suffix == _SWAP or not base <= at < end}
            segments[base] = folder / name
    return [path for _, path in sorted(segments.items())]


def is_swap(segment: Path) -> bool:
    """Whether :func:`segments_of` gives it in the place of others."""
    return segment.suffix == _SWAP


def read_partition(files: Files, segments: Sequence[Path]) -> Iterator[Batch | TransactionEnd | IgnoredTail]:
    """Everything in a partition's segments, in the order of the log; gaps between offsets are what a cleaner leaves.

    A bad end of the last segment, with nothing sound behind it, is given as IgnoredTail. Raises CorruptLog for any
    other damage, OSError.
    """
    next_offset = 0
    for path in segments:
        fd = files.open(path)
        try:
            # A swap file had been written whole before it got its name.
            is_last = path == segments[-1] and not is_swap(path)
            reader = _SegmentReader(files, fd, path, next_offset, is_last=is_last)
            yield from reader.read()
            next_offset = reader.next_offset
        finally:
            files.close(fd)


def _end_of(files: Files, path: Path) -> int:
    """The offset after the last one of a whole segment."""
    fd = files.open(path)
    try:
        reader = _SegmentReader(files, fd, path, 0, is_last=False)
        for _ in reader.read():
            pass
        return reader.next_offset
    finally:
        files.close(fd)


class _SegmentReader:
    def __init__(self, files: Files, fd: int, path: Path, next_offset: int, *, is_last: bool) -> None:
        self.next_offset = next_offset
        self._files = files
        self._fd = fd
        self._path = path
        self._size = files.size(fd)
        self._is_last = is_last
        self._window = b""
        self._window_at = 0

    def read(self) -> Iterator[Batch | TransactionEnd | IgnoredTail]:
        position = 0
        while position < self._size:
            try:
                raw = self._entry(position)
                found = self._decoded(position, raw)
            except BatchError as bad:
                yield self._tail(position, bad.reason)
                return
            if found is not None:
                yield found
            position += len(raw)

    def _entry(self, position: int) -> bytes:
        """The bytes of one batch, or of one message of a message set. Raises BatchError when they are not all there."""
        head = self._bytes(position, _HEAD_SIZE)
        length = int.from_bytes(head[8:12], "big", signed=True)
        if len(head) < _HEAD_SIZE or not _HEAD_SIZE <= LENGTH_OVERHEAD + length <= self._size - position:
            raise BatchError(f"an entry of {length} bytes, {self._size - position} left in the file", position)
        return self._bytes(position, LENGTH_OVERHEAD + length)

    def _bytes(self, position: int, size: int) -> bytes:
        at = position - self._window_at
        if at < 0 or at + size > len(self._window):
            self._window = self._files.read_at(self._fd, max(size, _READ_SIZE), position)
            self._window_at, at = position, 0
        return self._window[at : at + size]

    def _decoded(self, position: int, raw: bytes) -> Batch | TransactionEnd | None:
        if raw[16] < 2:
            records = decode_message_set(raw).records
            self._rises(position, records[0].offset, records[-1].offset)
            return Batch(self._path, position, len(raw), NO_PRODUCER_ID, records)
        header = read_header(raw)
        check_crc(raw, 0, header)
        self._rises(position, header.base_offset, header.last_offset)
        records = records_of(raw, 0, header, MAX_DECOMPRESSED_SIZE)
        if not header.is_control:
            producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
            return Batch(self._path, position, len(raw), producer_id, records)
        for record in records:  # one, or, where the cleaner took it, none
            kind = control_record_type(record)
            if kind in (ControlRecordType.COMMIT, ControlRecordType.ABORT):
                committed = kind == ControlRecordType.COMMIT
                return TransactionEnd(self._path, position, len(raw), header.producer_id, committed)
        return None

    def _rises(self, position: int, first: int, last: int) -> None:
        if first < self.next_offset:  # the checksum is right: no write that was torn
            raise CorruptLog(self._path, position, f"offset {first} after {self.next_offset - 1}")
        self.next_offset = last + 1

    def _tail(self, position: int, reason: str) -> IgnoredTail:
        """Raises CorruptLog when this is not the end of the log, or no write that was torn."""
        if not self._is_last:
            raise CorruptLog(self._path, position, reason)
        # From here on, not from the next byte: what has a right CRC and cannot be read all the same was never torn.
        later = _find_sound(self._files, self._fd, position, self._size)
        if later == position:
            raise CorruptLog(self._path, position, f"{reason}, under a right CRC")
        if later is not None:
            reason = f"{reason}; this is no torn write, as a sound batch or message follows at byte {later}"
            raise CorruptLog(self._path, position, reason)
        return IgnoredTail(self._path, position, self._size - position, reason)


def _find_sound(files: Files, fd: int, start: int, size: int) -> int | None:
    """Where the first batch or message begins, from ``start`` on, that has a right CRC."""
    batch = find_sound_batch(files, fd, start, size, 0)
    message = _find_sound_message(files, fd, start, size)
    return min((at for at in (batch, message) if at is not None), default=None)


def _find_sound_message(files: Files, fd: int, start: int, size: int) -> int | None:
    """As :func:`find_sound_batch`, for a message of a message set (magic 0 or 1)."""
    position = start
    while size - position >= _SMALLEST_MESSAGE:
        window = files.read_at(fd, min(_READ_SIZE, size - position), position)
        if len(window) < _SMALLEST_MESSAGE:
            return None
        for match in _MESSAGE.finditer(window):
            at = match.start()
            whole = PREFIX_SIZE + int.from_bytes(window[at + 8 : at + 12], "big")
            if whole <= size - position - at and _is_sound_message(files, fd, position + at, whole, window, at):
                return position + at
        position += len(window) - _SMALLEST_MESSAGE + 1
    return None


def _is_sound_message(files: Files, fd: int, position: int, size: int, window: bytes, at: int) -> bool:
    """``size`` bytes at ``position`` of the file, which is at ``at`` of the window."""

    def piece(start: int, length: int) -> bytes:
        inside = at + start
        if inside + length <= len(window):
            return window[inside : inside + length]
        return files.read_at(fd, length, position + start)

    # What the lengths of key and value say, first: of the positions that are none, hardly any is left for the CRC.
    value_at = _KEY_LENGTH_AT[window[at + 16]]
    for _ in ("key", "value"):
        if value_at + 4 > size:
            return False
        value_at += 4 + max(int.from_bytes(piece(value_at, 4), "big", signed=True), 0)
    if value_at != size:
        return False
    try:
        return len(read_messages(piece(0, size)).messages) == 1
    except BatchError:
        return False
