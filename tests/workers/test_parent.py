"""A worker and its parent, where one of them cannot do what the other waits for."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from shim.config import HostPort
from shim.demo.parts import Broker, StartFailed
from shim.net.listening import listening_on
from shim.workers.at_parent import AtParent
from tests.serve.scraped import until
from tests.workers.conftest import shim_of
from tests.workers.processes import wait_until_gone, workers_of

ADDRESS = HostPort("127.0.0.1", 0)
FOUND = socket.getaddrinfo(*ADDRESS, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
OPEN, OPEN_FOUND, CLOSED = json.loads(
    json.dumps([{"open": [ADDRESS, None]}, {"open": [ADDRESS, FOUND]}, {"closed": ADDRESS}])
)

NO_ROOM = """
import errno, os
fork, left = os.fork, [{left}]
def forked():
    if not left[0]:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    left[0] -= 1
    return fork()
os.fork = forked
"""


ASKS_NOBODY = """
import os, socket
parent, found = os.getpid(), socket.getaddrinfo
def asked(*arguments, **named):
    assert os.getpid() != parent, "names are looked up in the parent"
    return found(*arguments, **named)
socket.getaddrinfo = asked
"""


class SlowParent:
    """The other end of a worker's channel, which answers when it is told to."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel

    async def hears(self) -> Any:
        async with asyncio.timeout(30):
            return json.loads(await asyncio.get_running_loop().sock_recv(self._channel, 1 << 16))

    def does_not_know(self) -> None:
        self._channel.send(b'{"unknown": null}')

    def opens(self) -> None:
        sockets = listening_on(FOUND)
        socket.send_fds(self._channel, [b'{"opened": 1}'], [each.fileno() for each in sockets])
        for each in sockets:
            each.close()


@pytest.fixture
def channel() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        ours.setblocking(False)
        yield ours, theirs


@pytest.fixture
async def worker(channel: tuple[socket.socket, socket.socket]) -> AsyncIterator[AtParent]:
    _, theirs = channel
    at_parent = AtParent(theirs)
    at_parent.begin(lambda: None)
    yield at_parent
    asyncio.get_running_loop().remove_reader(theirs)


@pytest.fixture
def parent(channel: tuple[socket.socket, socket.socket], worker: AtParent) -> SlowParent:
    return SlowParent(channel[0])


async def given_up(worker: AtParent, parent: SlowParent) -> None:
    asking = asyncio.ensure_future(worker.open(ADDRESS))
    assert await parent.hears() == OPEN
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


async def test_what_nobody_has_opened_is_looked_up(worker: AtParent, parent: SlowParent) -> None:
    opening = asyncio.ensure_future(worker.open(ADDRESS))
    assert await parent.hears() == OPEN
    parent.does_not_know()
    assert await parent.hears() == OPEN_FOUND
    parent.opens()
    for each in await opening:
        each.close()


async def test_what_comes_too_late_and_is_not_known_is_nothing(worker: AtParent, parent: SlowParent) -> None:
    await given_up(worker, parent)
    again = asyncio.ensure_future(worker.open(ADDRESS))
    assert await parent.hears() == OPEN
    parent.does_not_know()
    parent.opens()
    for each in await again:
        each.close()
    worker.ready("the next one")
    assert await parent.hears() == {"ready": "the next one"}


async def test_sockets_that_come_too_late_are_given_back(worker: AtParent, parent: SlowParent) -> None:
    await given_up(worker, parent)
    parent.opens()
    assert await parent.hears() == CLOSED


async def test_sockets_that_come_too_late_and_are_asked_for_again(worker: AtParent, parent: SlowParent) -> None:
    """The parent would take the address for closed, where it is open."""
    await given_up(worker, parent)
    again = asyncio.ensure_future(worker.open(ADDRESS))
    assert await parent.hears() == OPEN
    parent.opens()
    parent.opens()
    for each in await again:
        each.close()
    worker.closed(ADDRESS)
    worker.ready("the next one")
    assert await parent.hears() == CLOSED
    assert await parent.hears() == {"ready": "the next one"}


def test_no_room_for_all_workers_at_the_start(broker: Broker, data_dir: Path) -> None:
    shim = shim_of(broker, data_dir, 2)
    shim.late_patch = NO_ROOM.format(left=1)
    with pytest.raises(StartFailed, match="exit status 1"):
        shim.start()
    assert "Error: worker 1 cannot be begun: Resource temporarily unavailable" in shim.log()
    assert "Traceback" not in shim.log()
    shim.late_patch = ""
    shim.start()
    assert shim.stop() == 0


def test_names_are_not_looked_up_in_the_parent(broker: Broker, data_dir: Path) -> None:
    """Who is asked may not answer for long, and nobody else would be heard meanwhile: no worker, and no signal."""
    shim = shim_of(broker, data_dir, 2)
    shim.late_patch = ASKS_NOBODY
    with shim:
        assert len(workers_of(shim.pid)) == 2


def test_no_room_for_one_in_the_place_of_another(broker: Broker, data_dir: Path) -> None:
    shim = shim_of(broker, data_dir, 2)
    shim.late_patch = NO_ROOM.format(left=2)
    with shim:
        first, second = workers_of(shim.pid)
        os.kill(second, signal.SIGKILL)
        wait_until_gone([first])
        until(lambda: not shim.running)
        assert shim.returncode == 1
        assert "Error: worker 1 cannot be begun: Resource temporarily unavailable" in shim.log()
        assert "Traceback" not in shim.log()
