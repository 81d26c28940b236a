"""One-time watches of a real ZooKeeper."""

from __future__ import annotations

import asyncio

import pytest
from kazoo.client import KazooClient
from kazoo.protocol.states import EventType, KeeperState, WatchedEvent
from kazoo.security import CREATOR_ALL_ACL

from shim.demo.parts import ZooKeeper
from shim.offsets.zookeeper.ensemble import Ensemble
from shim.offsets.zookeeper.session import Watcher
from shim.offsets.zookeeper.znodes import EnsembleError, EnsembleRefused, NoZnode
from tests.offsets.conftest import TIMEOUT_S, kazoo
from tests.offsets.events import Events


class Heard:
    """Paths, in order."""

    def __init__(self) -> None:
        self._paths: asyncio.Queue[str] = asyncio.Queue()

    def watch(self, path: str) -> None:
        self._paths.put_nowait(path)

    async def next(self) -> str:
        async with asyncio.timeout(TIMEOUT_S):
            return await self._paths.get()

    async def none(self, ensemble: Ensemble) -> bool:
        """Of what was done before: another watch's event comes after theirs."""
        await ensemble.make_path("/last")
        last = asyncio.Event()
        await ensemble.get("/last", lambda _: last.set())
        await ensemble.set("/last", b"")
        async with asyncio.timeout(TIMEOUT_S):
            await last.wait()
        return self._paths.empty()


async def test_each_is_told_once(ensemble: Ensemble, others: KazooClient) -> None:
    heard = Heard()
    await ensemble.make_path("/a/b")
    await ensemble.get("/a", heard.watch)
    await ensemble.get("/a", heard.watch)
    others.set("/a", b"1")
    assert await heard.next() == "/a"
    others.set("/a", b"2")
    assert await heard.none(ensemble)
    await ensemble.get_many(["/a", "/a/b", "/none"], watch=heard.watch)
    others.delete("/a/b")
    others.create("/none")
    assert await heard.next() == "/a/b"
    others.set("/a", b"3")
    assert await heard.next() == "/a"
    assert await heard.none(ensemble)


async def test_names_that_come_and_go(ensemble: Ensemble, others: KazooClient) -> None:
    heard = Heard()
    await ensemble.make_path("/a/b")
    await ensemble.children("/", heard.watch)
    assert await ensemble.children_many(["/a", "/a/b", "/none"], watch=heard.watch) == [["b"], [], []]
    others.set("/a", b"no name came or went")
    assert await heard.none(ensemble) is False
    assert await heard.next() == "/", "as /last was made"
    others.create("/a/c")
    assert await heard.next() == "/a"
    others.delete("/a/b")
    assert await heard.next() == "/a/b"
    others.create("/none/x", makepath=True)
    assert await heard.none(ensemble)


async def test_a_znode_that_is_not_there_yet(ensemble: Ensemble, others: KazooClient) -> None:
    heard = Heard()
    await ensemble.make_path("/there")
    assert await ensemble.exist_many(["/a/b", "/there"], watch=heard.watch) == [False, True]
    others.create("/a")
    assert await heard.none(ensemble)
    others.create("/a/b")
    assert await heard.next() == "/a/b"
    others.delete("/there")
    assert await heard.next() == "/there"


async def test_it_goes_with_the_connection(zookeeper: ZooKeeper, ensemble: Ensemble) -> None:
    heard, events = Heard(), Events(ensemble)
    await ensemble.make_path("/a")
    await ensemble.get("/a", heard.watch)
    await asyncio.to_thread(zookeeper.stop)
    await asyncio.to_thread(zookeeper.start)
    await events.connected()
    await ensemble.set("/a", b"1")
    assert await heard.none(ensemble)
    await ensemble.get("/a", heard.watch)
    await ensemble.set("/a", b"2")
    assert await heard.next() == "/a"


async def test_it_goes_with_the_session(ensemble: Ensemble, others: KazooClient) -> None:
    heard = Heard()
    await ensemble.make_path("/a")
    await ensemble.get("/a", heard.watch)
    await ensemble.close()
    others.set("/a", b"1")
    await ensemble.start(TIMEOUT_S)
    assert await heard.none(ensemble)


async def test_what_kazoo_still_had_of_another_session(ensemble: Ensemble) -> None:
    heard = Heard()
    client = ensemble._session.client
    assert client is not None
    watcher = Watcher(ensemble._session, client, 0, heard.watch)
    event = WatchedEvent(EventType.CHANGED, KeeperState.CONNECTED, "/a")
    watcher(event)
    assert await heard.next() == "/a"
    await ensemble.close()
    await ensemble.start(TIMEOUT_S)
    watcher(event)
    assert await heard.none(ensemble)


async def test_one_that_is_refused_does_not_end_it_all(connect: str, ensemble: Ensemble) -> None:
    await ensemble.make_path("/a")
    with kazoo(connect, auth_data=[("digest", "ann:secret")]) as ann:
        ann.create("/anns", acl=CREATOR_ALL_ACL)
    wrong: dict[str, EnsembleError] = {}
    found = await ensemble.get_many(["/anns", "/none", "/a"], wrong=wrong)
    assert [each is None for each in found] == [True, True, False]
    assert {path: type(error) for path, error in wrong.items()} == {"/anns": EnsembleRefused, "/none": NoZnode}
    with pytest.raises(EnsembleRefused):
        await ensemble.get_many(["/anns", "/none", "/a"])
