"""From one process to the next: recovery points, whether the end was clean, how it was flushed."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from pathlib import Path

from shim.log.checkpoint import RECOVERY_POINT_CHECKPOINT, TopicPartition, read_checkpoint, write_checkpoint
from shim.log.data_dir import has_other_topics
from shim.log.files import Files
from shim.log.partition import PartitionLog
from shim.log.settings import LogSettings
from shim.log.shutdown import LeftBehind, forget_loose_flush, leave_clean

_logger = logging.getLogger(__name__)


def recovery_points(files: Files, data_dir: Path) -> dict[TopicPartition, int]:
    """As the last process noted them. Raises LogError when the note is damaged, OSError."""
    return read_checkpoint(files, data_dir / RECOVERY_POINT_CHECKPOINT)


class Handover:
    """What this process found, and what it leaves. There may be topics in the directory that it has not opened: their
    recovery points stay as they are, and nothing is claimed about them.
    """

    def __init__(
        self,
        files: Files,
        data_dir: Path,
        settings: LogSettings,
        left: LeftBehind,
        noted: Mapping[TopicPartition, int],
        logs: Collection[PartitionLog],
    ) -> None:
        self._files = files
        self._data_dir = data_dir
        self._settings = settings
        self._left = left
        self._logs = logs
        self._noted = dict(noted)
        self._loose = left.loose or not settings.flushes_first
        topics = {log.topic_partition.topic for log in logs}
        self._knows_all = not has_other_topics(files, data_dir, topics)

    @property
    def noted(self) -> Mapping[TopicPartition, int]:
        """The recovery points that are on the disk."""
        return self._noted

    def note(self) -> None:
        """Note durably up to where each partition is synced; raises OSError, and what was noted before still holds."""
        points = dict(self._noted)
        for log in self._logs:
            if log.recovery_point or log.topic_partition in points:
                points[log.topic_partition] = log.recovery_point
        if points != self._noted:
            write_checkpoint(self._files, self._data_dir / RECOVERY_POINT_CHECKPOINT, points)
            self._noted = points
        if (
            self._loose
            and self._settings.flushes_first
            and self._knows_all
            and all(log.recovered for log in self._logs)
        ):
            forget_loose_flush(self._files, self._data_dir)
            self._loose = False

    def leave(self) -> None:
        """The last thing before the files are closed. Raises OSError: the next process then starts as after a crash."""
        self.note()
        if all(log.ends_clean for log in self._logs) and (self._knows_all or self._left.clean):
            leave_clean(self._files, self._data_dir)
