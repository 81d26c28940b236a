"""Ports come and go with the brokers, and none is left open."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import struct
from typing import Any, cast

import pytest

from shim.api import Services
from shim.config import HostPort, Settings
from shim.demo.parts import free_port_range
from shim.listener_config import Listener
from shim.net import CannotListen, Limits, Listeners
from shim.upstream import PortMap
from tests.migration.placed import EVERYTHING_SERVED, NOWHERE_ELSE
from tests.net.bench import HOST
from tests.security.authorizers import NO_AUTHORIZER
from tests.waiting import until

BROKERS = {0: HostPort("kafka", 1), 1: HostPort("kafka", 2)}


class FakeCluster:
    def any_address(self) -> list[HostPort]:
        return []

    def address_of(self, node_id: int) -> list[HostPort]:
        return []


def listeners_at(*ports: int, settings: Settings | None = None, limits: Limits | None = None) -> Listeners:
    """A listener at each port."""
    settings = settings or Settings()
    return Listeners(
        [
            (
                Listener(f"AT-{port}", HostPort(HOST, port), HostPort(HOST, port), "PLAINTEXT", settings),
                Services(
                    cast(Any, None),
                    cast(Any, FakeCluster()),
                    PortMap(HOST, port),
                    {},
                    cast(Any, None),
                    cast(Any, None),
                    NO_AUTHORIZER,
                    cast(Any, None),
                    EVERYTHING_SERVED,
                    NOWHERE_ELSE,
                ),
                None,
            )
            for port in ports
        ],
        limits or Limits.of(settings),
    )


def accepting(port: int) -> list[int]:
    """Which of the bootstrap port and two brokers' are open."""
    found = []
    for number in range(port, port + 3):
        with socket.socket() as sock:
            if sock.connect_ex((HOST, number)) == 0:
                found.append(number - port)
    return found


async def test_the_port_of_a_broker_that_left_is_closed() -> None:
    port = free_port_range(3, HOST)
    listeners = listeners_at(port)
    try:
        await listeners.open()
        await listeners.follow(BROKERS)
        assert accepting(port) == [0, 1, 2]
        await listeners.follow({1: BROKERS[1]})
        assert accepting(port) == [0, 2]
        await listeners.follow(BROKERS)
        assert accepting(port) == [0, 1, 2]
    finally:
        listeners.close()


async def test_a_port_in_use_is_named_once_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    port = free_port_range(3, HOST)
    listeners = listeners_at(port)
    with socket.socket() as taken:
        taken.bind((HOST, port + 2))
        taken.listen()
        for _ in range(2):
            await listeners.follow(BROKERS)
        assert listeners.refused == (
            f"no port for broker 1: cannot listen on {HOST}:{port + 2} (--listen): Address already in use",
        )
        assert caplog.messages == list(listeners.refused)
    try:
        await listeners.follow(BROKERS)
        assert (len(listeners.refused), accepting(port)) == (0, [1, 2])
        with pytest.raises(CannotListen):
            await listeners_at(port + 1).open()
    finally:
        listeners.close()


async def test_only_listeners_that_are_open_are_told_of(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    port = free_port_range(3, HOST)
    listeners = listeners_at(port, port + 2)
    try:
        with socket.create_server((HOST, port + 2)), pytest.raises(CannotListen):
            await listeners.open()
        assert caplog.messages == [f"listener AT-{port} (PLAINTEXT) at {HOST}:{port}"]
    finally:
        listeners.close()


@pytest.mark.parametrize("way", ["close", "drain"])
async def test_a_closed_listener_opens_nothing_any_more(way: str) -> None:
    """Not the ports that it was about to open, nor those of a view that comes later."""
    port = free_port_range(3, HOST)
    listeners = listeners_at(port)
    await listeners.open()
    following = asyncio.create_task(listeners.follow(BROKERS))
    await asyncio.sleep(0)  # the first of the two is being opened
    if way == "close":
        listeners.close()
        listeners.close()
    else:
        await listeners.drain(0)
    await following
    await listeners.follow(BROKERS)
    found = accepting(port)
    listeners.close()
    assert found == []


async def test_close_cuts_off_the_connections() -> None:
    port = free_port_range(3, HOST)
    listeners = listeners_at(port)
    await listeners.open()
    with socket.socket() as client:
        client.connect((HOST, port))
        (one,) = listeners._ports
        await until(lambda: len(one._sessions) == 1)
        listeners.close()
        await until(lambda: not len(one._sessions))
        with contextlib.suppress(ConnectionError):  # an end is as good as a reset
            assert client.recv(1) == b""


async def test_listeners_too_near_to_each_other_are_named_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    port = free_port_range(5, HOST)
    listeners = listeners_at(port, port + 2)
    line = f"the listeners' ports are too near to each other: port {port + 2} would be broker 1 of AT-{port} and"
    try:
        await listeners.open()
        for _ in range(2):
            await listeners.follow(BROKERS)
        assert listeners.refused[0] == f"{line} bootstrap of AT-{port + 2}"
        assert caplog.messages[0] == listeners.refused[0]
        assert len(set(caplog.messages)) == len(caplog.messages)
        await listeners.follow({0: BROKERS[0]})
        assert listeners.refused == ()
    finally:
        listeners.close()


@pytest.mark.parametrize(
    ("security_protocol", "api", "of_strangers"),
    [("PLAINTEXT", (8, 2), False), ("SASL_PLAINTEXT", (17, 1), True)],
    ids=["OffsetCommit", "SaslHandshake"],
)
async def test_all_listeners_share_the_room_for_requests(
    security_protocol: str, api: tuple[int, int], of_strangers: bool
) -> None:
    settings = Settings(
        queued_max_request_bytes=80_000,
        upstream_security_protocol=security_protocol,
        upstream_sasl_username="shim",
        upstream_sasl_password="secret",
    )
    limits = Limits.of(settings)
    room, most = (limits.strangers, 10_000) if of_strangers else (limits.budget, 80_000)
    first, second = free_port_range(1), free_port_range(1)
    ports = listeners_at(first, second, settings=settings, limits=limits)
    await ports.open()
    try:
        announced = struct.pack(">ihhi", most - 1000, *api, 1)
        _, one = await asyncio.open_connection(HOST, first)
        one.write(announced)
        await until(lambda: room.taken == most - 1000)
        _, other = await asyncio.open_connection(HOST, second)
        other.write(announced)
        await until(lambda: len(room) == 1)
        one.close()
        await until(lambda: not len(room))
        assert room.taken == most - 1000
        other.close()
        await until(lambda: not room.taken)
        assert limits.budget.taken == limits.strangers.taken == 0
    finally:
        ports.close()
