"""The closed segments of a partition: nobody writes to them, and compaction puts others in their place."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from operator import attrgetter
from pathlib import Path

from shim.log.disk.files import Files
from shim.log.disk.layout import segment_base_offsets, segment_name
from shim.log.errors import LogError
from shim.log.segments.active import LogEnd
from shim.log.segments.segment import Segment
from shim.log.segments.swap import finish_swap


class ClosedSegments:
    """What is known of them, for several threads.

    Whoever swaps files, or opens one, holds ``files_lock``, and so does whoever begins a recovery. Appends never wait
    for it: a roll only takes the lock of the list, which nobody holds while the disk is at work.
    """

    def __init__(self, files: Files, folder: Path) -> None:
        self.files_lock = threading.Lock()
        self._files = files
        self._folder = folder
        self._list_lock = threading.Lock()
        self._segments: tuple[Segment, ...] | None = None
        self._swap_unfinished = True  # by an earlier process, for all that is known

    def listed(self) -> tuple[Segment, ...]:
        """Rising. Raises LogError before the first recovery and while one is under way."""
        segments = self._segments
        if segments is None:
            raise LogError(f"the segments of {self._folder} are not known before it is recovered")
        return segments

    def know(self, segments: Sequence[Segment] | None) -> None:
        """These are all; None while a recovery finds out."""
        with self._list_lock:
            self._segments = None if segments is None else tuple(segments)

    def add(self, segments: Sequence[Segment]) -> None:
        """After a roll."""
        with self._list_lock:
            self._segments = (*(self._segments or ()), *segments)

    def finish_swap(self) -> None:
        """Completes a swap that broke off, if there may be one; under ``files_lock``. Raises CorruptLog, OSError."""
        if self._swap_unfinished:
            finish_swap(self._files, self._folder)
            self._list_anew()
            self._swap_unfinished = False

    def swap(self, old: Sequence[Segment], swap: Callable[[], None]) -> bool:
        """Has ``swap`` put one segment in the place of these neighbours, from the first one's base offset to the last
        one's end.

        False, nothing having been done, when these are not (or not any more) closed segments of the partition. When
        ``swap`` raises, the files are put in order before anything else is done with them.
        """
        with self.files_lock:
            self.finish_swap()
            if not old or not self._are_neighbours(old):
                return False
            self._swap_unfinished = True
            swap()
            self._replace(old)
            self._swap_unfinished = False
        return True

    def _are_neighbours(self, segments: Sequence[Segment]) -> bool:
        listed = self._segments or ()
        at = bisect_right(listed, segments[0].base_offset, key=_base_offset) - 1
        return at >= 0 and listed[at : at + len(segments)] == tuple(segments)

    def _replace(self, old: Sequence[Segment]) -> None:
        """These neighbours are one segment now, that ends where they ended."""
        size = self._files.size_of(old[0].path)
        with self._list_lock:
            listed = self._segments or ()
            at = bisect_left(listed, old[0].base_offset, key=_base_offset)
            one = old[0]._replace(next_offset=old[-1].next_offset, size=size)
            self._segments = (*listed[:at], one, *listed[at + len(old) :])

    def _list_anew(self) -> None:
        """After a swap that broke off: fewer segments than before, or smaller ones, between the same ends."""
        known = self._segments
        if not known:
            return
        bases = set(segment_base_offsets(self._files, self._folder))
        kept = [segment for segment in known if segment.base_offset in bases]
        ends = [*(segment.base_offset for segment in kept[1:]), known[-1].next_offset]
        found = [
            segment._replace(next_offset=end, size=self._files.size_of(segment.path))
            for segment, end in zip(kept, ends, strict=True)
        ]
        with self._list_lock:  # others may have been added meanwhile
            self._segments = (*found, *(self._segments or ())[len(known) :])

    def open_at(self, offset: int, end: Callable[[], LogEnd]) -> tuple[Segment, bool, int]:
        """The segment that holds ``offset``, or that begins first after it, with a descriptor of it.

        ``end`` says where the log ends; the flag is whether the segment is the one that ends there. Raises LogError
        while a recovery is under way, CorruptLog, OSError.
        """
        with self.files_lock:
            self.finish_swap()
            base_offset, size, next_offset = end()  # before the list, which a roll lengthens first
            closed = self.listed()
            active = Segment(self._folder / segment_name(base_offset), base_offset, next_offset, size)
            at = bisect_right(closed, offset, key=_base_offset) - 1
            is_last = offset >= base_offset
            segment = active if is_last else closed[max(at, 0)]
            return segment, is_last, self._files.open(segment.path)


_base_offset = attrgetter("base_offset")
