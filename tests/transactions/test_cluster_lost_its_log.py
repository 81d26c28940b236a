"""The one broker loses what it has acknowledged of its `__consumer_offsets`, and the shim, which has read it, goes on
with what there is."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.partition import partition_for
from protocol.records.batches import read_header
from shim.demo.parts import Broker
from tests.protocol_live.place import Place
from tests.shim_process import Shim
from tests.transactions.test_transactional_commits import UNSTABLE, commit, end, fetched, settled

PARTITIONS = 5


@pytest.fixture
def shim(broker: Broker, tmp_path: Path) -> Iterator[Shim]:
    with Shim(broker.bootstrap_servers, tmp_path / "shim" / "data") as running:
        yield running


def segment_of(broker: Broker, group: str) -> Path:
    (found,) = broker.data.rglob(f"__consumer_offsets-{partition_for(group, PARTITIONS)}/*.log")
    return found


def test_the_end_of_the_log(broker: Broker, shim: Shim) -> None:
    """The marker is written again where the shim has read on already."""
    with Place(shim.broker_port(broker.node_id), broker.release) as place:
        topic, group = place.new_topic(), place.new_group()
        same_partition = (
            name
            for n in range(10_000)
            if partition_for(name := f"n{n}", PARTITIONS) == partition_for(group, PARTITIONS)
        )
        neighbour, made, another = next(same_partition), place.new_transaction(), place.new_transaction()
        commit(place, made, group, topic, 1)
        made = end(place, made, committed=True)
        assert settled(place, group, topic) == 1
        commit(place, made, group, topic, 50)
        size = segment_of(broker, group).stat().st_size
        for offset in range(3):
            commit(place, another, neighbour, topic, offset)
    broker.kill()
    segment = segment_of(broker, group)
    raw = segment.read_bytes()
    assert size < len(raw)
    assert sum(read_header(raw, at).size for at in _batches(raw, size)) == size, "the commit of 50 is left"
    segment.write_bytes(raw[:size])
    broker.start()
    with Place(shim.broker_port(broker.node_id), broker.release) as place:
        assert fetched(place, group, topic, stable=True) == (UNSTABLE, -1)
        made = end(place, made, committed=True)
        assert settled(place, group, topic) == 50
        commit(place, made, group, topic, 60)
        end(place, made, committed=False)
        assert settled(place, group, topic) == 50
        assert fetched(place, neighbour, topic, stable=True) == (0, -1), "its offsets are lost in the cluster"


def _batches(raw: bytes, end: int) -> Iterator[int]:
    at = 0
    while at < end:
        yield at
        at += read_header(raw, at).size


@pytest.mark.local_log("the log is on the disk that is lost")
def test_all_of_it(broker: Broker, shim: Shim) -> None:
    """The same cluster id, on an empty disk."""
    port = shim.broker_port(broker.node_id)
    with Place(port, broker.release) as place:
        topic, group, made = place.new_topic("kept"), place.new_group(), place.new_transaction()
        for offset in range(10):
            commit(place, made, group, topic, offset)
            made = end(place, made, committed=True)
        assert settled(place, group, topic) == 9
        commit(place, made, group, topic, 99)
    broker.stop()
    shutil.rmtree(broker.data)
    broker.start()
    with Place(port, broker.release) as place:
        place.new_topic("kept")
        place.new_group()
        made = place.new_transaction()
        commit(place, made, group, topic, 5)
        made = end(place, made, committed=True)
        assert settled(place, group, topic) == 5
