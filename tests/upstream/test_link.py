"""A client's link to its broker, alone: what its owner is told, and that nobody waits for ever."""

from __future__ import annotations

import asyncio
import socket
from typing import cast

import pytest

from shim.config import HostPort
from shim.upstream import BrokerLink, turns_of_loop
from shim.upstream.turns import SHARE_BYTES


class Owner:
    def __init__(self) -> None:
        self.told: list[str] = []
        self.ended = asyncio.Event()

    def link_received(self, data: bytes | memoryview) -> None:
        self.told.append(f"received {len(data)}")

    def link_writable(self, writable: bool) -> None:
        self.told.append(f"writable {writable}")

    def link_lost(self, reason: str, *, orderly: bool) -> None:
        self.told.append(f"lost {orderly}: {reason}")
        self.ended.set()


@pytest.mark.parametrize("host", ["a..b", "x" * 70, "k\u00e4fka..invalid"])
async def test_a_host_name_that_cannot_be_ends_the_link(host: str) -> None:
    owner = Owner()
    BrokerLink(owner).connect([HostPort(host, 9092)], 3.0)
    async with asyncio.timeout(30):
        await owner.ended.wait()
    assert owner.told[0] == "writable False"
    assert owner.told[1].startswith(f"lost False: {host}:9092: no such address can be: ")


async def test_an_error_nobody_foresaw_ends_the_link(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*args: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", broken)
    owner = Owner()
    BrokerLink(owner).connect([HostPort("127.0.0.1", 1)], 3.0)
    async with asyncio.timeout(30):
        await owner.ended.wait()
    assert owner.told == ["writable False", "lost False: 127.0.0.1:1: internal error"]
    (record,) = caplog.records
    assert record.exc_info is not None


async def test_a_link_closed_while_it_connects_tells_nothing_more() -> None:
    owner = Owner()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        link = BrokerLink(owner)
        link.connect([HostPort(*listening.getsockname())], 3.0)
        await asyncio.sleep(0)
        link.close()
        assert link._connecting is not None
        await asyncio.wait([link._connecting])
    assert link._connecting.cancelled()
    assert owner.told == ["writable False"]


class Reading:
    """A transport that knows whether it is read from."""

    def __init__(self) -> None:
        self.reads = True
        self.closed = False

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True


def busy_link() -> tuple[BrokerLink, Reading]:
    """One that waits for its turn: it has passed a share on, and might have passed on more."""
    link, transport = BrokerLink(Owner()), Reading()
    link.connection_made(cast(asyncio.BaseTransport, transport))
    link.data_received(bytes(SHARE_BYTES))
    assert not transport.reads
    return link, transport


async def test_a_link_whose_turn_has_come_is_read_from() -> None:
    _, transport = busy_link()
    await asyncio.sleep(0)
    assert transport.reads


async def test_a_link_is_read_from_when_it_is_its_turn_and_its_owner_wants_it() -> None:
    link, transport = busy_link()
    link.set_reading(False)
    link.set_reading(True)
    assert not transport.reads, "it is not its turn yet"
    link.set_reading(False)
    await asyncio.sleep(0)
    assert not transport.reads, "its owner does not want it"
    link.set_reading(True)
    assert transport.reads


@pytest.mark.parametrize("how", ["close", "lost"])
async def test_a_link_that_ends_while_it_waits_leaves_the_queue(how: str) -> None:
    link, transport = busy_link()
    if how == "close":
        link.close()
    else:
        link.connection_lost(None)
    assert len(turns_of_loop()) == 0
    await asyncio.sleep(0)
    assert not transport.reads
