"""Reading a log that goes on: what is acknowledged of it, while others append and compact."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from protocol.records.batches import BatchHeader
from shim.log.active import LogEnd
from shim.log.closed import ClosedSegments
from shim.log.files import Files
from shim.log.index import batches_from
from shim.log.segment import Segment, SoundBatch, closed_batches


def read_on(
    files: Files,
    closed: ClosedSegments,
    end: Callable[[], LogEnd],
    position_for: Callable[[Segment, int], int],
    offset: int,
    check_current: Callable[[], None],
    unread: Callable[[BatchHeader], bool] | None = None,
) -> Iterator[SoundBatch]:
    """The batches from the one that holds ``offset`` on, or from the first after it, up to where the log ended when its
    last segment was opened.

    ``position_for``: where in the segment that the log ends in to begin for an offset below its end, as
    the index says of closed ones. ``check_current`` is called before each batch, and raises when what is
    read may be changing. ``unread``: see :func:`sound_batches`. Raises CorruptLog, LogError while a recovery is under
    way, OSError.
    """
    is_last = False
    while not is_last:
        segment, is_last, fd = closed.open_at(offset, end)
        try:
            if is_last:  # it has no file of an index before it is closed
                position = position_for(segment, min(offset, segment.next_offset - 1))
                batches = closed_batches(files, fd, segment, position=position, unread_below=offset, unread=unread)
            else:
                batches = batches_from(files, fd, segment, offset, unread_below=offset, unread=unread)
            for batch in batches:
                check_current()
                if batch.header.next_offset > offset:
                    yield batch
        finally:
            files.close(fd)
        offset = max(offset, segment.next_offset)
