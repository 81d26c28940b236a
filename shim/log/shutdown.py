"""What one process leaves to the next: whether it ended in good order, and how it flushed.

::

    DIR/.kafka_cleanshutdown    the last process closed the log and everything in it is durable, as brokers note it
    DIR/flush.properties        records were acknowledged before they were flushed

Of both files only the presence counts, so their contents need no sync of their own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from shim.log.files import Files

CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
LOOSE_FLUSH: Final = "flush.properties"


class LeftBehind(NamedTuple):
    """``clean``: no write was under way when the last process ended, so no torn write explains any damage.

    ``loose``: several batches may have been on their way to the disk at once, which gets to them in any order.
    """

    clean: bool
    loose: bool


def take_over(files: Files, data_dir: Path, *, flushes_first: bool) -> LeftBehind:
    """What the last process left; from here on this one is at work. The caller syncs ``data_dir`` before any write."""
    clean, loose = data_dir / CLEAN_SHUTDOWN, data_dir / LOOSE_FLUSH
    left = LeftBehind(files.exists(clean), files.exists(loose))
    if left.clean:
        files.unlink(clean)
    if not flushes_first and not left.loose:
        _leave(files, loose, b"version=1\nflush.before.acknowledge=false\n")
    return left


def leave_clean(files: Files, data_dir: Path) -> None:
    """Note durably that all there is was closed in good order; the last thing to do. Raises OSError."""
    _leave(files, data_dir / CLEAN_SHUTDOWN, b'{"version":0,"brokerEpoch":-1}')
    files.sync_directory(data_dir)


def forget_loose_flush(files: Files, data_dir: Path) -> None:
    """Every partition has been recovered, and from then on was flushed first. A crash may undo this: it only makes
    the next recovery ask for less proof."""
    files.unlink(data_dir / LOOSE_FLUSH)


def _leave(files: Files, path: Path, content: bytes) -> None:
    fd = files.create(path)
    try:
        files.write_at(fd, content, 0)
    finally:
        files.close(fd)
