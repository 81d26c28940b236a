"""The offset index of a closed segment: where in it to begin reading, in Kafka's format.

An entry is two int32, big-endian: the last offset of a batch, less the segment's base offset, and the position of that
batch. Both rise; there is an entry for the first batch that starts more than INTERVAL_BYTES after the one before.

Nobody's word is taken from here: an index is neither synced nor checksummed, and an entry counts only when the batch
at its position is sound and ends at its offset. An index that is missing, short or wrong, or cannot be read, is made
anew.
"""

from __future__ import annotations

import logging
import struct
from bisect import bisect_right
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import Final

from protocol.records.batches import UnsupportedBatch
from shim.log.disk.files import Files
from shim.log.disk.layout import index_name
from shim.log.segments.segment import BadBytes, Segment, SoundBatch, Unread, closed_batches, sound_batches

INTERVAL_BYTES: Final = 4096
"""Kafka's default of ``log.index.interval.bytes``."""

_ENTRY: Final = struct.Struct(">ii")
ENTRY_SIZE: Final = _ENTRY.size

_logger = logging.getLogger(__name__)


class IndexBuilder:
    """Gathers the entries of one segment, whose batches are told in order."""

    __slots__ = ("_base_offset", "_entries", "_since")

    def __init__(self, base_offset: int) -> None:
        self._base_offset = base_offset
        self._entries: list[bytes] = []
        self._since = 0

    def begin_at(self, last_offset: int, position: int, size: int) -> None:
        """In the place of those that were not told: this batch has an entry."""
        self._entries.append(_ENTRY.pack(last_offset - self._base_offset, position))
        self._since = size

    def add(self, last_offset: int, position: int, size: int) -> bool:
        """Whether this batch got an entry."""
        due = self._since > INTERVAL_BYTES
        if due:
            self._entries.append(_ENTRY.pack(last_offset - self._base_offset, position))
            self._since = 0
        self._since += size
        return due

    def position_for(self, offset: int) -> int:
        """Of a batch, or of the segment's first byte: everything before it is below ``offset``. May be asked in another
        thread while batches are told."""
        nearest = bisect_right(self._entries, offset - self._base_offset, key=_relative_offset) - 1
        return 0 if nearest < 0 else _ENTRY.unpack(self._entries[nearest])[1]

    def to_bytes(self) -> bytes:
        return b"".join(self._entries)


def _relative_offset(entry: bytes) -> int:
    relative: int = _ENTRY.unpack(entry)[0]
    return relative


def write_index(files: Files, path: Path, data: bytes) -> None:
    """Puts an index in the place of what is there, not durably. Never fails: without one, it is made when needed."""
    try:
        if files.exists(path):
            files.unlink(path)
        fd = files.create(path)
        try:
            files.write_at(fd, data, 0)
        finally:
            files.close(fd)
    except OSError as error:
        _logger.warning("%s: not written: %s", path, error)


def batches_from(
    files: Files,
    fd: int,
    segment: Segment,
    offset: int,
    *,
    unread_below: int,
    unread: Unread | None = None,
) -> Iterator[SoundBatch]:
    """The batches of a closed segment (open as ``fd``) as :func:`closed_batches` gives them, from one near to
    ``offset`` on: all that are left out are below it.

    Makes the index anew when it is missing or wrong, or cannot be read.
    """
    position, due = _starting_point(files, fd, segment, offset)
    return closed_batches(files, fd, segment, position=position, offset=due, unread_below=unread_below, unread=unread)


def _starting_point(files: Files, fd: int, segment: Segment, offset: int) -> tuple[int, int]:
    """The position of a batch, and the offset due there. Everything before that position is below ``offset``."""
    if offset <= segment.base_offset:
        return 0, segment.base_offset
    path = segment.path.with_name(index_name(segment.base_offset))
    index = _read(files, path)
    found = None if index is None else _look_up(files, fd, segment, index, offset)
    if found is None:
        index = _make_anew(files, fd, segment, path)
        found = _look_up(files, fd, segment, index, offset)
    return found or (0, segment.base_offset)


def _read(files: Files, path: Path) -> list[tuple[int, int]] | None:
    try:
        data = files.read_file(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        _logger.warning("%s: not read, and made anew: %s", path, error)
        return None
    return None if len(data) % _ENTRY.size else list(_ENTRY.iter_unpack(data))


def _make_anew(files: Files, fd: int, segment: Segment, path: Path) -> list[tuple[int, int]]:
    builder = IndexBuilder(segment.base_offset)
    for batch in closed_batches(files, fd, segment, unread_below=segment.next_offset):
        builder.add(batch.header.last_offset, batch.position, len(batch.raw))
    data = builder.to_bytes()
    write_index(files, path, data)
    return list(_ENTRY.iter_unpack(data))


def _look_up(
    files: Files, fd: int, segment: Segment, index: list[tuple[int, int]], offset: int
) -> tuple[int, int] | None:
    """As :func:`_starting_point`; None when the index is not right for the segment."""
    if not _rises(index, segment.size) or _ends_early(files, fd, segment, index):
        return None
    nearest = bisect_right(index, offset - segment.base_offset, key=itemgetter(0)) - 1
    if nearest < 0:
        return 0, segment.base_offset
    batch = _batch_of(files, fd, segment, index[nearest])
    return batch and (batch.position, batch.header.base_offset)


def _rises(index: list[tuple[int, int]], size: int) -> bool:
    last_offset, last_position = -1, 0  # no entry points to the first batch
    for relative_offset, position in index:
        if relative_offset <= last_offset or position <= last_position:
            return False
        last_offset, last_position = relative_offset, position
    return last_position < size


def _ends_early(files: Files, fd: int, segment: Segment, index: list[tuple[int, int]]) -> bool:
    """Whether an entry is missing after the last one, or the last one is wrong."""
    builder = IndexBuilder(segment.base_offset)
    position = index[-1][1] if index else 0
    try:
        for batch in sound_batches(
            files, fd, segment.size, 0, position=position, gaps=True, unread_below=segment.next_offset
        ):
            if builder.add(batch.header.last_offset, batch.position, len(batch.raw)):
                return True
    except (BadBytes, UnsupportedBatch):
        return True
    return False


def _batch_of(files: Files, fd: int, segment: Segment, entry: tuple[int, int]) -> SoundBatch | None:
    """The batch that an index entry points to; None when it is not what the entry says."""
    relative_offset, position = entry
    try:
        batch = next(
            sound_batches(files, fd, segment.size, 0, position=position, gaps=True, unread_below=segment.next_offset)
        )
    except (BadBytes, UnsupportedBatch):
        return None
    return batch if batch.header.last_offset == segment.base_offset + relative_offset else None
