"""The command as it is run, with a Spark of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from pipeline.load.cluster import ClusterOfGroup
from shim.demo.parts import Broker
from tests.conftest import TopicFactory
from tests.pipeline.load.filling import differences, fill, of_topic, straight
from tests.shim_process import Shim
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TIMEOUT_S: Final = 240.0


def wait_committed(
    cluster: ClusterOfGroup, topic: str, offsets: dict[int, int], process: subprocess.Popen[str]
) -> None:
    def is_committed() -> bool:
        assert process.poll() is None, process.communicate()
        return of_topic(cluster.committed(), topic) == offsets

    wait_until(is_committed, "it is not committed", _TIMEOUT_S)


@pytest.mark.soak
def test_it_goes_on_with_what_comes_until_sigterm(
    spark: SparkSession,
    broker: Broker,
    shim: Shim,
    make_topic: TopicFactory,
    group: str,
    table: str,
    conf_options: list[str],
) -> None:
    topic = make_topic(2)
    fill(broker.bootstrap_servers, topic, 2, 100)
    options = ["--bootstrap-servers", shim.bootstrap, "--group", group, "--topics", topic, "--to", table]
    command = [sys.executable, "-m", "pipeline.main", "load", *options, *conf_options]
    planned = subprocess.run([*command, "--dry-run", "--json"], capture_output=True, text=True, timeout=_TIMEOUT_S)
    assert (planned.returncode, planned.stderr) == (0, "")
    assert json.loads(planned.stdout)["offsets"] == 100
    assert not Path(table).exists()

    cluster = ClusterOfGroup(shim.bootstrap, group, {})
    going_on = [*command, "--continuous", "--interval", "0.5"]
    with subprocess.Popen(going_on, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            wait_committed(cluster, topic, {0: 50, 1: 50}, running)
            fill(broker.bootstrap_servers, topic, 2, 60, seed=2)
            wait_committed(cluster, topic, {0: 80, 1: 80}, running)
            os.kill(running.pid, signal.SIGTERM)
            said, errors = running.communicate(timeout=_TIMEOUT_S)
        finally:
            running.kill()
    assert running.returncode == 0, errors
    assert "100 offsets loaded in 1 batch" in said
    assert differences(spark.read.format("delta").load(table), straight(spark, broker.bootstrap_servers, topic)) == (
        0,
        0,
    )


@pytest.mark.soak
@pytest.mark.parametrize("form", ["delta", "parquet"])
def test_large_records_in_little_memory(
    spark: SparkSession,
    broker: Broker,
    shim: Shim,
    make_topic: TopicFactory,
    group: str,
    table: str,
    conf_options: list[str],
    form: str,
) -> None:
    """As large as brokers take them by default, in the memory that Spark has by default."""
    topic = make_topic(2)
    fill(broker.bootstrap_servers, topic, 2, 600, size=990_000)
    options = ["--bootstrap-servers", shim.bootstrap, "--group", group, "--topics", topic, "--to", table]
    command = [sys.executable, "-m", "pipeline.main", "load", *options, "--format", form, *conf_options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    assert spark.read.format(form).load(table).count() == 600
