"""A topic of a cluster is deleted while a broker is down: what became of its offsets waits for all of them."""

from __future__ import annotations

from pathlib import Path

from protocol.errors import ErrorCode
from shim.demo.parts import Cluster
from tests.conftest import TopicFactory
from tests.hung import hung
from tests.serve.test_topics import commit, deleted, fetch, following
from tests.waiting import wait_until
from tests.wire import WireClient


def test_in_a_cluster_with_a_broker_down_it_waits(
    cluster: Cluster, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    gone, stays = make_topic(1), make_topic(1)
    with following(cluster, tmp_path) as shim, WireClient(shim.port) as client:
        for topic in (gone, stays):
            assert commit(client, group, topic, 5) == ErrorCode.NONE
        alive, _, hangs = cluster.brokers
        with hung(hangs.pid), WireClient(alive.port, alive.host) as at_another:
            wait_until(lambda: deleted(at_another, gone), "the cluster does not delete the topic")
        wait_until(lambda: fetch(client, group, gone) == -1, "the offset is still there")
        assert fetch(client, group, stays) == 5
