"""The two sides at one cluster of three brokers: three shims that share a log on its topics, and its coordinators."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from confluent_kafka.cimpl import NewTopic

from benchmarks.servers import make_topics
from protocol.errors import ErrorCode
from protocol.messages import find_coordinator, metadata, offset_commit
from shim.config import HostPort, Settings
from shim.demo.parts import Broker, Cluster
from shim.upstream.errors import UpstreamError
from shim.upstream.kept_connection import KeptConnection, KeptConnections
from tests.shim_process import Shim

# Kafka's own, in the place of those with which tests start brokers; and leaders that go back home soon, so that there
# is always a coordinator to kill.
PROPERTIES: Final = {
    "broker.session.timeout.ms": 9_000,
    "offsets.topic.num.partitions": 50,
    "leader.imbalance.check.interval.seconds": 5,
    "leader.imbalance.per.broker.percentage": 0,
}
_SETTINGS: Final = Settings()
_TOPIC: Final = "orders"
_GROUPS: Final = 200
_AT_ONCE: Final = 8
_AGAIN_S: Final = 0.02
_ASKED_WITHIN_S: Final = 1.0
"""Who does not answer by then is asked again, elsewhere."""
_NEWEST_OF_ONE: Final = 3
_NEWEST_OF_NAMES: Final = 7
_FOUND_WITHIN_S: Final = 120.0


class Coordinating(Protocol):
    """A process that may be killed, and started again."""

    def kill(self) -> None: ...

    def start(self) -> object: ...


class Side(NamedTuple):
    """``processes``: of each the ports at which a group's commits are taken, and whether there is another one when it
    is killed. ``groups``: names, of which each side has its own. ``settled``: waits until nothing moves any more.
    ``patience_s``: how long a commit is asked for."""

    name: str
    processes: Sequence[tuple[Coordinating, Callable[[], set[HostPort]]]]
    bootstrap: Callable[[], list[HostPort]]
    groups: list[str]
    settled: Callable[[], Awaitable[None]]
    patience_s: float = _FOUND_WITHIN_S

    async def gap(self, rng: random.Random) -> float:
        """Seconds from the SIGKILL of a group's coordinator to the first commit of the group that is acknowledged.
        Everybody is there again at the end, and leads what is theirs."""
        while True:
            group = rng.choice(self.groups)
            address = await self._commits(group)
            found = next((process for process, ports in self.processes if address in ports()), None)
            if found is not None:
                break
        await asyncio.to_thread(found.kill)
        killed = time.perf_counter()
        await self._commits(group)
        took = time.perf_counter() - killed
        await asyncio.to_thread(found.start)
        await asyncio.gather(*(self._commit_in_turn(self.groups[first::_AT_ONCE]) for first in range(_AT_ONCE)))
        await self.settled()
        return took

    async def _commit_in_turn(self, groups: Sequence[str]) -> None:
        """One of each, by a client of all of them."""
        connections = KeptConnections(_SETTINGS)
        try:
            for group in groups:
                await self._commits(group, connections)
        finally:
            connections.close()

    async def _commits(self, group: str, kept: KeptConnections | None = None) -> HostPort:
        """One of the group, asked for until it is acknowledged, on connections that are new unless they are given.
        Raises TimeoutError."""
        connections = kept or KeptConnections(_SETTINGS)  # as a client's: those that it has it goes on with
        try:
            async with asyncio.timeout(self.patience_s):
                while True:
                    for bootstrap in self.bootstrap():
                        try:
                            async with asyncio.timeout(_ASKED_WITHIN_S):
                                address = await _coordinator(connections.to(bootstrap), group)
                            if address is not None:
                                async with asyncio.timeout(_ASKED_WITHIN_S):
                                    if await _commit(connections.to(address), group):
                                        return address
                        except (UpstreamError, TimeoutError):
                            pass  # it is down, or hangs: others are asked
                    await asyncio.sleep(_AGAIN_S)
        finally:
            if kept is None:
                connections.close()


async def _coordinator(asked: KeptConnection, group: str) -> HostPort | None:
    answer = await asked.ask(
        find_coordinator.API, find_coordinator.FindCoordinatorRequest(group), at_most=_NEWEST_OF_ONE
    )
    return HostPort(answer.host, answer.port) if answer.error_code == ErrorCode.NONE else None


async def _commit(asked: KeptConnection, group: str) -> bool:
    partitions = (offset_commit.OffsetCommitRequestPartition(0, 1),)
    topics = (offset_commit.OffsetCommitRequestTopic(_TOPIC, partitions=partitions),)
    answer = await asked.ask(offset_commit.API, offset_commit.OffsetCommitRequest(group, topics=topics), at_most=8)
    return answer.topics[0].partitions[0].error_code == ErrorCode.NONE


@contextmanager
def both(folder: Path) -> Iterator[tuple[Side, Side]]:
    """The shims, and the cluster's own coordinators."""
    with ExitStack() as running:
        cluster = running.enter_context(Cluster(folder / "cluster", properties=PROPERTIES))
        make_topics(cluster.bootstrap_servers, NewTopic(_TOPIC, 1, 3))
        shims = [
            running.enter_context(
                Shim(
                    cluster.bootstrap_servers,
                    folder / f"shim-{number}",
                    settings={"offsets.log": "kafka"},
                    offsets_log="local",  # not one for each
                    passes_groups=True,
                    start_timeout=_FOUND_WITHIN_S,
                )
            )
            for number in range(3)
        ]
        # Without the controller, of which there is one, nobody would take over.
        brokers = [each for each in cluster.brokers if not each.is_controller]
        settled = partial(_leaders_are_home, [_address(each) for each in cluster.brokers])
        yield (
            Side(
                "shims",
                [(each, lambda each=each: _ports(each)) for each in shims],  # type: ignore[misc]
                lambda: [HostPort("127.0.0.1", each.port) for each in shims if each.running],
                [f"shims-{number}" for number in range(_GROUPS)],
                settled,
            ),
            Side(
                "cluster",
                [(each, lambda each=each: {_address(each)}) for each in brokers],  # type: ignore[misc]
                lambda: [_address(each) for each in cluster.brokers if each.running],
                [f"cluster-{number}" for number in range(_GROUPS)],
                settled,
            ),
        )


def _ports(shim: Shim) -> set[HostPort]:
    return {HostPort("127.0.0.1", shim.broker_port(node_id)) for node_id in (1, 2, 3)}


def _address(broker: Broker) -> HostPort:
    host, port = broker.bootstrap_servers.split(":")
    return HostPort(host, int(port))


async def _leaders_are_home(brokers: Sequence[HostPort]) -> None:
    """Brokers give leaders back to who had them before a broker was killed, the coordinator of the shims' own group
    among them: were that to happen within the next gap, it would be two faults at a time. Raises TimeoutError."""
    connections = KeptConnections(_SETTINGS)
    try:
        async with asyncio.timeout(_FOUND_WITHIN_S):
            for broker in brokers:  # each has to have heard of it
                asked = connections.to(broker)
                while True:
                    if await _says_leaders_are_home(asked):
                        break
                    await asyncio.sleep(_AGAIN_S)
    finally:
        connections.close()


async def _says_leaders_are_home(asked: KeptConnection) -> bool:
    answer = await asked.ask(metadata.API, metadata.MetadataRequest(topics=None), at_most=_NEWEST_OF_NAMES)
    partitions = [each for topic in answer.topics for each in topic.partitions]
    return all(each.leader_id == each.replica_nodes[0] for each in partitions)
