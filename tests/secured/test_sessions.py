"""The session that a broker grants ends (KIP-368): also for what the shim alone would serve.

Over SASL_PLAINTEXT on both sides. It is the clock that is tested, so all of it goes on at the same time.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.cimpl import NewTopic

from protocol.messages import sasl_authenticate
from tests.secured.broker import Door, SecuredBroker, secured_broker
from tests.secured.conftest import OF_ALICE, SHIM_RULES, shim_settings
from tests.secured.dialogue import ENDED, FETCH_OFFSETS, HEARTBEAT, METADATA, Said, authenticate, bare, handshake, say
from tests.secured.test_clients import TIMEOUT_S
from tests.secured.users import MECHANISMS, bearer, plain
from tests.secured.way import Way, way_to
from tests.shim_process import Shim
from tests.waiting import wait_until
from tests.wire import WireClient

LIFETIME_S: Final = 5.0
"""Clients authenticate again in the last tenth of it, and a busy machine may have no core for them meanwhile."""

ALICE: Final = plain("alice")
PLAIN: Final = (handshake(1, "PLAIN"), authenticate(2, ALICE))
TOPICS: Final = {mechanism: f"alice-{mechanism}-{uuid.uuid4().hex[:8]}" for mechanism in MECHANISMS}


def spoken(client: WireClient, *said: Said) -> list[bytes]:
    """The answers; none of them is the end."""
    answers = []
    for each in said:
        answer = say(client, each)
        assert isinstance(answer, bytes), each
        answers.append(answer)
    return answers


def late(said: Said, door: Door) -> None:
    """Nobody is served after the session."""
    with door.client() as client:
        begun = time.monotonic()
        _, granted = spoken(client, *PLAIN)
        _, answer = sasl_authenticate.API.parse_response(2, granted)
        assert answer.session_lifetime_ms == LIFETIME_S * 1000
        spoken(client, said)
        time.sleep(max(0.0, begun + LIFETIME_S + 0.3 - time.monotonic()))  # it ends by the time, and nobody is told
        assert say(client, said) == ENDED


def renewed(door: Door) -> None:
    """A session is renewed even when it has ended."""
    with door.client() as client:
        spoken(client, *PLAIN, HEARTBEAT, METADATA)
        time.sleep(LIFETIME_S + 0.3)
        spoken(client, *PLAIN, HEARTBEAT, METADATA)
        time.sleep(LIFETIME_S + 0.3)
        assert say(client, HEARTBEAT) == ENDED


def half_renewed(door: Door) -> None:
    """Who has begun to authenticate again, and leaves it at that, has no session either once it has ended."""
    with door.client() as client:
        spoken(client, *PLAIN, HEARTBEAT)
        time.sleep(1.1)  # brokers take no sooner one
        spoken(client, handshake(1, "PLAIN"))
        time.sleep(LIFETIME_S)
        assert say(client, HEARTBEAT) != ENDED  # the broker's: that it is no time for that
        assert client.ended()


def sooner(door: Door) -> None:
    """A token can end sooner."""
    with door.client() as client:
        spoken(client, handshake(1, "OAUTHBEARER"), authenticate(2, bearer("alice", LIFETIME_S / 2)), HEARTBEAT)
        time.sleep(LIFETIME_S / 2 + 0.1)
        assert say(client, HEARTBEAT) == ENDED


def found_out(said: tuple[Said, ...], door: Door) -> None:
    """Of who cannot be told when it ends: the broker ends it at the first request that reaches it; the shim sees to it
    that one does.
    """
    with door.client() as client:
        spoken(client, *said)
        wait_until(lambda: say(client, HEARTBEAT) == ENDED, "it goes on", LIFETIME_S + 15.0)


def unnoticed(mechanism: str, way: Way) -> None:
    """Over some sessions, a client's commits and records go on over connections that stay."""
    topic = TOPICS[mechanism]
    told: list[Any] = []
    settings = {**way.librdkafka(mechanism, "alice"), "error_cb": told.append}
    producer = Producer(settings)
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        end = time.monotonic() + 3 * LIFETIME_S
        records = 0
        while time.monotonic() < end:
            producer.produce(topic, str(records).encode())
            assert producer.flush(TIMEOUT_S) == 0
            message = consumer.poll(TIMEOUT_S)
            assert message is not None
            assert (message.error(), message.value()) == (None, str(records).encode())
            records += 1
            consumer.commit(asynchronous=False)
            (committed,) = consumer.committed([TopicPartition(topic, 0)], TIMEOUT_S)
            assert committed.offset == records
            time.sleep(0.5)  # others go on beside it
    finally:
        consumer.close()
    assert told == []


AT_THE_DOOR: Final[Mapping[str, Callable[[Door], None]]] = {
    "nobody is served after the session: passed on": partial(late, METADATA),
    "nobody is served after the session: served": partial(late, HEARTBEAT),
    "nobody is served after the session: served, too": partial(late, FETCH_OFFSETS),
    "renewed even when it has ended": renewed,
    "not renewed by half": half_renewed,
    "a token can end sooner": sooner,
    "who is not told: SaslHandshake 0": partial(found_out, (handshake(0, "PLAIN"), bare(ALICE))),
    "who is not told: SaslAuthenticate 0": partial(found_out, (handshake(1, "PLAIN"), authenticate(0, ALICE))),
}
OF_CLIENTS: Final[Mapping[str, Callable[[Way], None]]] = {
    f"a client that authenticates again: {mechanism}": partial(unnoticed, mechanism) for mechanism in MECHANISMS
}


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """A broker that grants short sessions."""
    lifetime = {"connections.max.reauth.ms": int(LIFETIME_S * 1000)}
    with secured_broker(tmp_path_factory.mktemp("short"), properties=lifetime) as running:
        running.allow(*SHIM_RULES, *OF_ALICE)
        admin = running.admin
        for future in admin.create_topics([NewTopic(topic, 1, 1) for topic in TOPICS.values()]).values():
            future.result(TIMEOUT_S)
        yield running


@pytest.fixture(scope="module")
def short_shim(short: SecuredBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shim]:
    settings = {**shim_settings(short), "topology.refresh.interval.ms": 100}
    data_dir = tmp_path_factory.mktemp("short-shim") / "data"
    with Shim(short.bootstrap_servers, data_dir, settings=settings) as running:
        yield running


@pytest.fixture(scope="module")
def begun(short: SecuredBroker, short_shim: Shim) -> Iterator[Mapping[str, Future[None]]]:
    door, way = short.door_at(short_shim.broker_port(1)), way_to(short_shim.bootstrap, short)
    with ThreadPoolExecutor(len(AT_THE_DOOR) + len(OF_CLIENTS)) as together:
        yield {
            **{name: together.submit(play, door) for name, play in AT_THE_DOOR.items()},
            **{name: together.submit(play, way) for name, play in OF_CLIENTS.items()},
        }


@pytest.mark.parametrize("name", [*AT_THE_DOOR, *OF_CLIENTS])
def test_a_session(begun: Mapping[str, Future[None]], name: str) -> None:
    begun[name].result()


def test_the_shims_own_sessions_are_renewed(begun: Mapping[str, Future[None]], short_shim: Shim) -> None:
    """Else its connections would be ended all the time; it would go on, and say so."""
    for future in begun.values():
        future.exception()  # so long has the shim looked at the cluster every 100 ms
    expected = ("WARNING client ", "WARNING data directory ", "WARNING brokers see the shim's address")
    warnings = [line for line in short_shim.log().splitlines() if " WARNING " in line]
    assert [line for line in warnings if not any(words in line for words in expected)] == []
