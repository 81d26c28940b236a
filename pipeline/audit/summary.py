"""What the table comes to: per group, and in all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql import functions as F  # noqa: N812

from pipeline.audit.table import is_difference
from pipeline.audit.words import NO_PARTITION, PAIRS, PLACES, Verdict

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

LAG_BUCKETS: Final = (
    ("beyond the end", None, -1),
    ("0", 0, 0),
    ("1 to 9", 1, 9),
    ("10 to 99", 10, 99),
    ("100 to 999", 100, 999),
    ("1,000 to 9,999", 1_000, 9_999),
    ("10,000 to 99,999", 10_000, 99_999),
    ("100,000 to 999,999", 100_000, 999_999),
    ("a million and more", 1_000_000, None),
)
"""Name, first and last lag."""


class Totals(NamedTuple):
    """``verdicts``: of each pair's column, how often each verdict. ``lags``: of each of ``LAG_BUCKETS`` how many
    partitions. ``steps``: groups by step. ``read``: of each place the first and the last moment that it was read at, in
    ISO 8601. ``outside``: partitions whose offset its log does not have any more, or not yet."""

    groups: int
    partitions: int
    differing_groups: int
    differences: int
    moving: int
    looked_again: int
    outside: int
    lag: int
    verdicts: Mapping[str, Mapping[str, int]]
    lags: Mapping[str, int]
    steps: Mapping[str, int]
    read: Mapping[str, tuple[str, str]]


GROUP_COLUMNS: Final = (
    "group",
    "step",
    "partitions",
    *PLACES,
    "differing",
    *(each.name.lower() for each in Verdict),
    "outside",
    "lag",
)
"""Of the summary, a row a group. ``zookeeper``, ``log``, ``upstream``: how many offsets that place has. ``differing``:
partitions with a difference. ``equal`` and so on: verdicts, of all pairs."""


_SUMMED: Final = ("partitions", "differing", "moving", "outside", "lag")


def per_group(table: DataFrame) -> DataFrame:
    counts = [
        *(F.count(F.col(place)).alias(place) for place in PLACES),
        _count(is_difference()).alias("differing"),
        *(_of_all_pairs(each).alias(each.name.lower()) for each in Verdict),
        _count(_outside()).alias("outside"),
        F.coalesce(F.sum(F.greatest(F.col("lag"), F.lit(0))), F.lit(0)).alias("lag"),
    ]
    partitions = _count(F.col("partition") != NO_PARTITION).alias("partitions")
    return table.groupBy("group", "step").agg(partitions, *counts).select(*GROUP_COLUMNS)


def totals(table: DataFrame, groups: DataFrame) -> Totals:
    """``groups``: :func:`per_group` of it."""
    verdicts = [
        _count(F.col(pair.column) == each.value).alias(f"{pair.column}.{each.value}")
        for pair in PAIRS
        for each in Verdict
    ]
    lags = [_count(_between(first, last)).alias(f"lag.{name}") for name, first, last in LAG_BUCKETS]
    read = [
        F.date_format(which(F.col(f"{place}_read")), "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'").alias(f"{place}.{name}")
        for place in PLACES
        for name, which in (("first", F.min), ("last", F.max))
    ]
    again = _count(F.col("looks") > 1).alias("again")
    (row,) = table.agg(*verdicts, *lags, *read, again).collect()
    of_all = [F.sum(each).alias(each) for each in _SUMMED]
    counts = [F.count("*").alias("groups"), _count(F.col("differing") > 0).alias("differing_groups")]
    by_step = [each.asDict() for each in groups.groupBy("step").agg(*of_all, *counts).collect()]
    sums = {name: sum(each[name] for each in by_step) for name in (*_SUMMED, "groups", "differing_groups")}
    return Totals(
        groups=sums["groups"],
        partitions=sums["partitions"],
        differing_groups=sums["differing_groups"],
        differences=sums["differing"],
        moving=sums["moving"],
        looked_again=row["again"],
        outside=sums["outside"],
        lag=sums["lag"],
        verdicts={pair.column: {each.value: row[f"{pair.column}.{each.value}"] for each in Verdict} for pair in PAIRS},
        lags={name: row[f"lag.{name}"] for name, _, _ in LAG_BUCKETS},
        steps={step_shown(each["step"]): each["groups"] for each in by_step},
        read={
            place: (row[f"{place}.first"], row[f"{place}.last"])
            for place in PLACES
            if row[f"{place}.first"] is not None
        },
    )


def step_shown(step: str | None) -> str:
    return "not asked for" if step is None else step or "not known to the shim"


def differences(table: DataFrame, most: int) -> Sequence[Mapping[str, Any]]:
    """The first of them, by group, topic and partition."""
    found = table.where(is_difference()).orderBy("group", "topic", "partition").limit(most)
    return [each.asDict() for each in found.collect()]


def differing_groups(groups: DataFrame, most: int) -> Sequence[Mapping[str, Any]]:
    """Those with most of them first."""
    found = groups.where(F.col("differing") > 0).orderBy(F.desc("differing"), "group").limit(most)
    return [each.asDict() for each in found.collect()]


def _count(condition: Column) -> Column:
    return F.count(F.when(condition, F.lit(1)))


def _of_all_pairs(verdict: Verdict) -> Column:
    first, *others = (_count(F.col(pair.column) == verdict.value) for pair in PAIRS)
    return sum(others, first)


def _outside() -> Column:
    """A consumer that goes on there is sent to `auto.offset.reset`."""
    at = F.coalesce(*(F.col(place) for place in ("log", "upstream", "zookeeper")))
    return (at < F.col("log_start")) | (at > F.col("log_end"))


def _between(first: int | None, last: int | None) -> Column:
    lag = F.col("lag")
    lowest = F.lit(True) if first is None else lag >= first
    return lowest if last is None else lowest & (lag <= last)


__all__ = ["GROUP_COLUMNS", "Totals", "differences", "differing_groups", "per_group", "step_shown", "totals"]
