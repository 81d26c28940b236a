"""The commands, each from its options to its answer."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812

from pipeline.console import SOMETHING_WRONG
from pipeline.errors import NotDone
from pipeline.history.ends import ends_at, newest_ends
from pipeline.history.jobs import movements
from pipeline.history.jobs.commits import Source
from pipeline.history.jobs.movements import MINUTE_MS
from pipeline.history.jobs.state import state_at, state_of
from pipeline.history.output import check_target, rows_of
from pipeline.history.querying import answer, asked, collected, kafka_settings, now_ms, tell, tell_of_segments
from pipeline.history.restoring import write_folder
from shim.counted import counted
from shim.terminal.times import time_shown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_DAY_MS: Final = 24 * 60 * MINUTE_MS
_MOST_STRETCHES: Final = 10_000

Given = Mapping[str, Any]


def run_who(given: Given, topic: str | None, partition: int | None, from_ms: int | None, to_ms: int | None) -> None:
    def ask(source: Source) -> DataFrame:
        commits = source.commits()
        if topic is not None:
            commits = commits.filter(F.col("topic") == topic)
        if partition is not None:
            commits = commits.filter(F.col("partition") == partition)
        # Only now, so that the first one of the time knows what it has changed.
        return _within(movements.who(commits), from_ms, to_ms)

    answer(given, ask)


def run_rewinds(given: Given, from_ms: int | None, to_ms: int | None) -> None:
    answer(given, lambda source: _within(movements.rewinds(source.commits()), from_ms, to_ms))


def run_rate(given: Given, every: float, from_ms: int | None, to_ms: int | None) -> None:
    answer(given, lambda source: movements.rate(source.commits(from_ms, to_ms), _ms(every)))


def run_stuck(given: Given, minutes: float, at_ms: int | None) -> None:
    settings = kafka_settings(given)
    servers = given["bootstrap_servers"]
    at = now_ms() if at_ms is None else at_ms

    def ask(source: Source) -> DataFrame:
        found = movements.stuck(source.commits(), source.in_force(), at, _ms(minutes))
        if servers is None:
            return found
        partitions = _partitions(source, found)
        ends = newest_ends(servers, settings, partitions)
        if unknown := len(partitions) - len(ends):
            click.echo(f"left out {counted(unknown, 'partition')} that the cluster does not have", err=True)
        rows = [(topic, partition, end) for (topic, partition), end in ends.items()]
        frame = source.spark.createDataFrame(rows, "topic string, partition int, end_offset bigint")
        lag = F.col("end_offset") - F.col("offset")
        return (
            found.join(F.broadcast(frame), ["topic", "partition"])
            .withColumn("lag", lag)
            .filter(F.col("lag") > 0)
            .select(*found.columns, "end_offset", "lag")
            .orderBy("since", "group", "topic", "partition")
        )

    answer(given, ask)


def run_lag(given: Given, every: float, from_ms: int | None, to_ms: int | None) -> None:
    settings = kafka_settings(given)
    servers = given["bootstrap_servers"]
    every_ms = _ms(every)
    until = min(now_ms() if to_ms is None else to_ms, now_ms())
    begin = until - _DAY_MS if from_ms is None else from_ms
    if (until - begin) // every_ms > _MOST_STRETCHES:
        raise NotDone(f"more than {_MOST_STRETCHES:,} stretches: a longer --every, or a later --from")

    def ask(source: Source) -> DataFrame:
        found = movements.progress(source.commits(), every_ms, until).filter(F.col("time") >= begin)
        if servers is None:
            return found
        times = [row["time"] for row in collected(source, found.select("time").distinct()).to_pylist()]
        ends = ends_at(servers, settings, _partitions(source, found), sorted(times))
        schema = "topic string, partition int, time bigint, end_offset bigint"
        frame = source.spark.createDataFrame([tuple(end) for end in ends], schema)
        return (
            found.join(frame, ["topic", "partition", "time"], "left")
            .withColumn("lag", F.col("end_offset") - F.col("offset"))
            .select(*found.columns, "end_offset", "lag")
            .orderBy("group", "topic", "partition", "time")
        )

    answer(given, ask)


def run_state(given: Given, at_ms: int | None, to_folder: Path | None, folder_partitions: int) -> None:
    if given["target"] is not None:
        check_target(given["target"])
    if to_folder is not None and to_folder.exists():
        raise NotDone(f"{to_folder} exists already")
    now = now_ms()
    at = now if at_ms is None else at_ms
    with asked(given) as source:
        state = state_of(collected(source, state_at(source, at)), by_log_alone=at >= now)
        damaged = tell_of_segments(source)
    if state.later_only:
        why = "new since then, or what they had is forgotten"
        begins = state.history_begins
        told = "" if begins is None else f"; the history begins at {time_shown(begins)}"
        click.echo(f"{counted(state.later_only, 'offset')} known from later commits only: {why}{told}", err=True)
    if gone := pc.sum(state.offsets["gone_since"]).as_py():
        why = "in the history alone: deleted since then, or before"
        click.echo(f"{counted(gone, 'offset')} {why} (GONE SINCE)", err=True)
    if to_folder is not None:
        count = write_folder(to_folder, rows_of(state.offsets), folder_partitions, at)
        click.echo(f"{counted(count, 'offset')} in {to_folder}", err=True)
    if to_folder is None or given["json_wanted"] or given["target"] is not None:
        extra = {"at": at, "later_only": state.later_only, "history_begins": state.history_begins}
        tell(state.offsets, given, extra)
    if damaged:
        sys.exit(SOMETHING_WRONG)


def _partitions(source: Source, found: DataFrame) -> list[tuple[str, int]]:
    rows = collected(source, found.select("topic", "partition").distinct()).to_pylist()
    return [(row["topic"], row["partition"]) for row in rows]


def _within(found: DataFrame, from_ms: int | None, to_ms: int | None) -> DataFrame:
    if from_ms is not None:
        found = found.filter(F.col("time") >= from_ms)
    return found if to_ms is None else found.filter(F.col("time") <= to_ms)


def _ms(minutes: float) -> int:
    return max(1, round(minutes * MINUTE_MS))
