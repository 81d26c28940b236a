"""The shim's view of the cluster: what a client's response may change, and what only the shim's own look-up may."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from protocol.messages.metadata import MetadataResponseBroker
from shim.config import HostPort, Settings
from shim.demo.parts import Broker
from shim.upstream import Cluster, PortMap, readdressed, stable_choice
from shim.upstream import cluster as cluster_module
from shim.upstream.connection import BrokerConnection
from shim.upstream.errors import UpstreamError
from tests.upstream.scripted_broker import ScriptedBroker, scripted_broker
from tests.waiting import turns_of_the_loop

A, B, C = HostPort("a", 1), HostPort("b", 2), HostPort("c", 3)


class Followed:
    """A cluster that is only told things, and the views that its watcher saw."""

    def __init__(self) -> None:
        self.cluster = Cluster([A], Settings())
        self.views: list[dict[int, HostPort]] = []
        self.cluster.watch(self._watch)

        self.go_on = asyncio.Event()
        self.go_on.set()
        self.done = 0

    async def _watch(self, brokers: Mapping[int, HostPort]) -> None:
        self.views.append(dict(brokers))
        await self.go_on.wait()
        self.done += 1


async def test_what_the_shim_was_told_is_followed() -> None:
    followed = Followed()
    await followed.cluster.take({1: A, 2: B})
    await followed.cluster.take({1: A, 2: B, 3: C})
    assert followed.views == [{1: A, 2: B}, {1: A, 2: B, 3: C}]
    assert followed.cluster.address_of(3) == (C,)
    assert followed.cluster.address_of(4) == ()


async def test_a_clients_response_takes_nothing_away_and_moves_nothing() -> None:
    followed = Followed()
    await followed.cluster.take({1: A, 2: B})
    await followed.cluster.hear({1: C}, whole=True)
    assert followed.cluster.brokers == {1: A, 2: B}
    assert followed.views == [{1: A, 2: B}]


async def test_a_broker_that_is_known_has_its_port_before_anybody_hears_of_it() -> None:
    followed = Followed()
    followed.go_on.clear()
    taking = asyncio.create_task(followed.cluster.take({1: A}))
    await turns_of_the_loop()
    hearing = [asyncio.create_task(followed.cluster.hear({1: A}, whole=True)) for _ in range(2)]
    await turns_of_the_loop()
    assert not any(task.done() for task in hearing)
    hearing[0].cancel()  # its client goes away
    followed.go_on.set()
    await hearing[1]
    assert followed.done == 1
    await taking


@asynccontextmanager
async def following(broker: ScriptedBroker) -> AsyncIterator[tuple[Cluster, asyncio.Queue[Mapping[int, HostPort]]]]:
    """A cluster that looks by itself once an hour, after its first look; and the views that it comes to."""
    cluster = Cluster([broker.address], Settings(topology_refresh_interval_ms=3_600_000))
    views: asyncio.Queue[Mapping[int, HostPort]] = asyncio.Queue()
    cluster.watch(views.put)
    running = asyncio.create_task(cluster.run())
    try:
        assert await asyncio.wait_for(views.get(), 10) == {1: broker.address}
        yield cluster, views
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param({1: A}, id="moved"),
        pytest.param({2: B}, id="new"),
        pytest.param({}, id="gone"),
    ],
)
async def test_another_view_in_a_response_has_the_shim_look_for_itself(seen: Mapping[int, HostPort]) -> None:
    async with scripted_broker() as broker, following(broker) as (cluster, views):
        broker.brokers = {1: broker.address, 5: C}
        await cluster.hear(seen, whole=True)
        async with asyncio.timeout(10):
            while await views.get() != broker.brokers:
                pass
        assert cluster.brokers == broker.brokers


async def test_an_address_that_only_a_client_was_told_of_is_never_taken() -> None:
    """It is answered when the shim has looked for itself; until then nothing is said to it."""
    async with scripted_broker() as broker, following(broker) as (cluster, views):
        while not broker.asked.empty():
            broker.asked.get_nowait()
        for _ in range(3):
            await asyncio.wait_for(cluster.hear({1: broker.address, 7: C}, whole=False), 10)
            assert broker.asked.get_nowait(), "the shim has asked"
            assert cluster.brokers == {1: broker.address}
            assert cluster.any_address() == (broker.address,)
        while not views.empty():
            assert views.get_nowait() == {1: broker.address}


async def test_a_new_broker_is_known_when_the_client_hears_of_it() -> None:
    async with scripted_broker() as broker, following(broker) as (cluster, _):
        broker.brokers = {1: broker.address, 5: C}
        await asyncio.wait_for(cluster.hear({5: C}, whole=False), 10)
        assert cluster.address_of(5) == (C,)


async def test_a_client_does_not_wait_for_ever_for_a_look_that_does_not_end() -> None:
    cluster = Cluster([A], Settings(), patience_seconds=0.01)
    await asyncio.wait_for(cluster.hear({1: C}, whole=False), 10)
    assert cluster.brokers == {}


async def test_a_broker_that_has_moved_is_looked_for_where_it_is_now() -> None:
    """Without ever having been seen to be away."""
    async with scripted_broker() as broker, following(broker) as (cluster, views):
        for address in (B, C):
            broker.brokers = {1: broker.address, 2: address}
            await cluster.hear({2: address}, whole=False)
            async with asyncio.timeout(10):
                while await views.get() != broker.brokers or cluster.address_of(2) != (address,):
                    pass
            await cluster.hear({2: A}, whole=False)  # somebody knows no better
            assert cluster.address_of(2) == (address,)


async def test_a_host_that_is_no_host_name_does_not_end_the_following() -> None:
    async with scripted_broker() as broker:
        cluster = Cluster([HostPort("a..b", 9092), broker.address], Settings())
        running = asyncio.create_task(cluster.run())
        await asyncio.wait_for(broker.asked.get(), 10)
        assert not running.done()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_that_brokers_are_away_is_a_warning_and_that_they_are_back_is_none(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "shim.upstream.cluster")
    monkeypatch.setattr(cluster_module, "RETRY_SECONDS", 0.01)
    async with scripted_broker() as broker:
        its, broker.brokers = broker.brokers, {}  # it knows none yet
        cluster, views = Cluster([broker.address], Settings()), asyncio.Queue[Mapping[int, HostPort]]()
        cluster.watch(views.put)
        running = asyncio.create_task(cluster.run())
        for _ in range(3):
            await asyncio.wait_for(broker.asked.get(), 10)
        broker.brokers = its
        await asyncio.wait_for(views.get(), 10)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    told = [(each.levelno, each.getMessage().partition(",")[0]) for each in caplog.records]
    assert told[:2] == [(logging.WARNING, "no broker can be reached"), (logging.INFO, "cluster reached again")]


def silent(_: bytes) -> bytes:
    return b""


async def test_a_broker_that_hangs_keeps_nobody_from_what_the_others_know(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has answered before, so it is the one that is asked first, on the connection that there is."""
    monkeypatch.setattr(cluster_module, "NEXT_AFTER_SECONDS", 0.01)
    async with scripted_broker() as hanging, scripted_broker() as other:
        known = {1: hanging.address, 2: other.address}
        hanging.brokers = other.brokers = known
        cluster, views = Cluster([hanging.address], Settings(request_timeout_ms=3_600_000)), asyncio.Queue[object]()
        cluster.watch(views.put)
        running = asyncio.create_task(cluster.run())
        assert await asyncio.wait_for(views.get(), 10) == known
        hanging.spoil, other.brokers = silent, {**known, 3: C}
        cluster.take_settings(Settings())
        assert await asyncio.wait_for(views.get(), 10) == other.brokers
        # The next time the one is asked first that has answered.
        monkeypatch.setattr(cluster_module, "NEXT_AFTER_SECONDS", 3600)
        cluster.take_settings(Settings())
        assert await asyncio.wait_for(views.get(), 10) == other.brokers
        assert cluster.reachable
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_brokers_that_are_slow_have_the_time_that_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    """All are asked by the time that one of them answers, which may be the first."""
    monkeypatch.setattr(cluster_module, "NEXT_AFTER_SECONDS", 0.01)
    async with scripted_broker() as first, scripted_broker() as second:
        kept_back = asyncio.Event()
        serve = first.serve

        async def slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await kept_back.wait()
            await serve(reader, writer)

        slow = await asyncio.start_server(slowly, "127.0.0.1", 0)
        second.spoil = silent
        there = HostPort("127.0.0.1", slow.sockets[0].getsockname()[1])
        cluster, views = Cluster([there, second.address], Settings()), asyncio.Queue[object]()
        cluster.watch(views.put)
        running = asyncio.create_task(cluster.run())
        await asyncio.wait_for(second.asked.get(), 10)
        kept_back.set()
        assert await asyncio.wait_for(views.get(), 10) == first.brokers
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        slow.close()


async def test_bootstrap_tries_the_brokers_and_then_what_it_was_given() -> None:
    followed = Followed()
    assert followed.cluster.any_address() == (A,)
    await followed.cluster.take({2: B})
    assert followed.cluster.any_address() == (B, A)


async def test_a_real_broker_answers_at_a_common_version(broker: Broker) -> None:
    from protocol.messages import metadata

    host, port = broker.bootstrap_servers.split(":")
    connection = BrokerConnection(HostPort(host, int(port)), Settings())
    await connection.open()
    try:
        answer = await connection.ask(metadata.API, metadata.MetadataRequest(topics=()))
    finally:
        connection.close()
    assert [(b.node_id, b.host, b.port) for b in answer.brokers] == [(broker.node_id, host, int(port))]


async def test_a_broker_that_is_not_there_is_named() -> None:
    with pytest.raises(UpstreamError, match=r"127\.0\.0\.1:1: Connection refused"):
        await BrokerConnection(HostPort("127.0.0.1", 1), Settings()).open()


def test_ports_follow_from_node_ids() -> None:
    ports = PortMap("shim.example.org", 19092)
    assert ports.of(0) == HostPort("shim.example.org", 19093)
    assert ports.of(7) == HostPort("shim.example.org", 19100)
    with pytest.raises(ValueError, match="node id 50000 would need port 69093"):
        ports.of(50_000)
    with pytest.raises(ValueError, match="node id -1"):
        ports.of(-1)


def test_a_broker_that_no_port_can_stand_for_is_left_out() -> None:
    ports = PortMap("shim.example.org", 19092)
    last = 65535 - 19093
    told = [MetadataResponseBroker(node_id, "kafka", 9092, "rack") for node_id in (0, -1, last, last + 1)]
    assert readdressed(ports, told, lambda broker: broker.node_id) == (
        MetadataResponseBroker(0, "shim.example.org", 19093, "rack"),
        MetadataResponseBroker(last, "shim.example.org", 65535, "rack"),
    )


def test_the_stable_choice_needs_nothing_but_the_ids() -> None:
    assert [stable_choice(partition, {5, 1, 3}) for partition in range(4)] == [1, 3, 5, 1]
    with pytest.raises(ValueError, match="no broker is known"):
        stable_choice(0, ())


@pytest.mark.parametrize(("told", "listens"), [(9092, 19092), (19092, 9092)])
def test_ports_that_are_others_on_the_way(told: int, listens: int) -> None:
    ports = PortMap("nat.example.org", told, listens)
    assert ports.of(3) == HostPort("nat.example.org", told + 4)
    assert ports.listening_of(3) == listens + 4
    last = 65535 - 19092 - 1
    assert (ports.has(last), ports.has(last + 1)) == (True, False)
    with pytest.raises(ValueError, match="would need port 65536"):
        ports.listening_of(last + 1)
