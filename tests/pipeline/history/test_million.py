"""A million offsets of the shim's, and of a real broker's: all are read, and the newest are those that are served."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pipeline.history.jobs.commits import Source
from pipeline.history.jobs.state import state_at, state_of
from shim.demo.parts import Broker
from tests.admin.broker_groups import Served, fetch
from tests.conftest import TopicFactory
from tests.pipeline.history.many_commits import PARTITIONS, commit_many
from tests.pipeline.history.test_live import plainly
from tests.protocol_live.place import Place
from tests.shim_process import Shim

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GROUPS = 50


def written(port: int, release: str, topic: str, rounds: int) -> Served:
    """What is served of the groups after it."""
    with Place(port, release) as place:
        groups = [place.new_group() for _ in range(GROUPS)]
        count = commit_many(port, groups, topic, rounds)
        assert count == rounds * GROUPS * PARTITIONS
        return fetch(place, groups)


def compare(source: Source, served: Served, count: int) -> None:
    began = time.monotonic()
    assert source.log.count() == count
    took = time.monotonic() - began
    keys = state_at(source, 1 << 60).toArrow()
    assert plainly(state_of(keys).offsets.to_pylist()) == served
    print(f"{count:,} records: {count / took:,.0f} rows a second")


ROUNDS = [pytest.param(2, id="20000", marks=pytest.mark.soak), pytest.param(100, id="1000000", marks=pytest.mark.soak)]


@pytest.mark.parametrize("rounds", ROUNDS)
def test_of_the_shims_and_of_a_brokers(
    spark: SparkSession, broker: Broker, tmp_path: Path, make_topic: TopicFactory, rounds: int
) -> None:
    topic = make_topic(PARTITIONS)
    count = rounds * GROUPS * PARTITIONS
    with Shim(broker.bootstrap_servers, tmp_path / "data") as shim:
        served = written(shim.broker_port(broker.node_id), broker.release, topic, rounds)
        source = Source(spark, (str(tmp_path / "data"),), False, tuple({group for group, _, _ in served}))
        compare(source, served, count)
        assert source.commits().count() == count, "the history has each of them, too"
    served = written(broker.port, broker.release, topic, rounds)
    of_broker = Source(spark, (str(broker.data),), True, tuple({group for group, _, _ in served}))
    compare(of_broker, served, count)
