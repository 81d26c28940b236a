"""Clients that want to harm: the shim stays up, others are served, and nothing is left behind."""

from __future__ import annotations

import random
import selectors
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Producer

from shim.demo.parts import Broker
from tests.conftest import TopicFactory
from tests.hostile.watching import Served, commit, held, most_open_files, wait_settled
from tests.shim_process import Shim
from tests.waiting import wait_until
from tests.wire import WireClient

HOST = "127.0.0.1"
AT_ONCE = 250
IDLE_MS = 5_000  # nobody who is served is silent for so long, however busy the machine is
SETTINGS: dict[str, str | int] = {"connections.max.idle.ms": IDLE_MS, "request.timeout.ms": IDLE_MS}


@pytest.fixture(scope="module")
def shim(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shim]:
    most_open_files()
    with Shim(broker.bootstrap_servers, tmp_path_factory.mktemp("shim") / "data", settings=SETTINGS) as running:
        yield running


Attack = Callable[[random.Random], bytes]


def _random(rng: random.Random) -> bytes:
    return rng.randbytes(rng.randint(1, 2_000))


def _malformed(rng: random.Random) -> bytes:
    """A right head, and nothing right behind it."""
    key, version = rng.choice([(0, 9), (1, 12), (3, 9), (8, 8), (9, 8), (10, 4), (11, 7), (12, 4), (18, 3), (28, 3)])
    body = rng.randbytes(rng.randint(0, 300))
    return struct.pack(">ihhi", 8 + len(body), key, version, rng.getrandbits(31)) + body


def _oversized(rng: random.Random) -> bytes:
    return struct.pack(">ihhi", rng.choice([2**31 - 1, 104_857_601, -1, 0]), 8, 8, 1) + bytes(100)


def _announced(rng: random.Random) -> bytes:
    """A large request that the shim would answer itself, of which next to nothing comes."""
    return struct.pack(">ihhi", rng.randint(5_000, 104_857_600), 8, 8, 1) + bytes(rng.randint(0, 3_000))


ATTACKS: dict[str, Attack] = {
    "random": _random,
    "malformed": _malformed,
    "oversized": _oversized,
    "announced": _announced,
}


def attack(port: int, count: int, what: Attack, rng: random.Random) -> None:
    """So many connections, `AT_ONCE` at a time; each is closed by whichever side wants to."""
    for begin in range(0, count, AT_ONCE):
        with selectors.DefaultSelector() as selector:
            for _ in range(min(AT_ONCE, count - begin)):
                sock = socket.create_connection((HOST, port), timeout=30)
                try:
                    sock.sendall(what(rng))
                except ConnectionError:
                    sock.close()
                    continue
                sock.setblocking(False)
                selector.register(sock, selectors.EVENT_READ)
            for key, _ in selector.select(0.2):
                assert isinstance(key.fileobj, socket.socket)
                with suppress(ConnectionError):
                    key.fileobj.recv(1 << 16)
            for key in list(selector.get_map().values()):
                assert isinstance(key.fileobj, socket.socket)
                key.fileobj.close()


@pytest.mark.parametrize("kind", ATTACKS)
@pytest.mark.parametrize("count", [125, pytest.param(2_500, marks=pytest.mark.soak)])
def test_bad_bytes_on_many_connections(
    shim: Shim, broker: Broker, make_topic: TopicFactory, group: str, kind: str, count: int
) -> None:
    """500 connections over all kinds, and 10,000 in the soak."""
    topic, rng = make_topic(), random.Random(count)
    attack(shim.port, 50, ATTACKS[kind], rng)  # what is made once is made now
    quiet(shim, group, topic)
    before = held(shim)
    with Served(shim.port, group, topic) as served:
        attack(shim.port, count // 2, ATTACKS[kind], rng)
        attack(shim.broker_port(broker.node_id), count - count // 2, ATTACKS[kind], rng)
    assert served.commits > 0
    after = wait_settled(shim, before)
    assert after.memory_kib - before.memory_kib < 8_192 + count
    assert "Traceback" not in shim.log()


def quiet(shim: Shim, group: str, topic: str) -> None:
    """Until nobody is connected but the shim itself to its broker, and that has not changed for a while.

    It has a connection of its own to ask for topics, from the first commit for one on.
    """
    with WireClient(shim.port) as client:
        commit(client, group, topic, 0)
    same, last = 0, held(shim)
    while same < 10:
        time.sleep(0.05)  # how many there are to be is not known
        now = held(shim)
        same = same + 1 if now[:2] == last[:2] else 0
        last = now


def test_half_requests_end_and_hold_nobody_up(shim: Shim, make_topic: TopicFactory, group: str) -> None:
    """Slowloris: a byte now and then, of a head, or of a request that is answered here. Their room is given back."""
    topic = make_topic()
    large = struct.pack(">ihhi", 60_000_000, 8, 8, 1)
    quiet(shim, group, topic)
    before = held(shim)
    with Served(shim.port, group, topic):
        slow = [socket.create_connection((HOST, shim.port), timeout=30) for _ in range(40)]
        for number, sock in enumerate(slow):
            sock.sendall(large if number % 2 else large[:3])
        open_ones, deadline = set(slow), time.monotonic() + 60
        while open_ones:
            assert time.monotonic() < deadline, f"{len(open_ones)} are still open"
            for sock in list(open_ones):
                try:
                    sock.sendall(b"\0")
                    sock.setblocking(False)
                    if sock.recv(1) == b"":
                        raise ConnectionResetError
                except BlockingIOError:
                    sock.setblocking(True)
                except ConnectionError:
                    open_ones.remove(sock)
            time.sleep(0.2)  # slow is what they are
        for sock in slow:
            sock.close()
    wait_settled(shim, before)


def test_silent_connections_are_closed(shim: Shim) -> None:
    with WireClient(shim.port) as client:
        begun = time.monotonic()
        assert client.ended()
        assert time.monotonic() - begun >= IDLE_MS / 1000


def test_more_connections_than_open_files(broker: Broker, make_topic: TopicFactory, tmp_path: Path, group: str) -> None:
    """Those there is no room for wait; who is there is served, commits are written, and all is well afterwards."""
    topic = make_topic()
    patch = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (300, 550))"
    settings = {"offsets.topic.num.partitions": 50}
    most_open_files()
    with Shim(broker.bootstrap_servers, tmp_path / "data", settings=settings, late_patch=patch) as shim:
        quiet(shim, group, topic)
        before = held(shim)
        with Served(shim.port, group, topic) as served:
            flood = [socket.create_connection((HOST, shim.port), timeout=30) for _ in range(600)]
            for sock in flood:
                sock.sendall(struct.pack(">ihhih", 10, 18, 0, 1, -1))
            answered = 0
            for sock in flood:
                sock.settimeout(0.5 if answered >= 60 else 30)
                try:
                    answered += bool(sock.recv(10))
                except TimeoutError:
                    break
            assert 60 <= answered <= 72, answered
            done = served.commits
            wait_until(lambda: served.commits >= done + 10, "who is there is not served any more")
            for sock in flood:
                sock.close()
        wait_settled(shim, before)
        with WireClient(shim.port) as client:
            commit(client, group, topic, 1)
        assert shim.log().count("new ones wait") == 1
        assert "Traceback" not in shim.log()


def test_limits_on_connections(broker: Broker, tmp_path: Path) -> None:
    """As with a broker: one too many waits, one too many of an address is cut off."""
    settings: dict[str, str | int] = {"max.connections": 3, "max.connections.per.ip.overrides": "127.0.0.5:1"}
    with Shim(broker.bootstrap_servers, tmp_path / "data", settings=settings) as shim:

        def asks(source: str = HOST) -> socket.socket:
            sock = socket.socket()
            sock.bind((source, 0))
            sock.connect((HOST, shim.port))
            sock.settimeout(30)
            sock.sendall(struct.pack(">ihhih", 10, 18, 0, 1, -1))
            return sock

        special = [asks("127.0.0.5")]
        assert special[0].recv(1)
        with socket.socket() as refused:
            refused.bind(("127.0.0.5", 0))
            refused.connect((HOST, shim.port))
            refused.settimeout(30)
            with suppress(ConnectionResetError):
                assert refused.recv(1) == b""
        others = [asks() for _ in range(3)]
        assert [bool(sock.recv(1)) for sock in others[:2]] == [True, True]
        shim.wait_logged("as many connections as there may be")
        others[2].setblocking(False)
        with pytest.raises(BlockingIOError):
            others[2].recv(1)
        special[0].close()
        others[2].settimeout(30)
        assert others[2].recv(1)
        for sock in others:
            sock.close()


def test_a_client_that_reads_nothing_of_a_gigabyte(
    shim: Shim, broker: Broker, make_topic: TopicFactory, group: str
) -> None:
    """It fetches 64 MB sixteen times over without reading: the shim holds less than 8 MiB for it."""
    topic = make_topic()
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "queue.buffering.max.kbytes": 200_000})
    for _ in range(64):
        producer.produce(topic, bytes(990_000))
    assert producer.flush(60) == 0
    name, size = topic.encode(), 64_000_000
    body = struct.pack(">iiiib", -1, 10_000, size - 2_000_000, size, 0)
    body += struct.pack(">ih", 1, len(name)) + name + struct.pack(">iiqi", 1, 0, 0, size)
    frame = struct.pack(">ihhih", 10 + len(body), 1, 4, 7, -1) + body
    quiet(shim, group, topic)
    before = held(shim)
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        client.connect((HOST, shim.broker_port(broker.node_id)))
        client.sendall(frame * 16)
        client.settimeout(30)
        assert client.recv(1), "the first answer has begun"
        most = before
        for _ in range(15):
            time.sleep(0.1)  # all of it would have come in a part of that
            most = max(most, held(shim), key=lambda each: each.memory_kib)
        assert most.memory_kib - before.memory_kib < 8 << 10
        # It is closed as idle: in half an answer nobody is left who reads.
    wait_settled(shim, before)
