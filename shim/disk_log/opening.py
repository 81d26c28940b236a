"""Which topics the shim keeps in its data directory."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from protocol.own.history_log import HISTORY_TOPIC
from protocol.own.state_log import STATE_TOPIC
from protocol.partition import OFFSETS_TOPIC
from shim.config import Settings
from shim.log import DataDir, LogSettings, OffsetsLog, Share
from shim.log.disk.files import Files
from shim.log.disk.layout import ANY_SEGMENT
from shim.log.disk.open_files import allow_open_files
from shim.log.journal.journal import JOURNAL_NAME

log = logging.getLogger(__name__)

_OTHER_FILES: Final = 256
"""Besides the log's: ports, connections of clients and to brokers, what recovery, cleaner and snapshots have open."""


def open_log(
    data_dir: Path, settings: Settings, *, files: Files | None = None, held: DataDir | None = None
) -> OffsetsLog:
    """The log with the offsets, the shim's own state, and the history where one is kept, or was; the process is allowed
    the open files.

    ``held``: the directory, where it was taken before. Blocking; raises as OffsetsLog.open, and LogError where the
    process may not have so many files open.
    """
    return OffsetsLog.open(
        data_dir,
        settings.offsets_topic_num_partitions,
        topics=_topics(data_dir, settings),
        settings=LogSettings.of(settings),
        files=files,
        held=held,
    )


def open_whole(data_dir: Path, settings: Settings, held: DataDir | None = None, *, says_new: bool = True) -> OffsetsLog:
    """Likewise, by who is about to serve it. ``says_new``: whether that it is new is to be told, at each start until
    something was written: the first one may have been in vain. Raises as :func:`open_log`, and OSError."""
    is_new = says_new and not _was_written(data_dir)
    offsets_log = open_log(data_dir, settings, held=held)
    if is_new:
        log.warning(
            "data directory %s is new: groups that nobody else knows start without offsets; if this shim had another "
            "one before, end it now, and name that one (--data-dir)",
            data_dir.resolve(),
        )
    return offsets_log


def _was_written(data_dir: Path) -> bool:
    """What a power failure has taken from the segments is in the journal."""
    in_segments = (segment.stat().st_size for segment in data_dir.glob(f"*/{ANY_SEGMENT}"))
    return (data_dir / JOURNAL_NAME).exists() or any(in_segments)


def open_share(
    data_dir: Path, settings: Settings, share: Share, *, clean: bool, files: Files | None = None
) -> OffsetsLog:
    """Likewise, of a directory that was opened with the same settings, and dealt out. Raises as
    OffsetsLog.open_share."""
    return OffsetsLog.open_share(
        data_dir,
        settings.offsets_topic_num_partitions,
        share,
        clean=clean,
        topics=_topics(data_dir, settings),
        settings=LogSettings.of(settings),
        files=files,
    )


def _topics(data_dir: Path, settings: Settings) -> Sequence[str]:
    with_history = settings.offsets_history_retention_minutes > 0 or (data_dir / f"{HISTORY_TOPIC}-0").exists()
    topics = (OFFSETS_TOPIC, STATE_TOPIC, *((HISTORY_TOPIC,) if with_history else ()))
    allow_open_files(len(topics) * settings.offsets_topic_num_partitions, _OTHER_FILES)
    return topics
