"""The places joined into one table by Spark, judged, and looked at again where they differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import or_
from threading import Event
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import functions as F  # noqa: N812  # what all of Spark's own documentation calls it
from pyspark.storagelevel import StorageLevel

from pipeline.audit import tasks
from pipeline.audit.asked import Addresses
from pipeline.audit.verdicts import Rules
from pipeline.audit.words import DIFFERENCES, PAIRS, PLACES, ZOOKEEPER, Verdict, WhereGroup
from shim.counted import counted

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pyspark.sql import Column, DataFrame, SparkSession

_KEY: Final = ("group", "topic", "partition")
_GROUPS_A_TASK: Final = 500
_SHUFFLE_PARTITIONS: Final = "spark.sql.shuffle.partitions"
_SPARKS_OWN: Final = 200
"""Of them, where nobody sets it."""

COLUMNS: Final = (
    *_KEY,
    "step",
    *PLACES,
    "log_start",
    "log_end",
    "lag",
    *(pair.column for pair in PAIRS),
    "mzxid",
    "mtime",
    *(f"{place}_read" for place in PLACES),
    "looks",
    "problem",
)
"""Of the table. ``mzxid``, ``mtime``: of the znode. ``…_read``: when that place was read, as a timestamp. ``looks``: 2
where it was looked at again."""


class Audit(NamedTuple):
    """``mapInArrow`` keeps nothing, so that what is used twice is kept by Spark: a part that is lost with its executor
    is read again, at its own time."""

    spark: SparkSession
    addresses: Addresses
    rules: Rules
    second_look_seconds: float
    """What follows another place has so long to come there."""
    watching: Callable[[str], AbstractContextManager[object]]
    """Shows a stretch of work."""

    def table(self, wheres: Sequence[WhereGroup], find_again: Callable[[], Sequence[WhereGroup]]) -> DataFrame:
        """``COLUMNS``, a row for each partition that any place has an offset of, or that could not be read.

        It is kept, in the order of group, topic and partition. ``find_again``: where the groups are by now, for the
        second look: a place may list one that it did not have before.
        """
        self._shuffle_over(len(wheres))
        where = self._distributed(wheres)
        with self.watching(f"reading {counted(len(wheres), 'group')}"):
            first = _kept(self._judged(self._joined(where), looks=1))
            differing = _kept(first.where(differs()).select("group").distinct())
            groups_again = differing.count()
        if not groups_again:
            return _kept(_shown(first).orderBy(*_KEY))
        Event().wait(self.second_look_seconds)  # for time to pass: nobody tells when a copy has followed
        with self.watching(f"looking again at {counted(groups_again, 'group')} with differences"):
            by_now = self._distributed(find_again()).join(differing, "group", "left_semi")
            again = self._joined(_spread(by_now, groups_again))
            was = first.join(differing, "group", "left_semi")
            before = was.select(*_KEY, *(F.col(place).alias(f"before_{place}") for place in PLACES), "unreadable")
            before = before.withColumnRenamed("unreadable", "before_unreadable")
            of_group = was.where(F.col("topic") == "").groupBy("group").agg(F.max("unreadable").alias("group_unread"))
            both = again.join(before, [*_KEY], "left").join(F.broadcast(of_group), "group", "left")
            unread = F.coalesce(F.col("before_unreadable"), F.col("group_unread"))
            both = both.withColumn("before_unreadable", unread).drop("group_unread")
            second = _kept(self._judged(both, looks=2))  # to be sorted it is read twice
            of_first = first.join(differing, "group", "left_anti")
            whole = _kept(_shown(of_first).unionByName(_shown(second)).orderBy(*_KEY))
            whole.count()  # now, and not after what it was made of is let go
        first.unpersist()
        differing.unpersist()
        return whole

    def _shuffle_over(self, groups: int) -> None:
        """Each is a task in Python, several times: of 200 for a few groups most have nothing, and take their time."""
        context = self.spark.sparkContext
        if not context.getConf().contains(_SHUFFLE_PARTITIONS):
            self.spark.conf.set(_SHUFFLE_PARTITIONS, shuffle_partitions(context.defaultParallelism, groups))

    def where(self, wheres: Sequence[WhereGroup]) -> DataFrame:
        """As tasks take it."""
        return self.spark.createDataFrame(tasks.where_table(wheres), tasks.WHERE_SCHEMA)

    def _distributed(self, wheres: Sequence[WhereGroup]) -> DataFrame:
        return _spread(self.where(wheres), len(wheres))

    def _joined(self, where: DataFrame) -> DataFrame:
        """As a full outer join of the places by group, topic and partition: each has one row of it at most, so that one
        shuffle does what two joins would."""
        readings = _kept(where.mapInArrow(tasks.readings(self.addresses), tasks.READINGS_SCHEMA))
        per_place = [
            made
            for place in PLACES
            for made in (
                _of(place, "offset").alias(place),
                _of(place, "read_ms").alias(f"{place}_read_ms"),
            )
        ]
        znode = [_of(ZOOKEEPER, each).alias(each) for each in ("mzxid", "mtime_ms")]
        places = F.collect_set(F.when(F.col("problem").isNotNull(), F.col("place")))
        unreadable = F.concat_ws(",", F.max("unread"), places)
        problem = F.concat_ws("; ", F.sort_array(F.collect_set("problem")))
        rows = readings.groupBy(*_KEY).agg(
            F.max("step").alias("step"), *per_place, *znode, unreadable.alias("unreadable"), problem.alias("problem")
        )
        return rows.join(self._log_ends(readings), ["topic", "partition"], "left")

    def _log_ends(self, readings: DataFrame) -> DataFrame:
        topics = readings.where(F.col("topic") != "").select("topic").distinct()
        parts = max(1, self.spark.sparkContext.defaultParallelism)
        read = topics.repartition(parts).mapInArrow(tasks.log_ends(self.addresses.upstream), tasks.LOG_ENDS_SCHEMA)
        return read.where(F.col("topic").isNotNull())

    def _judged(self, joined: DataFrame, looks: int) -> DataFrame:
        schema = ", ".join(f"`{each.name}` {each.dataType.simpleString()}" for each in joined.schema.fields)
        added = joined.mapInArrow(tasks.judged(self.rules, looks), f"{schema}, {tasks.JUDGED_SCHEMA}")
        return added.withColumn("looks", F.lit(looks))


def differs() -> Column:
    """Of a row: a verdict that makes the exit status 1, or one that a second look may clear up."""
    return _any_pair(*DIFFERENCES, Verdict.MOVING)


def shuffle_partitions(cores: int, groups: int) -> int:
    """So that all cores have some, and none has too many."""
    return max(min(cores, _SPARKS_OWN), -(-groups // _GROUPS_A_TASK))


def is_compared() -> Column:
    """It has a verdict."""
    return reduce(or_, (F.col(pair.column).isNotNull() for pair in PAIRS))


def is_difference() -> Column:
    return _any_pair(*DIFFERENCES)


def _any_pair(*verdicts: Verdict) -> Column:
    columns = (F.coalesce(F.col(pair.column).isin(*(each.value for each in verdicts)), F.lit(False)) for pair in PAIRS)
    return reduce(or_, columns)


def _of(place: str, column: str) -> Column:
    return F.max(F.when(F.col("place") == place, F.col(column)))


def _shown(judged: DataFrame) -> DataFrame:
    times = {"mtime": "mtime_ms", **{f"{place}_read": f"{place}_read_ms" for place in PLACES}}
    with_times = judged.withColumns({name: F.timestamp_millis(F.col(ms)) for name, ms in times.items()})
    return with_times.withColumn("problem", F.nullif(F.col("problem"), F.lit(""))).select(*COLUMNS)


def _kept(frame: DataFrame) -> DataFrame:
    return frame.persist(StorageLevel.MEMORY_AND_DISK)


def _spread(groups: DataFrame, count: int) -> DataFrame:
    """Over tasks such that all cores have some, and none has too many."""
    cores = groups.sparkSession.sparkContext.defaultParallelism
    return groups.repartition(max(1, min(cores, count), -(-count // _GROUPS_A_TASK)), "group")
