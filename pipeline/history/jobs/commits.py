"""Where the jobs read: the log and the history of a data directory, or a broker's log directories."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

from pipeline.errors import NotDone
from pipeline.history.schemas import COLUMNS, HISTORY, OFFSETS, SEGMENTS
from pipeline.history.segments import OFFSETS_TOPIC
from pipeline.history.source import FORMAT, OffsetLogSource
from protocol.own.history_log import HISTORY_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEY: Final = ("group", "topic", "partition")
ORDER: Final = ("log_offset", "log_row")
"""Of the commits of one group."""
WHO: Final = ("member_id", "group_instance_id", "client_id", "client_host", "principal")
LOG: Final = (
    *KEY, "offset", "leader_epoch", "metadata", "commit_timestamp", "expire_timestamp",
    "log_offset", "effective_timestamp", "is_tombstone",
)  # fmt: skip


@dataclass(frozen=True)
class Source:
    """``directories``: one data directory of the shim's, or a broker's log directories (``of_broker``), which have
    neither a history nor who it was: there a commit is what compaction has left of the commits.

    ``groups``: empty for all.
    """

    spark: SparkSession
    directories: tuple[str, ...]
    of_broker: bool
    groups: tuple[str, ...] = ()
    num_partitions: int | None = None
    skip_damaged: bool = False
    _registered: list[bool] = field(default_factory=list, repr=False, compare=False)

    def read(self, what: str, columns: tuple[str, ...], **options: str) -> DataFrame:
        if not self._registered:
            self.spark.dataSource.register(OffsetLogSource)
            self._registered.append(True)
        reader = self.spark.read.format(FORMAT).option("what", what).option("columns", ",".join(columns))
        reader = reader.option("paths", json.dumps(self.directories)).option("skip_damaged", str(self.skip_damaged))
        if self.groups:
            reader = reader.option("groups", json.dumps(self.groups))
        if self.num_partitions is not None:
            reader = reader.option("num_partitions", str(self.num_partitions))
        for name, value in options.items():
            reader = reader.option(name, value)
        return reader.load()

    @cached_property
    def log(self) -> DataFrame:
        """Offsets and tombstones of `__consumer_offsets`."""
        return self.read(OFFSETS, LOG)

    @cached_property
    def has_history(self) -> bool:
        """A shim with offsets.history.retention.minutes=0 keeps none, and a broker has none."""
        return not self.of_broker and any(
            name.startswith(f"{HISTORY_TOPIC}-")
            for folder in self.directories
            for name in os.listdir(folder)  # noqa: PTH208
        )

    def commits(self, from_ms: int | None = None, to_ms: int | None = None) -> DataFrame:
        """Of that time, both ends inclusive. ``time``: when it was taken, or, in a broker's log, came into force.

        Raises NotDone for a data directory without a history.
        """
        found = self._of_broker if self.of_broker else self._of_history
        if from_ms is not None:
            found = found.filter(F.col("time") >= from_ms)
        return found if to_ms is None else found.filter(F.col("time") <= to_ms)

    @cached_property
    def _of_broker(self) -> DataFrame:
        nobody = {name: F.lit(None).cast(COLUMNS[HISTORY][name]) for name in (*WHO, "generation_id")}
        return self.log.filter(~F.col("is_tombstone")).withColumns(
            {"time": F.col("effective_timestamp"), "log_row": F.lit(0), **nobody}
        )

    @cached_property
    def _of_history(self) -> DataFrame:
        if not self.has_history:
            raise NotDone(f"{self.directories[0]} holds no history (offsets.history.retention.minutes=0)")
        value = ("offset", "leader_epoch", "metadata", "commit_timestamp", "time", "generation_id")
        return self.read(HISTORY, (*KEY, *value, *WHO, *ORDER))

    def in_force(self) -> DataFrame:
        """The keys that have an offset now: which, and the time that the log has of it."""
        value = F.struct("is_tombstone", "offset", "effective_timestamp")
        newest = self.log.groupBy(*KEY).agg(F.max_by(value, "log_offset").alias("its"))
        time = F.col("its.effective_timestamp").alias("time")
        return newest.filter(~F.col("its.is_tombstone")).select(*KEY, "its.offset", time)

    def segments(self, *, newest_alone: bool) -> DataFrame:
        """What the segments are like, of all that the jobs read; or the newest of each partition alone, which is where
        a torn write can be."""
        topics = (OFFSETS_TOPIC, HISTORY_TOPIC) if self.has_history else (OFFSETS_TOPIC,)
        each = [
            self.read(SEGMENTS, tuple(COLUMNS[SEGMENTS]), topic=topic, newest=str(newest_alone)) for topic in topics
        ]
        return each[0] if len(each) == 1 else each[0].unionAll(each[1])
