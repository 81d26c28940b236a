"""What the table comes to: per group, and in all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql import functions as F  # noqa: N812

from pipeline.audit.table import is_compared, is_difference
from pipeline.audit.verdicts import Rules, why_left_out
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
    """Of what was compared, but for ``left_out_groups``, of which nothing was, and ``left_out_partitions``, some of
    which are of other groups. ``verdicts``: of each pair's column, how often each verdict. ``lags``: of each of
    ``LAG_BUCKETS`` how many partitions. ``steps``: groups by step. ``read``: of each place the first and the last
    moment that it was read at, in ISO 8601. ``outside``: partitions whose offset its log does not have any more, or not
    yet."""

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
    left_out_groups: int
    left_out_partitions: int


GROUP_COLUMNS: Final = (
    "group",
    "step",
    "partitions",
    "compared",
    *PLACES,
    "differing",
    *(each.name.lower() for each in Verdict),
    "outside",
    "lag",
)
"""Of the summary, a row a group. ``zookeeper``, ``log``, ``upstream``: how many offsets that place has. ``compared``:
of the partitions, those with a verdict; ``differing``: with a difference. ``equal`` and so on: verdicts, of all
pairs."""


def per_group(table: DataFrame) -> DataFrame:
    counts = [
        *(F.count(F.col(place)).alias(place) for place in PLACES),
        *(_of_all_pairs(each).alias(each.name.lower()) for each in Verdict),
        _count(_is_partition() & is_compared()).alias("compared"),
    ]
    return table.groupBy("group", "step").agg(*_sums(F.lit(True)), *counts).select(*GROUP_COLUMNS)


def _sums(of: Column) -> Sequence[Column]:
    """Of the rows that are ``of`` it."""
    lag = F.sum(F.when(of, F.greatest(F.col("lag"), F.lit(0))))
    return (
        _count(of & _is_partition()).alias("partitions"),
        _count(is_difference()).alias("differing"),
        _count(of & _outside()).alias("outside"),
        F.coalesce(lag, F.lit(0)).alias("lag"),
    )


def totals(table: DataFrame, groups: DataFrame, found: int) -> Totals:
    """``groups``: :func:`per_group` of it; ``found``: how many there are anywhere."""
    verdicts = [
        _count(F.col(pair.column) == each.value).alias(f"{pair.column}.{each.value}")
        for pair in PAIRS
        for each in Verdict
    ]
    lags = [_count(is_compared() & _between(first, last)).alias(f"lag.{name}") for name, first, last in LAG_BUCKETS]
    read = [
        F.date_format(which(F.col(f"{place}_read")), "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'").alias(f"{place}.{name}")
        for place in PLACES
        for name, which in (("first", F.min), ("last", F.max))
    ]
    again = _count(F.col("looks") > 1).alias("again")
    moving = _of_all_pairs(Verdict.MOVING).alias("moving")
    (row,) = table.agg(*_sums(is_compared()), moving, *verdicts, *lags, *read, again).collect()
    counts = [
        _count((F.col("compared") > 0) | (F.col("differing") > 0)).alias("groups"),
        _count(F.col("differing") > 0).alias("differing_groups"),
        F.sum(F.col("partitions") - F.col("compared")).alias("left_out"),
    ]
    by_step = [each.asDict() for each in groups.groupBy("step").agg(*counts).collect()]
    compared = sum(each["groups"] for each in by_step)
    return Totals(
        groups=compared,
        partitions=row["partitions"],
        differing_groups=sum(each["differing_groups"] for each in by_step),
        differences=row["differing"],
        moving=row["moving"],
        looked_again=row["again"],
        outside=row["outside"],
        lag=row["lag"],
        verdicts={pair.column: {each.value: row[f"{pair.column}.{each.value}"] for each in Verdict} for pair in PAIRS},
        lags={name: row[f"lag.{name}"] for name, _, _ in LAG_BUCKETS},
        steps={step_shown(each["step"]): each["groups"] for each in by_step if each["groups"]},
        read={
            place: (row[f"{place}.first"], row[f"{place}.last"])
            for place in PLACES
            if row[f"{place}.first"] is not None
        },
        left_out_groups=found - compared,
        left_out_partitions=sum(each["left_out"] for each in by_step),
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


def left_out(table: DataFrame, wheres: DataFrame, rules: Rules, most: int) -> Sequence[Mapping[str, Any]]:
    """What was not compared, the first groups by name: ``group``, ``step``, how many ``partitions`` of it, and ``why``.
    ``wheres``: of :data:`pipeline.audit.tasks.WHERE_SCHEMA`, all groups that there are."""
    rows = table.groupBy("group", "step").agg(
        _count(_is_partition() & ~is_compared()).alias("partitions"),
        *(_count(~is_compared() & F.col(place).isNotNull()).alias(place) for place in PLACES),
        F.first(F.when(~is_compared(), F.col("problem")), ignorenulls=True).alias("problem"),
        F.bool_or(is_compared()).alias("compared"),
    )
    all_groups = wheres.select("group", "is_share", F.col("step").alias("where_step")).join(rows, "group", "left")
    compared = F.coalesce(F.col("compared"), F.lit(False))
    found = all_groups.where(~compared | (F.col("partitions") > 0)).orderBy("group").limit(most)
    return [_left_out_row(each.asDict(), rules) for each in found.collect()]


def _left_out_row(row: Mapping[str, Any], rules: Rules) -> Mapping[str, Any]:
    places = [place for place in PLACES if row[place]]
    why = row["problem"] or why_left_out(rules, row["where_step"], places, is_share=row["is_share"])
    return {"group": row["group"], "step": row["where_step"], "partitions": row["partitions"] or 0, "why": why}


def _is_partition() -> Column:
    return F.col("partition") != NO_PARTITION


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


__all__ = [
    "GROUP_COLUMNS",
    "Totals",
    "differences",
    "differing_groups",
    "left_out",
    "per_group",
    "step_shown",
    "totals",
]
