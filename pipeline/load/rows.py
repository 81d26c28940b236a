"""The rows of a batch: Spark's own Kafka source, over the ranges of a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from pipeline.load.offsets import source_options
from pipeline.load.planning import Plan
from pipeline.load.values import Values, with_values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PartitionBy: TypeAlias = Literal["date", "topic", "none"]

PARTITION_COLUMNS: Final[Mapping[PartitionBy, tuple[str, ...]]] = {"date": ("date",), "topic": ("topic",), "none": ()}

OFFSETS_PER_TASK: Final = 1_000_000

LATEST_TIMESTAMP_MS: Final = (2**63 - 1) // 1000
"""Of a record that Spark can read: its timestamps are microseconds in 64 bits. Kafka's are milliseconds in as many."""

_FEW_REQUESTS: Final = {
    # By default Spark asks for two ListOffsets per 500 records, which costs more than the records do.
    "kafka.max.poll.records": "10000",
    "kafka.max.partition.fetch.bytes": "8388608",
}


@dataclass(frozen=True)
class Reading:
    """How a batch is read. ``kafka``: settings of Spark's consumers, without the prefix ``kafka.``."""

    bootstrap_servers: str
    values: Values = field(default_factory=Values)
    partition_by: PartitionBy = "none"
    offsets_per_task: int = OFFSETS_PER_TASK
    min_partitions: int | None = None
    allow_gaps: bool = False
    kafka: Mapping[str, str] = field(default_factory=dict)


def reader_options(reading: Reading, plan: Plan) -> dict[str, str]:
    """For ``spark.read.format("kafka")``. One task reads at most ``offsets_per_task`` offsets of one partition."""
    options = {
        **_FEW_REQUESTS,
        **{f"kafka.{name}": value for name, value in reading.kafka.items()},
        "kafka.bootstrap.servers": reading.bootstrap_servers,
        "kafka.isolation.level": "read_committed",
        "includeHeaders": "true",
        "maxRecordsPerPartition": str(reading.offsets_per_task),
        # A record that is deleted while it is on its way is an error of the job, and it is planned anew.
        "failOnDataLoss": str(not reading.allow_gaps).lower(),
        **source_options(plan.ranges),
    }
    if reading.min_partitions is not None:
        options["minPartitions"] = str(reading.min_partitions)
    return options


def rows(spark: SparkSession, reading: Reading, plan: Plan) -> DataFrame:
    """Columns: ``topic``, ``partition``, ``offset``, ``timestamp`` (UTC), ``timestamp_type`` (0 CreateTime, 1
    LogAppendTime), ``key``, ``value`` (binary, or a struct), ``headers`` (array of key and value; null for none), where
    asked for ``bad_value``, and ``date`` of the timestamp. Nothing is read yet.

    Raises NotDone for a schema that is none.
    """
    from pyspark.sql import functions as F  # noqa: N812

    frame = with_values(spark.read.format("kafka").options(**reader_options(reading, plan)).load(), reading.values)
    names = ["topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers"]
    names += ["bad_value"] * ("bad_value" in frame.columns)
    chosen = [F.col("timestampType").alias(name) if name == "timestamp_type" else F.col(name) for name in names]
    if reading.partition_by == "date":
        chosen.append(F.to_date("timestamp").alias("date"))
    return frame.select(*chosen)
