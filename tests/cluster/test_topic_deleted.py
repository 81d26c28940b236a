"""A topic of a cluster is deleted while a broker is down: what became of its offsets waits for all of them."""

from __future__ import annotations

from pathlib import Path

from protocol.errors import ErrorCode
from shim.demo.parts import Cluster
from tests.conftest import TopicFactory
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
        cluster.brokers[2].kill()
        with WireClient(cluster.brokers[0].port, cluster.brokers[0].host) as alive:
            wait_until(lambda: deleted(alive, gone), "the cluster does not delete the topic")
        cluster.brokers[2].start()
        wait_until(lambda: fetch(client, group, gone) == -1, "the offset is still there")
        assert fetch(client, group, stays) == 5
