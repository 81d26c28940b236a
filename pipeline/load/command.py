"""``offset-pipeline load``: what it takes, what it prints, and how it ends."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import click

from pipeline.console import agree, in_one_line, spark_options
from pipeline.errors import CannotRun, NotDone
from shim.terminal.options import dry_run_option, json_option, yes_option

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipeline.load.loading import Loading
    from pipeline.load.sinks import Sink

_FILE: Final = click.Path(path_type=Path, dir_okay=False)
_INTERVAL_S: Final = 10.0


@click.command("load", short_help="Load topics into a table, exactly once.")
@click.option("--bootstrap-servers", required=True, metavar="H:P[,H:P]", help="The shim.")
@click.option("--group", required=True, metavar="G", help="Whose offsets are the record of progress.")
@click.option("--topics", required=True, metavar="A[,B]", help="What to load.")
@click.option("--to", "target", required=True, metavar="PATH", help="The table: a path that executors reach.")
@click.option("--format", "table_format", type=click.Choice(["delta", "parquet"]), default="delta", show_default=True)
@click.option("--value", "form", type=click.Choice(["raw", "json", "avro"]), default="raw", show_default=True)
@click.option("--schema", type=_FILE, help="Of the values: Spark's DDL or JSON for json, an Avro schema for avro.")
@click.option(
    "--bad-values", type=click.Choice(["fail", "null"]), default="fail", show_default=True,
    help="What becomes of a value that does not fit: the load fails, or it is kept, raw, in bad_value.",
)  # fmt: skip
@click.option("--partition-by", type=click.Choice(["date", "topic", "none"]), default="none", show_default=True)
@click.option(
    "--from", "begin", type=click.Choice(["earliest", "latest"]), default="earliest", show_default=True,
    help="Where topics begin of which the group knows nothing.",
)  # fmt: skip
@click.option("--max-offsets-per-partition", type=click.IntRange(1), metavar="N", help="In one batch. Default: all.")
@click.option(
    "--offsets-per-task", type=click.IntRange(1), default=1_000_000, show_default=True, metavar="N",
    help="Larger ranges are split.",
)  # fmt: skip
@click.option("--min-partitions", type=click.IntRange(1), metavar="N", help="Split until there are so many tasks.")
@click.option("--allow-gaps", is_flag=True, help="Pass over what retention has deleted, and count it.")
@click.option("--accept-group-offsets", "accept", is_flag=True, help="Go on where the group is, not the table.")
@click.option("--continuous", is_flag=True, help="Go on with what comes, until SIGTERM or Ctrl-C.")
@click.option(
    "--interval", type=click.FloatRange(0, min_open=True), default=_INTERVAL_S, show_default=True, metavar="S",
    help="Seconds between two looks, with --continuous.",
)  # fmt: skip
@click.option("--command-config", type=_FILE, help="Settings of Kafka clients, as a properties file (TLS, SASL).")
@dry_run_option
@spark_options
@yes_option
@json_option
@in_one_line
def load_command(**given: Any) -> None:
    """Load topics into a table, exactly once, from where the group stands up to where they end now.

    Each batch is one commit: rows, and up to where they go. The group's offsets are committed after it, so that lag and
    progress are seen where those of any other group are. A load that died goes on from what the table says; run it
    again, with the same options. Columns: topic, partition, offset, timestamp, timestamp_type, key, value, headers.

    With --format parquet each batch is a folder of its own, renamed when it is whole: read it with
    `spark.read.parquet(PATH)`. That takes a file system with atomic renames; on an object store use delta.

    \b
    offset-pipeline load --bootstrap-servers shim:19092 --group lake --topics orders --to /lake/orders
    offset-pipeline load --bootstrap-servers shim:19092 --group lake --topics orders --to /lake/orders --dry-run
    offset-pipeline load --bootstrap-servers shim:19092 --group lake --topics orders --to hdfs:///lake/orders \\
      --value json --schema orders.ddl --partition-by date --continuous --interval 60
    """
    _run(**given)


def _run(
    *,
    bootstrap_servers: str,
    group: str,
    topics: str,
    target: str,
    table_format: str,
    master: str | None,
    conf: tuple[str, ...],
    spark_log: str,
    command_config: Path | None,
    dry_run: bool,
    continuous: bool,
    interval: float,
    yes: bool,
    json_wanted: bool,
    **how: Any,
) -> None:
    # Only now: kafka-python and PySpark are of the extra `pipeline`.
    from pipeline.spark.session import SparkSettings, spark_session

    try:
        from pipeline.load.cluster import ClusterOfGroup
    except ImportError as error:
        raise CannotRun("kafka-python is not installed: in the clone, pip install '.[pipeline]'") from error
    from pipeline.kafka_settings import for_kafka_python, read_settings
    from pipeline.load.running import go_on, load_once, show_plan

    settings = read_settings(command_config)
    loading = _loading(bootstrap_servers, topics, settings, **how)
    cluster = ClusterOfGroup(bootstrap_servers, group, for_kafka_python(settings))
    cluster.topics(loading.topics)  # what is wrong here is told before Spark is started
    cluster.check_idle()
    if loading.accept and not dry_run:
        agree("Where the group is not where the table is, rows will be there twice, or not at all. Go on?", yes=yes)
    with spark_session("offset-pipeline load", SparkSettings.of(master, conf, spark_log)) as spark:
        sink = _sink(spark, table_format, target, group, accept=loading.accept)
        if dry_run:
            show_plan(cluster, sink, loading, json_wanted=json_wanted)
        elif continuous:
            go_on(spark, cluster, sink, loading, interval, json_wanted=json_wanted)
        else:
            load_once(spark, cluster, sink, loading, threading.Event(), json_wanted=json_wanted)


def _loading(
    bootstrap_servers: str,
    topics: str,
    settings: dict[str, str],
    *,
    form: str,
    schema: Path | None,
    bad_values: str,
    partition_by: str,
    begin: str,
    max_offsets_per_partition: int | None,
    offsets_per_task: int,
    min_partitions: int | None,
    allow_gaps: bool,
    accept: bool,
) -> Loading:
    from pipeline.load.loading import From, Loading
    from pipeline.load.rows import PartitionBy, Reading
    from pipeline.load.values import Form, WhenBad, read_values

    names = [name.strip() for name in topics.split(",") if name.strip()]
    if not names:
        raise NotDone("--topics: no topic given")
    reading = Reading(
        bootstrap_servers,
        read_values(cast(Form, form), schema, cast(WhenBad, bad_values)),
        cast(PartitionBy, partition_by),
        offsets_per_task,
        min_partitions,
        allow_gaps,
        settings,
    )
    return Loading(names, reading, cast(From, begin), max_offsets_per_partition, accept)


def _sink(spark: SparkSession, table_format: str, target: str, group: str, *, accept: bool) -> Sink:
    if table_format == "parquet":
        from pipeline.load.parquet import ParquetSink

        return ParquetSink(spark, target, group)
    from pipeline.load.delta import DeltaSink

    return DeltaSink(spark, target, group, without_history=accept)
