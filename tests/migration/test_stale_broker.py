"""A broker that does not know yet that it coordinates a group no more: what it still tells is not believed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from protocol.messages import find_coordinator
from protocol.topic_partition import TopicPartition
from shim.demo.parts import Cluster
from shim.offsets.cluster.groups import ClusterGroups
from tests.cluster.conftest import coordinators
from tests.conftest import TopicFactory
from tests.hung import hung
from tests.migration.mirrored import mirrored
from tests.migration.test_first_contact import commit
from tests.migration.test_hung_broker import HANGS, by_hanging, hanging
from tests.waiting import wait_until
from tests.wire import WireClient

__all__ = ["coordinators"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster"), brokers=2) as running:
        yield running


def coordinator(cluster: Cluster, group: str) -> int:
    """As the controller says."""
    with WireClient(cluster.brokers[0].port, cluster.brokers[0].host) as client:
        found = client.ask(find_coordinator.API, 2, find_coordinator.FindCoordinatorRequest(group))
        return -1 if found.error_code else int(found.node_id)


async def test_one_that_was_held_up_and_has_been_replaced(
    cluster: Cluster, coordinators: None, tmp_path: Path, make_topic: TopicFactory, fresh_name: Callable[[], str]
) -> None:
    """It answers what it was asked meanwhile, before it hears that another one has its place."""
    topic = make_topic()
    (group, *_), _ = by_hanging(cluster, fresh_name, 1)
    await asyncio.to_thread(commit, cluster.bootstrap_servers, group, topic, 3)
    async with mirrored(cluster, tmp_path) as at:
        groups, first = ClusterGroups(at.brokers, 60.0), TopicPartition(topic, 0)
        assert (await groups.offsets_of([group]))[group][first].offset == 3
        with hung(hanging(cluster).pid):
            asked = asyncio.create_task(groups.offsets_of([group]))
            await asyncio.to_thread(wait_until, lambda: coordinator(cluster, group) not in (-1, HANGS))
            await asyncio.to_thread(commit, cluster.brokers[0].bootstrap_servers, group, topic, 17)
            assert not asked.done()
        assert (await asked)[group][first].offset == 17
