"""From the options of a command to the table that answers, with what has to be told beside it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from pipeline.console import SOMETHING_WRONG
from pipeline.errors import NotDone, SomethingWrong
from pipeline.history.errors import told_by
from pipeline.history.jobs.commits import Source
from pipeline.history.output import check_target, show, show_json, write
from pipeline.kafka_settings import for_kafka_python, read_settings
from pipeline.spark import SparkSettings, spark_failures, spark_session, watching
from shim.counted import counted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

Answer = tuple["DataFrame", Mapping[str, object]]
_DOING: Final = "reading the log"


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def answer(given: Mapping[str, Any], ask: Callable[[Source], DataFrame]) -> None:
    """Asks, and tells. Exit status 1 where damage was passed over."""
    target: Path | None = given["target"]
    if target is not None:
        check_target(target)
    with asked(given) as source:
        table = collected(source, ask(source))
        damaged = tell_of_segments(source)
    tell(table, given, {})
    if damaged:
        sys.exit(SOMETHING_WRONG)


@contextmanager
def asked(given: Mapping[str, Any]) -> Iterator[Source]:
    """A session of Spark, and where its jobs read."""
    data_dir: Path | None = given["data_dir"]
    broker_dirs: tuple[Path, ...] = given["broker_dirs"]
    if (data_dir is None) == (not broker_dirs):
        raise click.UsageError("give either --data-dir or --broker-dir")
    directories = (data_dir,) if data_dir is not None else broker_dirs
    settings = SparkSettings.of(given["master"], given["conf"], given["spark_log"])
    with spark_session("offset-pipeline history", settings) as spark, in_one_line_of_ours():
        yield Source(
            spark, tuple(str(path.absolute()) for path in directories), data_dir is None, given["groups"],
            given["num_partitions"], given["skip_damaged"],
        )  # fmt: skip


@contextmanager
def in_one_line_of_ours() -> Iterator[None]:
    """Has what the data source raises end as SomethingWrong with its own line; else with Spark's."""
    try:
        with spark_failures(_DOING):
            yield
    except SomethingWrong as error:
        told = None if error.__cause__ is None else told_by(error.__cause__)
        if told is not None:
            raise SomethingWrong(told) from error
        raise


def collected(source: Source, frame: DataFrame) -> pa.Table:
    with watching(source.spark, _DOING):
        return frame.toArrow()


def tell_of_segments(source: Source) -> bool:
    """What was left out, a line each. Whether some of it is damage."""
    damaged = False
    for row in collected(source, source.segments(newest_alone=not source.skip_damaged)).to_pylist():
        if row["torn_at"] >= 0:
            left = row["size"] - row["torn_at"]
            why = "a write that was torn, or is under way"
            click.echo(f"{row['path']}: left out {left} bytes from byte {row['torn_at']} on, {why}", err=True)
        if row["damaged_at"] >= 0:
            damaged = True
            what = "passed over" if source.skip_damaged else "what was asked for did not need it"
            click.echo(f"{row['path']} is damaged at byte {row['damaged_at']}: {row['reason']}; {what}", err=True)
    return damaged


def tell(table: pa.Table, given: Mapping[str, Any], extra: Mapping[str, object]) -> None:
    target: Path | None = given["target"]
    if target is not None:
        write(table, target)
        click.echo(f"{counted(table.num_rows, 'row')} in {target}", err=True)
    if given["json_wanted"]:
        show_json(table, extra)
    elif target is None:
        show(table, given["groups"])


def kafka_settings(given: Mapping[str, Any]) -> dict[str, str]:
    """Of the brokers at --bootstrap-servers."""
    if given["command_config"] is not None and given["bootstrap_servers"] is None:
        raise NotDone("--command-config goes with --bootstrap-servers")
    return for_kafka_python(read_settings(given["command_config"]))
