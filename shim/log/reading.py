"""Reading a log that goes on: what is acknowledged of it, while others append and compact."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from shim.log.active import LogEnd
from shim.log.closed import ClosedSegments
from shim.log.files import Files
from shim.log.index import starting_point
from shim.log.segment import SoundBatch, closed_batches


def read_on(
    files: Files, closed: ClosedSegments, end: Callable[[], LogEnd], offset: int, check_current: Callable[[], None]
) -> Iterator[SoundBatch]:
    """The batches from the one that holds ``offset`` on, or from the first after it, up to where the log ended when its
    last segment was opened.

    ``check_current`` is called before each, and raises when what is read may be changing. Raises CorruptLog, LogError
    while a recovery is under way, OSError.
    """
    is_last = False
    while not is_last:
        segment, is_last, fd = closed.open_at(offset, end)
        try:
            # The active segment has no index before it is closed.
            position, due = (0, segment.base_offset) if is_last else starting_point(files, fd, segment, offset)
            for batch in closed_batches(files, fd, segment, position=position, offset=due, unread_below=offset):
                check_current()
                if batch.header.next_offset > offset:
                    yield batch
        finally:
            files.close(fd)
        offset = max(offset, segment.next_offset)
