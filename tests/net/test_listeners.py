"""Ports come and go with the brokers, and none is left open."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from typing import Any, cast

import pytest

from shim.api import Services
from shim.config import HostPort, Settings
from shim.demo.parts import free_port_range
from shim.net import CannotListen, Listeners
from shim.upstream import PortMap
from tests.net.bench import HOST, until

BROKERS = {0: HostPort("kafka", 1), 1: HostPort("kafka", 2)}


class FakeCluster:
    def any_address(self) -> list[HostPort]:
        return []

    def address_of(self, node_id: int) -> list[HostPort]:
        return []


def listeners_at(port: int) -> Listeners:
    services = Services(
        cast(Any, None), cast(Any, FakeCluster()), PortMap(HOST, port), {}, cast(Any, None), cast(Any, None)
    )
    return Listeners(HostPort(HOST, port), services, Settings())


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
            f"no port for broker 1: cannot listen on {HOST}:{port + 2}: Address already in use",
        )
        assert caplog.messages == list(listeners.refused)
    try:
        await listeners.follow(BROKERS)
        assert (len(listeners.refused), accepting(port)) == (0, [1, 2])
        with pytest.raises(CannotListen):
            await listeners_at(port + 1).open()
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
        await until(lambda: len(listeners._sessions) == 1)
        listeners.close()
        await until(lambda: not len(listeners._sessions))
        with contextlib.suppress(ConnectionError):  # an end is as good as a reset
            assert client.recv(1) == b""
