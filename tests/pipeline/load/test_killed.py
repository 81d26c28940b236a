"""SIGKILL at random moments: every record is in the table once, and the group is where the table is."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pipeline.load.cluster import ClusterOfGroup
from pipeline.load.delta import DeltaSink
from pipeline.load.parquet import ParquetSink
from shim.demo.parts import Broker
from tests.conftest import TopicFactory
from tests.pipeline.commands import runs_here
from tests.pipeline.load.filling import differences, fill, of_topic, straight
from tests.pipeline.load.killed import killed_loads, load_to_the_end
from tests.shim_process import Shim

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = 8
EXECUTORS = ["--master", "local-cluster[2,1,700]", "--conf", "spark.executor.memory=600m"]
"""A cluster on this machine: a process for each of two executors, which can be killed alone."""


@pytest.mark.parametrize(
    ("form", "kills", "records", "most", "longest_s", "where"),
    [
        ("delta", 1, 4_000, 200, 1.0, []),
        pytest.param("parquet", 1, 8_000, 200, 1.0, [], marks=pytest.mark.soak),
        pytest.param("delta", 10, 2_000_000, 6_250, 2.0, EXECUTORS, marks=pytest.mark.soak),
        pytest.param("parquet", 10, 2_000_000, 6_250, 2.0, EXECUTORS, marks=pytest.mark.soak),
    ],
)
def test_a_load_that_is_killed(
    spark: SparkSession,
    broker: Broker,
    shim: Shim,
    make_topic: TopicFactory,
    group: str,
    tmp_path: Path,
    conf_options: list[str],
    monkeypatch: pytest.MonkeyPatch,
    form: str,
    kills: int,
    records: int,
    most: int,
    longest_s: float,
    where: list[str],
) -> None:
    topic = make_topic(PARTITIONS)
    fill(broker.bootstrap_servers, topic, PARTITIONS, records)
    table = tmp_path / "table"
    options = [
        *("--bootstrap-servers", shim.bootstrap, "--group", group, "--topics", topic),
        *("--to", str(table), "--format", form, "--max-offsets-per-partition", str(most), *conf_options, *where),
    ]
    killed = killed_loads(options, table, tmp_path / "said", random.Random(f"{form} {kills}"), kills, longest_s)
    if where:
        load_to_the_end(options, tmp_path / "said")
    else:  # the one after them may as well be this process: a Spark less to start
        done = runs_here(spark, monkeypatch)("load", *options)
        assert done.status == 0, done.stderr

    assert len(killed) == kills
    rows = spark.read.format(form).load(str(table))
    assert rows.count() == records
    assert differences(rows, straight(spark, broker.bootstrap_servers, topic)) == (0, 0)
    sink = DeltaSink(spark, str(table), group) if form == "delta" else ParquetSink(spark, str(table), group)
    last = sink.last()
    assert last is not None
    committed = of_topic(ClusterOfGroup(shim.bootstrap, group, {}).committed(), topic)
    assert of_topic(last.ends, topic) == committed == dict.fromkeys(range(PARTITIONS), records // PARTITIONS)
