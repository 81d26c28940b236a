"""``offset-pipeline history``: its commands, and what they take. Spark is imported when one of them runs."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import click

from pipeline.console import in_one_line, spark_options
from shim.terminal.options import Command, json_option
from shim.terminal.times import time_option

_FOLDER: Final = click.Path(path_type=Path, file_okay=False, exists=True)
_FILE: Final = click.Path(path_type=Path, dir_okay=False)
_MINUTES: Final = click.FloatRange(0, min_open=True)


def _common(command: Command) -> Command:
    options = (
        click.option("--data-dir", type=_FOLDER, metavar="DIR", help="The shim's data directory, or a backup of it."),
        click.option(
            "--broker-dir", "broker_dirs", multiple=True, type=_FOLDER, metavar="DIR",
            help="A broker's log directory instead; may be given many times.",
        ),
        click.option("--group", "groups", multiple=True, metavar="G", help="Only this group; may be given many times."),
        click.option(
            "--offsets-partitions", "num_partitions", type=click.IntRange(1), metavar="N",
            help="Of a broker: its offsets.topic.num.partitions, so that with --group only some are read.",
        ),
        click.option("--skip-damaged", is_flag=True, help="Pass over what is damaged, and say what; exit status 1."),
        click.option("--to", "target", type=_FILE, metavar="FILE", help="Write all rows: .parquet, .csv or .json."),
        json_option,
        spark_options,
        in_one_line,
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def _window(command: Command) -> Command:
    begin = time_option("--from", "from_ms", text="Only what is not older than that.")
    return begin(time_option("--to-time", "to_ms", text="Only what is not newer than that.")(command))


def _ends(command: Command) -> Command:
    servers = click.option("--bootstrap-servers", metavar="H:P[,H:P]", help="To ask where partitions end.")
    config = click.option(
        "--command-config", type=_FILE, help="Settings of Kafka clients, as a properties file (TLS, SASL)."
    )
    return servers(config(command))


def _every(default: float) -> Callable[[Command], Command]:
    text = "How long a stretch is that is told as one."
    return click.option(
        "--every", "every", type=_MINUTES, default=default, show_default=True, metavar="MINUTES", help=text
    )


def _running() -> ModuleType:
    """The functions behind the commands. Raises CannotRun where there is no Spark for them."""
    from pipeline.spark.needed import check_here

    check_here()
    return import_module("pipeline.history.running")


@click.group("history", short_help="What the offset log and its history say, by Spark.")
def history_command() -> None:
    """What the offset log and its history say, by Spark.

    Of a data directory, also under a running shim, or of a backup (`offset-shim log backup`). Who committed what is
    known for offsets.history.retention.minutes. With --broker-dir the same is told of a broker's __consumer_offsets, as
    far as compaction has left it, and without who it was. After a machine crashed run a `log` command, or the shim,
    first. All executors need the directory under the same path.

    Times are in ISO 8601, in UTC where they name no zone, or in milliseconds since 1970, as in files and JSON.

    \b
    offset-pipeline history who --data-dir /var/lib/offset-shim --group billing
    offset-pipeline history stuck --data-dir /var/lib/offset-shim --bootstrap-servers kafka-1:9092
    """


@history_command.command("who")
@click.option("--topic", metavar="T", help="Only of this topic.")
@click.option("--partition", type=click.IntRange(0), metavar="P", help="Only of this partition.")
@_window
@_common
def who_command(topic: str | None, partition: int | None, from_ms: int | None, to_ms: int | None, **given: Any) -> None:
    """Who moved an offset: every commit, in the order of the log.

    \b
    offset-pipeline history who --data-dir /var/lib/offset-shim --group billing --topic orders --partition 3
    """
    _running().run_who(given, topic, partition, from_ms, to_ms)


@history_command.command("rewinds")
@_window
@_common
def rewinds_command(from_ms: int | None, to_ms: int | None, **given: Any) -> None:
    """Where an offset went back, from where, and by whom.

    \b
    offset-pipeline history rewinds --data-dir /var/lib/offset-shim --from 2026-03-01T14:05
    """
    _running().run_rewinds(given, from_ms, to_ms)


@history_command.command("rate")
@_every(1)
@_window
@_common
def rate_command(every: float, from_ms: int | None, to_ms: int | None, **given: Any) -> None:
    """How many commits and offsets a minute, of each group.

    One commit is what one client wrote within one millisecond.

    \b
    offset-pipeline history rate --data-dir /var/lib/offset-shim --every 5 --to rate.parquet
    """
    _running().run_rate(given, every, from_ms, to_ms)


@history_command.command("stuck")
@click.option("--for", "minutes", type=_MINUTES, default=30.0, show_default=True, metavar="MINUTES")
@time_option("--at", "at_ms", text="As of then. Default: now.")
@_ends
@_common
def stuck_command(minutes: float, at_ms: int | None, **given: Any) -> None:
    """Offsets in force that have not moved for so long.

    A partition to which nobody writes does not move either: with --bootstrap-servers only those are told that have
    records behind the offset. COMMITS SINCE above 0: its consumer is at work, and comes no further.

    \b
    offset-pipeline history stuck --data-dir /var/lib/offset-shim --for 15 --bootstrap-servers kafka-1:9092
    """
    _running().run_stuck(given, minutes, at_ms)


@history_command.command("lag", short_help="Where each offset stood over time, and how far behind.")
@_every(5)
@_window
@_ends
@_common
def lag_command(every: float, from_ms: int | None, to_ms: int | None, **given: Any) -> None:
    """Where each offset stood over time and, with --bootstrap-servers, how far behind.

    One row for each offset at the end of each stretch; by default of the last day. Where a partition ended at an
    earlier time the brokers tell from the timestamps of its records: as far as these are in order, and still there.
    Where they are not, END OFFSET and LAG are empty; without --bootstrap-servers there is progress only.

    \b
    offset-pipeline history lag --data-dir /var/lib/offset-shim --group billing --every 15 \\
      --bootstrap-servers kafka-1:9092 --to lag.parquet
    """
    _running().run_lag(given, every, from_ms, to_ms)


@history_command.command("state")
@time_option("--at", "at_ms", text="The moment. Default: now.")
@click.option(
    "--to-folder", type=click.Path(path_type=Path), metavar="DIR",
    help="Write what `offset-shim log import --from-folder DIR` takes.",
)  # fmt: skip
@click.option(
    "--folder-partitions", type=click.IntRange(1, 100_000), default=50, show_default=True, metavar="N",
    help="How many partitions to write there.",
)  # fmt: skip
@_common
def state_command(at_ms: int | None, to_folder: Path | None, folder_partitions: int, **given: Any) -> None:
    """The offsets of all groups at a moment.

    From the log, and where that has only what came later, from the history. A deletion is known as long as the log has
    it (log.cleaner.delete.retention.ms, a day); GONE SINCE says yes where the log has nothing of an offset any more,
    so that it was deleted, before that moment or after it.

    \b
    offset-pipeline history state --data-dir /backup/offset-shim --at 2026-03-01T14:05 --to state.parquet
    offset-pipeline history state --data-dir /backup/offset-shim --at 2026-03-01T14:05 --to-folder state
    offset-shim log import --data-dir /var/lib/offset-shim --from-folder state --group billing --replace
    """
    _running().run_state(given, at_ms, to_folder, folder_partitions)
