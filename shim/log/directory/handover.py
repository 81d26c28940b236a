"""What one process leaves to the next: recovery points, whether it ended in good order, and how it flushed.

::

    DIR/recovery-point-offset-checkpoint    of each partition the offset below which everything was synced
    DIR/.kafka_cleanshutdown                the last process closed the log and all of it is durable, as brokers note it
    DIR/flush.properties                    records were acknowledged before they were flushed

Of the last one only the presence counts. A note of a good end that is empty says nothing: so it can be made only to be
removed, where an earlier removal may not have come to the disk.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from protocol.topic_partition import TopicPartition
from shim.log.disk.checkpoint import RECOVERY_POINT_CHECKPOINT, read_checkpoint, write_checkpoint
from shim.log.disk.files import Files
from shim.log.disk.layout import has_other_topics
from shim.log.disk.names import give_anew
from shim.log.partition.partition import PartitionLog
from shim.log.recovery.recovery import LeftBehind
from shim.log.settings import LogSettings

CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
LOOSE_FLUSH: Final = "flush.properties"
_CLEAN: Final = b'{"version":0,"brokerEpoch":-1}'


def recovery_points(files: Files, data_dir: Path) -> dict[TopicPartition, int]:
    """As the last process noted them. Raises LogError when the note is damaged, OSError."""
    return read_checkpoint(files, data_dir / RECOVERY_POINT_CHECKPOINT)


def closed_clean(files: Files, data_dir: Path) -> bool:
    """Whether the last process closed the log in good order. Raises OSError."""
    try:
        return files.size_of(data_dir / CLEAN_SHUTDOWN) > 0
    except FileNotFoundError:
        return False


def take_over(files: Files, data_dir: Path, *, flushes_first: bool) -> LeftBehind:
    """What the last process left; from here on this one is at work, durably, as all names in ``data_dir`` are then.

    Raises OSError. Where the names could not be synced all is as it was, for the next process to do it anew.

    The note of a good end is removed even where there is none: a process that could not sync that, and was killed
    before it had put it back, has left the next one nothing to write. The note would be there after a power failure,
    and the journal count for nothing.
    """
    clean, loose = data_dir / CLEAN_SHUTDOWN, data_dir / LOOSE_FLUSH
    left = LeftBehind(closed_clean(files, data_dir), files.exists(loose))
    if not files.exists(clean):
        files.close(files.create(clean))  # so that the sync has something to write
    files.unlink(clean)
    try:
        if not flushes_first:  # anew where it is there, for the same reason
            give_anew(files, loose, b"version=1\nflush.before.acknowledge=false\n")
        files.sync_directory(data_dir)
    except OSError:
        with suppress(OSError):
            if left.clean:  # it still is: nothing was written
                _note_clean(files, clean, durably=False)
            if not left.loose and files.exists(loose):
                files.unlink(loose)
        raise
    return left


def leave_clean(files: Files, data_dir: Path) -> None:
    """Note durably that all there is was closed in good order; the last thing to do. Raises OSError."""
    _note_clean(files, data_dir / CLEAN_SHUTDOWN, durably=True)
    files.sync_directory(data_dir)


class Handover:
    """What this process found, and what it leaves. There may be topics in the directory that it has not opened: their
    recovery points stay as they are, and nothing is claimed about them.

    Of one that has only a share of the directory (``share_folder``: where it notes that): of its own partitions alone,
    and whoever gathers the shares says whether the directory was closed in good order.
    """

    def __init__(
        self,
        files: Files,
        data_dir: Path,
        settings: LogSettings,
        left: LeftBehind,
        points: Mapping[TopicPartition, int],
        logs: Collection[PartitionLog],
        share_folder: Path | None = None,
    ) -> None:
        self._files = files
        self._data_dir = data_dir
        self._notes = share_folder or data_dir
        self._has_all = share_folder is None
        self._settings = settings
        self._left = left
        self._logs = logs
        self._noted = dict(points)
        # What the last process noted it may not have got to the disk: the first note of this one is written anyway.
        self._has_noted = False
        self._loose = left.loose or not settings.flushes_first
        topics = {log.topic_partition.topic for log in logs}
        self._knows_all = not has_other_topics(files, data_dir, topics)

    def note(self) -> Mapping[TopicPartition, int]:
        """Note durably up to where each partition is synced, and give that. Raises OSError, and what was noted before
        still holds."""
        points = dict(self._noted)
        for log in self._logs:
            if log.recovery_point or log.topic_partition in points:
                points[log.topic_partition] = log.recovery_point
        if points and not (self._has_noted and points == self._noted):
            write_checkpoint(self._files, self._notes / RECOVERY_POINT_CHECKPOINT, points)
            self._noted, self._has_noted = points, True
        if (
            self._has_all
            and self._loose
            and self._settings.flushes_first
            and self._knows_all
            and all(log.recovered for log in self._logs)
        ):
            # All are recovered, and are flushed first from then on. A crash may undo this: it only makes the next
            # recovery ask for less proof.
            self._files.unlink(self._data_dir / LOOSE_FLUSH)
            self._loose = False
        return self._noted

    def leave(self) -> bool:
        """The last thing before the files are closed. Gives whether all is in good order. Raises OSError: the next
        process then starts as after a crash."""
        self.note()
        is_clean = all(log.ends_clean for log in self._logs) and (self._knows_all or self._left.clean)
        if is_clean and self._has_all:
            leave_clean(self._files, self._data_dir)
        return is_clean


def _note_clean(files: Files, note: Path, *, durably: bool) -> None:
    fd = files.create(note)
    try:
        files.write_at(fd, _CLEAN, 0)
        if durably:
            files.fdatasync(fd)
    finally:
        files.close(fd)
