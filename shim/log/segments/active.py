"""The active segment: the one that is appended to."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from protocol.records.batches import BatchHeader
from shim.log.disk.files import Files
from shim.log.disk.layout import index_name, segment_name
from shim.log.segments.batching import PreparedBatch
from shim.log.segments.index import IndexBuilder, write_index
from shim.log.segments.segment import Segment, SoundBatch
from shim.log.settings import LogSettings

_MAX_RELATIVE_OFFSET: Final = 2**31 - 1

_new: Final[Any] = tuple.__new__  # it skips the constructors of named tuples


class LogEnd(NamedTuple):
    """Where the log ends: in the segment of this base offset, the next record's byte position, and its offset."""

    base_offset: int
    position: int
    offset: int


class LastBatch(NamedTuple):
    """The batch that ends at ``next_offset``, and where it stands: in the segment of that base offset, at that byte."""

    next_offset: int
    segment: int
    position: int
    size: int
    base_offset: int
    crc: int

    @classmethod
    def of(cls, segment: int, position: int, header: BatchHeader) -> Self:
        return cls(header.next_offset, segment, position, header.size, header.base_offset, header.crc)


class ActiveSegment:
    """An open file, what is in it as far as it has been told, and where it ends. Closed by who has it."""

    def __init__(self, files: Files, folder: Path, base_offset: int, fd: int) -> None:
        self.path = folder / segment_name(base_offset)
        self.end = LogEnd(base_offset, 0, base_offset)
        self._last: tuple[int, int, int] | None = None  # position, base offset and CRC
        self._files = files
        self._fd = fd
        self._first_timestamp_ms: int | None = None
        self.newest_timestamp_ms: int | None = None
        """Of the batches that it has been told of; None when it is empty."""
        self._index = IndexBuilder(base_offset)
        self._indexed_from = base_offset  # what is before it was not told

    @classmethod
    def create(cls, files: Files, folder: Path, base_offset: int, made: list[int]) -> Self:
        """A new, empty one, whose name is durable when this returns. Raises OSError. ``made`` gets its base offset,
        also where its name cannot be synced."""
        fd = files.create(folder / segment_name(base_offset))
        made.append(base_offset)
        try:
            files.sync_directory(folder)
        except BaseException:
            files.close(fd)
            raise
        return cls(files, folder, base_offset, fd)

    @property
    def last_batch(self) -> LastBatch | None:
        """None where there is none."""
        if self._last is None:
            return None
        segment, end, next_offset = self.end
        position, base_offset, crc = self._last
        return LastBatch(next_offset, segment, position, end - position, base_offset, crc)

    def has_room_for(self, batch: PreparedBatch, settings: LogSettings) -> bool:
        """Whether the batch belongs in here; if not, the segment is to be rolled first.

        As in Kafka a segment ends by size, or by age, which is counted from its first batch on and in the batches' own
        time. An empty one takes anything.
        """
        if self._first_timestamp_ms is None:
            return True
        data, _, next_offset, max_timestamp, _ = batch
        base_offset, position, _ = self.end
        return (
            position + len(data) <= settings.segment_bytes
            and max_timestamp - self._first_timestamp_ms <= settings.roll_ms
            and next_offset - base_offset - 1 <= _MAX_RELATIVE_OFFSET
        )

    def room_for_more(self, timestamp_ms: int, settings: LogSettings) -> int:
        """Of a batch of that time how many bytes have a place in here, where it is not to be rolled first. None is in
        an empty one, which is not known to be there after a crash before something in it was synced."""
        base_offset, position, offset = self.end
        is_old = self._first_timestamp_ms is None or timestamp_ms - self._first_timestamp_ms > settings.roll_ms
        if is_old or offset - base_offset > _MAX_RELATIVE_OFFSET // 2:
            return 0
        return settings.segment_bytes - position

    def append(self, batch: PreparedBatch) -> None:
        """Writes it at the end, not durably. After an OSError any part of it may stand there."""
        data, base_offset, next_offset, max_timestamp, crc = batch
        self._files.write_at(self._fd, data, self.end.position)
        self._advance(len(data), base_offset, next_offset, max_timestamp, crc)

    def holds(self, batch: SoundBatch) -> None:
        """Told in recovery: this batch comes next in the file."""
        header = batch.header
        self._advance(header.size, header.base_offset, header.next_offset, header.max_timestamp, header.crc)

    def begins_with(self, first: SoundBatch, last: SoundBatch) -> None:
        """Told in recovery: these batches are in the file, and what is between them is not told."""
        self._first_timestamp_ms = first.header.max_timestamp
        self.newest_timestamp_ms = max(first.header.max_timestamp, last.header.max_timestamp)
        if last.position:
            self._index.begin_at(last.header.last_offset, last.position, last.header.size)
            self._indexed_from = last.header.last_offset
        else:
            self._index.add(last.header.last_offset, last.position, last.header.size)
        self._last = last.position, last.header.base_offset, last.header.crc
        self.end = LogEnd(self.end.base_offset, last.end, last.header.next_offset)

    def _advance(self, size: int, base_offset: int, next_offset: int, newest: int, crc: int) -> None:
        segment, position, _ = self.end
        if self._first_timestamp_ms is None or self.newest_timestamp_ms is None:
            self._first_timestamp_ms = self.newest_timestamp_ms = newest
        elif newest > self.newest_timestamp_ms:
            self.newest_timestamp_ms = newest
        self._index.add(next_offset - 1, position, size)
        self._last = position, base_offset, crc
        self.end = _new(LogEnd, (segment, position + size, next_offset))

    def position_for(self, offset: int) -> int:
        """Where to begin reading for ``offset``, which is below the end: the position of a batch, before which all is
        below ``offset``. For any thread."""
        return self._index.position_for(offset)

    def seekable(self, offset: int) -> int:
        """The highest offset, up to this one, that :meth:`position_for` is near to. For any thread."""
        return offset if offset >= self._indexed_from else min(offset, self.end.base_offset)

    def sync(self) -> None:
        """Makes what was written durable. After an OSError all of it since the last sync is in doubt."""
        self._files.fdatasync(self._fd)

    def finish(self) -> Segment:
        """Closes it, synced before, as a segment that nobody writes to any more, with its index beside it (if all of
        its batches have been told).
        """
        base_offset, size, next_offset = self.end
        if self._indexed_from == base_offset:
            write_index(self._files, self.path.with_name(index_name(base_offset)), self._index.to_bytes())
        self.close()
        return Segment(self.path, base_offset, next_offset, size)

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            self._files.close(fd)
