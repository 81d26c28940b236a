"""How offsets moved: by whom, how often, backwards, not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

from pipeline.history.jobs.commits import KEY, ORDER, WHO

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, WindowSpec

MINUTE_MS = 60_000


def _in_order() -> WindowSpec:
    return Window.partitionBy(*KEY).orderBy(*ORDER)


def who(commits: DataFrame) -> DataFrame:
    """Every commit, in the order of the log. ``change``: against the commit before, null of the first one there is."""
    change = F.col("offset") - F.lag("offset").over(_in_order())
    return (
        commits.withColumn("change", change)
        .orderBy(*KEY, *ORDER)
        .select("time", *KEY, "offset", "change", "metadata", "generation_id", *WHO)
    )


def rewinds(commits: DataFrame) -> DataFrame:
    """Where an offset went back: from where, by how many, by whom, and who had been there before."""
    before = {name: F.lag(name).over(_in_order()) for name in ("offset", "client_id", "time")}
    return (
        commits.withColumns(
            {"from_offset": before["offset"], "client_before": before["client_id"], "time_before": before["time"]}
        )
        .filter(F.col("offset") < F.col("from_offset"))
        .withColumn("rewound", F.col("from_offset") - F.col("offset"))
        .orderBy(*KEY, *ORDER)
        .select(
            *("time", *KEY, "from_offset", F.col("offset").alias("to_offset"), "rewound", "generation_id", *WHO),
            *("client_before", "time_before"),
        )
    )


def rate(commits: DataFrame, every_ms: int) -> DataFrame:
    """Commits and offsets of each group in each stretch of that length in which it had any, and both a minute.

    One commit is what one client wrote in one millisecond: the history does not say where a request begins.
    """
    minutes = every_ms / MINUTE_MS
    one = F.struct("time", "generation_id", "member_id", "client_id", "client_host")
    begin = (F.floor(F.col("time") / F.lit(every_ms)) * F.lit(every_ms)).cast("bigint")
    return (
        commits.groupBy("group", begin.alias("begin"))
        .agg(F.count_distinct(one).alias("commits"), F.count(F.lit(1)).alias("offsets"))
        .withColumns(
            {
                "commits_per_minute": F.round(F.col("commits") / minutes, 3),
                "offsets_per_minute": F.round(F.col("offsets") / minutes, 3),
            }
        )
        .orderBy("group", "begin")
    )


def stuck(commits: DataFrame, in_force: DataFrame, at_ms: int, for_ms: int) -> DataFrame:
    """Offsets in force that have not moved for so long, up to that moment.

    ``since``: when it was first committed where it is; ``commits_since``: how often it was committed there again;
    ``last_commit``: when the last time, and by whom. Null-free but for who it was.

    Of an offset that the history knows nothing of (it is older than that, or was imported, or taken over from another
    place) the log says since when it is in force, and nobody who it was.
    """
    before = F.lag("offset").over(_in_order())
    moved = before.isNull() | (before != F.col("offset"))
    place = F.struct(*ORDER)
    last = [F.max_by(name, place).alias(name) for name in ("offset", *WHO)]
    runs = (
        commits.filter(F.col("time") <= at_ms)
        .withColumn("run", F.sum(moved.cast("bigint")).over(_in_order()))
        .groupBy(*KEY, "run")
        .agg(F.min("time").alias("since"), F.max("time").alias("last_commit"), F.count(F.lit(1)).alias("n"), *last)
    )
    newest = Window.partitionBy(*KEY).orderBy(F.desc("run"))
    known = (
        runs.withColumn("nth", F.row_number().over(newest))
        .filter(F.col("nth") == 1)
        .select(*KEY, "offset", "since", "last_commit", (F.col("n") - 1).alias("commits_since"), *WHO)
    )
    log = in_force.select(*KEY, F.struct("offset", "time").alias("log"))
    elsewhere = (known["offset"] != F.col("log.offset")) & (known["last_commit"] < F.col("log.time"))
    by_log = (F.col("log.time") <= at_ms) & (known["offset"].isNull() | elsewhere)
    of_log = {
        "offset": F.col("log.offset"), "since": F.col("log.time"), "last_commit": F.col("log.time"),
        "commits_since": F.lit(0), **{name: F.lit(None) for name in WHO},
    }  # fmt: skip
    return (
        log.join(known, list(KEY), "left")
        .select(*KEY, *(F.when(by_log, its).otherwise(known[name]).alias(name) for name, its in of_log.items()))
        .filter(F.col("since") <= at_ms - for_ms)
        .orderBy("since", *KEY)
    )


def progress(commits: DataFrame, every_ms: int, until_ms: int) -> DataFrame:
    """Of each offset where it stood at the end of each stretch of that length, from its first commit on.

    ``moved``: against the end of the stretch before; ``commits``: how many in this one.
    """
    bucket = F.floor(F.col("time") / F.lit(every_ms)).cast("bigint")
    last_bucket = until_ms // every_ms
    ends = (
        commits.filter(F.col("time") <= until_ms)
        .withColumn("bucket", bucket)
        .groupBy(*KEY, "bucket")
        .agg(F.max_by("offset", F.struct(*ORDER)).alias("last"), F.count(F.lit(1)).alias("n"))
    )
    grid = (
        ends.groupBy(*KEY)
        .agg(F.min("bucket").alias("first"))
        .withColumn("bucket", F.explode(F.sequence(F.col("first"), F.lit(last_bucket))))
        .drop("first")
    )
    so_far = Window.partitionBy(*KEY).orderBy("bucket")
    offset = F.last("last", ignorenulls=True).over(so_far)
    end = F.least((F.col("bucket") + 1) * every_ms - 1, F.lit(until_ms))
    return (
        grid.join(ends, [*KEY, "bucket"], "left")
        .withColumns({"time": end, "offset": offset, "commits": F.coalesce(F.col("n"), F.lit(0))})
        .withColumn("moved", F.col("offset") - F.lag("offset").over(so_far))
        .orderBy(*KEY, "bucket")
        .select("time", *KEY, "offset", "moved", "commits")
    )
