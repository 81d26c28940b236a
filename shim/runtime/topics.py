"""Which topics the shim keeps in its data directory."""

from __future__ import annotations

from pathlib import Path

from shim.config import Settings
from shim.coordinator import HISTORY_TOPIC
from shim.log import OFFSETS_TOPIC, LogSettings, OffsetsLog
from shim.log.files import Files


def open_log(data_dir: Path, settings: Settings, *, files: Files | None = None) -> OffsetsLog:
    """The log with the offsets, and their history where one is kept, or was. Blocking; raises as OffsetsLog.open."""
    with_history = settings.offsets_history_retention_minutes > 0 or (data_dir / f"{HISTORY_TOPIC}-0").exists()
    return OffsetsLog.open(
        data_dir,
        settings.offsets_topic_num_partitions,
        topics=(OFFSETS_TOPIC, HISTORY_TOPIC) if with_history else (OFFSETS_TOPIC,),
        settings=LogSettings.of(settings),
        files=files,
    )
