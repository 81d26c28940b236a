"""Batches go to who leads their partitions, of which brokers may know late."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.records.batches import encode_batch
from shim.config import HostPort, Settings, parse_servers
from shim.demo.parts import Broker, free_port
from shim.kafka_log.producing import requests
from shim.kafka_log.producing.produced import Produced, Verdict
from shim.kafka_log.producing.producer import TopicProducer
from shim.upstream.cluster import Cluster
from shim.upstream.topic_leaders import LedTopic, TopicLeaders
from tests.conftest import TopicFactory

SETTINGS = Settings()
PATIENCE_S = 20.0
APPENDED_MS = 1_700_000_000_000
BATCH = encode_batch(0, [(b"k", b"v")], 0)


class LateLeaders(TopicLeaders):
    """The first answer names this address as everybody's leader, ``epochs`` later than it is."""

    late: HostPort | None = None
    epochs = 0

    async def look_up(self, patience: float, *, passed_over: int = 0) -> LedTopic:
        led = await super().look_up(patience, passed_over=passed_over)
        if self.late is not None:
            leader, self.late = self.late, None
            places = {
                number: place._replace(leader=leader, leader_epoch=place.leader_epoch + self.epochs)
                for number, place in led.places.items()
            }
            led = led._replace(places=places)
        return led


@asynccontextmanager
async def producer(
    broker: Broker, topic: str, late: HostPort | None = None, epochs: int = 0
) -> AsyncIterator[TopicProducer]:
    cluster = Cluster(parse_servers(broker.bootstrap_servers), SETTINGS)
    following = asyncio.create_task(cluster.run())
    leaders = LateLeaders(cluster, SETTINGS, topic)
    leaders.late, leaders.epochs = late, epochs
    made = TopicProducer(leaders, SETTINGS, topic)
    try:
        yield made
    finally:
        made.close()
        following.cancel()
        await asyncio.wait([following])


@asynccontextmanager
async def silent() -> AsyncIterator[tuple[HostPort, asyncio.Queue[bytes]]]:
    """Takes connections, and answers nothing. What is sent there."""
    came: asyncio.Queue[bytes] = asyncio.Queue()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while some := await reader.read(1 << 16):
            came.put_nowait(some)
        writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    async with server:
        yield HostPort(*server.sockets[0].getsockname()), came


async def test_what_waits_behind_a_leader_that_hangs(
    broker: Broker, make_topic: TopicFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not sent there as well, once that is known."""
    topic = make_topic(2)
    monkeypatch.setattr(requests, "_ANSWERED_WITHIN_S", 1.0)
    async with silent() as (late, came), producer(broker, topic, late) as its:
        first = asyncio.create_task(its.send({0: BATCH}, PATIENCE_S))
        await came.get()
        second = asyncio.create_task(its.send({1: BATCH}, PATIENCE_S))
        told = await first | await second
        assert [each.verdict for each in told.values()] == [Verdict.WRITTEN] * 2
        assert came.empty(), "it was asked for its versions, once"


async def test_what_one_leader_holds_up_is_told_of_in_a_line(
    broker: Broker, make_topic: TopicFactory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What waits behind that, too."""
    topic = make_topic(5)
    monkeypatch.setattr(requests, "_ANSWERED_WITHIN_S", 1.0)
    caplog.set_level("INFO", "shim.kafka_log.producing.dispatching")
    async with silent() as (late, came), producer(broker, topic, late) as its:
        first = asyncio.create_task(its.send(dict.fromkeys((3, 1, 2), BATCH), PATIENCE_S))
        await came.get()
        await its.send(dict.fromkeys((0, 4), BATCH), PATIENCE_S)
        await first
        assert [each.getMessage() for each in caplog.records] == [
            f"{topic}-0 and 4 others are not written yet, and sent again: {late}: Produce: not answered within 1 s"
        ]
        caplog.clear()
    async with silent() as (late, _), producer(broker, topic, late) as its:
        await its.send({3: BATCH}, PATIENCE_S)
        assert [each.getMessage().partition(" not")[0] for each in caplog.records] == [f"{topic}-3 is"]


async def test_most_brokers_are_believed_of_an_older_leader(broker: Broker, make_topic: TopicFactory) -> None:
    """The topic was put back to an earlier time: nobody names the newer one any more, and it leads no more."""
    topic, nobody = make_topic(), HostPort("127.0.0.1", free_port())
    async with producer(broker, topic, nobody, epochs=9) as its:
        sent = await its.send({0: encode_batch(0, [(b"k", b"v")], 0)}, 60.0)
        assert (sent[0].verdict, sent[0].base_offset, sent[0].leader_epoch) == (Verdict.WRITTEN, 0, 0)
        sent = await its.send({0: encode_batch(0, [(b"k", b"v")], 0)}, 60.0)
        assert sent[0].base_offset == 1


async def test_after_its_time_a_batch_is_told_to_be_unknown(broker: Broker, make_topic: TopicFactory) -> None:
    """And does not hold up what comes then."""
    topic = make_topic(2)
    async with silent() as (late, _), producer(broker, topic, late) as its:
        told = await its.send({0: BATCH}, 0.2)
        assert told[0].verdict is Verdict.UNKNOWN
        assert (await its.send({1: BATCH}, PATIENCE_S))[1].verdict is Verdict.WRITTEN
        assert await its.send({}, PATIENCE_S) == {}


async def test_the_next_batch_is_sent_when_the_one_before_is_known(broker: Broker, make_topic: TopicFactory) -> None:
    """And its time begins then."""
    topic = make_topic(2)
    told: list[Produced] = []

    def known(some: Mapping[int, Produced]) -> Mapping[int, bytes]:
        told.extend(some.values())
        return dict.fromkeys(some, BATCH) if len(told) < 30 else {}

    async with producer(broker, topic) as its:
        await its.send_each({0: BATCH}, PATIENCE_S, known)
        assert [each.base_offset for each in told] == list(range(30))
        assert told[0].sent_at < told[29].sent_at


async def test_who_waits_hears_that_it_is_closed(broker: Broker, make_topic: TopicFactory) -> None:
    topic = make_topic()
    async with silent() as (late, came), producer(broker, topic, late) as its:
        sending = asyncio.create_task(its.send({0: BATCH}, 3600.0))
        await came.get()
        its.close()
        async with asyncio.timeout(PATIENCE_S):
            assert (await sending)[0].verdict is Verdict.UNKNOWN


async def test_who_waits_hears_of_a_mistake(
    broker: Broker, make_topic: TopicFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for the task that makes it."""
    topic = make_topic()

    def wrong(*_: object) -> Produced:
        raise ZeroDivisionError

    monkeypatch.setattr(requests, "_of", wrong)
    async with producer(broker, topic) as its:
        with pytest.raises(ZeroDivisionError):
            await its.send({0: BATCH}, PATIENCE_S)


@given(age_ms=st.integers(0, 10**9), sent_at=st.floats(0, 10**9))
def test_when_something_was_appended_is_counted_by_the_leaders_clock(age_ms: int, sent_at: float) -> None:
    """Which is another one than that of which the moment is."""
    produced = Produced(Verdict.WRITTEN, sent_at, 0, APPENDED_MS + age_ms)
    assert sent_at - produced.moment_of(APPENDED_MS) == pytest.approx(age_ms / 1000, abs=1e-3)
