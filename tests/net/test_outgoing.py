"""What is answered goes out together, when the loop has come round or when somebody says that all is answered."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from shim.net.outgoing import GATHERED_BYTES, Departures, Outgoing


class Transport:
    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.breaks_off = False

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes | memoryview) -> None:
        if self.breaks_off:
            raise RuntimeError("this transport breaks off")
        self.written.append(bytes(data))


def outgoing_to(transport: Transport, departures: Departures) -> Outgoing:
    outgoing = Outgoing(departures)
    outgoing.connected(cast(asyncio.Transport, transport))
    return outgoing


async def come_round() -> None:
    await asyncio.sleep(0)


async def test_what_one_turn_brings_is_one_write() -> None:
    transport = Transport()
    outgoing = outgoing_to(transport, Departures())
    outgoing.write(b"a")
    outgoing.write(memoryview(b"b"))
    assert transport.written == []
    await come_round()
    assert transport.written == [b"ab"]
    outgoing.write(b"c")
    await come_round()
    assert transport.written == [b"ab", b"c"]


async def test_all_depart_at_once_and_only_once() -> None:
    departures = Departures()
    transports = [Transport() for _ in range(3)]
    outgoings = [outgoing_to(each, departures) for each in transports]
    for outgoing in outgoings:
        outgoing.write(b"a")
    departures.send()
    assert [each.written for each in transports] == [[b"a"]] * 3
    outgoings[0].write(b"b")
    await come_round()
    await come_round()
    assert [each.written for each in transports] == [[b"a", b"b"], [b"a"], [b"a"]]


async def test_between_begin_and_end_nothing_departs() -> None:
    departures = Departures()
    transport = Transport()
    outgoing = outgoing_to(transport, departures)
    outgoing.begin()
    outgoing.write(b"a")
    departures.send()
    await come_round()
    assert transport.written == []
    outgoing.end()
    assert transport.written == [b"a"]


async def test_what_is_large_does_not_wait_and_keeps_its_place() -> None:
    transport = Transport()
    outgoing = outgoing_to(transport, Departures())
    outgoing.write(b"a")
    outgoing.write(bytes(GATHERED_BYTES))
    assert transport.written == [b"a", bytes(GATHERED_BYTES)]
    await come_round()
    assert len(transport.written) == 2


async def test_one_that_breaks_off_keeps_nobody_waiting() -> None:
    departures = Departures()
    transports = [Transport() for _ in range(4)]
    for transport in transports:
        outgoing_to(transport, departures).write(b"a")
    transports[1].breaks_off = True
    with pytest.raises(RuntimeError):
        departures.send()
    await come_round()
    assert [each.written for each in transports] == [[b"a"], [], [b"a"], [b"a"]]
