"""Offsets that change in a real ZooKeeper, as old consumers write them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE

from compat.zookeeper import NotAName, Offsets
from shim.demo.parts import ZooKeeper
from shim.logged_once import LoggedOnce
from shim.offsets.store import ABSENT, Partition, StoredOffset
from shim.offsets.zookeeper.ensemble import Ensemble
from shim.offsets.zookeeper.offsets import ZooKeeperOffsets
from shim.offsets.zookeeper.watched_group import Look, WatchedGroup
from shim.offsets.zookeeper.watching import OffsetsWatch
from shim.offsets.zookeeper.znodes import Create, EnsembleError, EnsembleUnavailable, SessionEvent
from tests.hung import hung
from tests.offsets.conftest import TIMEOUT_S, in_vain, kazoo, put
from tests.offsets.events import Events
from tests.offsets.told import Told, watching

T = "/consumers/g/offsets/t"


async def test_what_stands_there_and_what_changes(ensemble: Ensemble, others: KazooClient) -> None:
    put(others, f"{T}/0", b"7")
    put(others, "/consumers/g/offsets/u/3", b"8")
    told = Told()
    async with watching(ensemble, told, "g"):
        assert told.calls == [("g", {("t", 0): StoredOffset(7, 1), ("u", 3): StoredOffset(8, 1)})]
        for number in range(3):
            told.clear()
            others.set(f"{T}/0", b"%d" % number)
            await told.of("g", {("t", 0): StoredOffset(number, 2 + number)})


async def test_what_the_shim_writes_is_told_too(ensemble: Ensemble) -> None:
    told, store = Told(), ZooKeeperOffsets(ensemble)
    async with watching(ensemble, told, "g"):
        versions = await store.commit("g", {("t", 0): StoredOffset(1), ("t", 1): StoredOffset(2)})
        await told.of("g", {("t", 0): StoredOffset(1, versions["t", 0]), ("t", 1): StoredOffset(2, versions["t", 1])})
        versions = await store.commit("g", {("t", 0): StoredOffset(3)})
        assert await told.one("g", ("t", 0), 3) == StoredOffset(3, versions["t", 0])


async def test_new_partitions_topics_and_groups(ensemble: Ensemble, others: KazooClient) -> None:
    """From nothing: not even `/consumers` is there."""
    told = Told()
    async with watching(ensemble, told, "g"):
        assert told.calls == []
        expected = {}
        for topic, partition in (("t", 0), ("t", 1), ("u", 0), ("t", 2), ("u", 5)):
            others.create(f"/consumers/g/offsets/{topic}/{partition}", b"4", makepath=True)
            expected[topic, partition] = StoredOffset(4, 0)
            await told.of("g", expected)


async def test_step_by_step(ensemble: Ensemble, others: KazooClient) -> None:
    """The old consumer creates the znodes one after another, each a moment after its parent."""
    told = Told()
    async with watching(ensemble, told, "g") as watch:
        for path in ("/consumers", "/consumers/g", "/consumers/g/offsets", T):
            others.create(path)
            await watch.known("g")
        assert told.calls == []
        others.create(f"{T}/0", b"1")
        await told.of("g", {("t", 0): StoredOffset(1, 0)})


async def test_what_is_deleted_and_comes_again(ensemble: Ensemble, others: KazooClient) -> None:
    put(others, f"{T}/0", b"7")
    put(others, f"{T}/1", b"7")
    told = Told()
    async with watching(ensemble, told, "g"):
        for number, path in enumerate((f"{T}/0", T, "/consumers/g/offsets", "/consumers/g") * 2):
            told.clear()
            others.delete(path, recursive=True)
            others.create(f"{T}/0", b"%d" % number, makepath=True)
            await told.of("g", {("t", 0): StoredOffset(number, 0)})


async def test_deleted_for_a_while(ensemble: Ensemble, others: KazooClient) -> None:
    """Each of them seen by the watch, before the next."""
    put(others, f"{T}/0", b"7")
    put(others, "/consumers/g/offsets/mark/0", b"0")
    told, marks = Told(), 0
    async with watching(ensemble, told, "g"):
        for path in (f"{T}/0", T):
            others.delete(path, recursive=True)
            marks += 1
            others.set("/consumers/g/offsets/mark/0", b"%d" % marks)
            await told.one("g", ("mark", 0), marks)
            told.clear()
            others.create(f"{T}/0", b"%d" % marks, makepath=True)
            await told.of("g", {("t", 0): StoredOffset(marks, 0)})


@pytest.mark.parametrize(
    ("path", "seen", "parent"),
    [
        (f"{T}/0", Offsets("g", "t", "0"), Offsets("g", "t")),
        (T, Offsets("g", "t"), Offsets("g")),
        ("/consumers/g/offsets", Offsets("g"), Offsets("g")),
    ],
)
async def test_its_own_watch_tells_before_its_parents(
    ensemble: Ensemble, others: KazooClient, path: str, seen: Offsets, parent: Offsets
) -> None:
    """One look for each of the events of a deletion, or of the creation that follows."""
    put(others, f"{T}/0", b"7")
    groups = {"g": WatchedGroup(LoggedOnce(logging.getLogger(__name__)))}

    async def look(at: Offsets) -> Mapping[str, Mapping[Partition, StoredOffset]]:
        taken = Look(ensemble, lambda _: None, groups, {at})
        await taken.read()
        assert taken.failed == {}
        return taken.found

    assert await look(Offsets("g")) == {"g": {("t", 0): StoredOffset(7, 1)}}
    others.delete(path, recursive=True)
    assert await look(seen) == {}
    others.create(f"{T}/0", b"8", makepath=True)
    assert await look(parent) == {"g": {("t", 0): StoredOffset(8, 0)}}


async def test_a_burst(ensemble: Ensemble, others: KazooClient) -> None:
    for partition in range(50):
        put(others, f"{T}/{partition}", b"0")
    told = Told()
    async with watching(ensemble, told, "g"):
        told.clear()
        for number in range(1, 501):
            others.set_async(f"{T}/{number % 50}", b"%d" % number)
        last = {("t", number % 50): StoredOffset(number, 11) for number in range(451, 501)}
        await told.until(lambda: told.offsets.get("g") == last)
        told_values = [offset.offset for _, offsets in told.calls for (_, p), offset in offsets.items() if p == 0]
        assert told_values == sorted(told_values), "never an older one after a newer one"
        assert len(told.calls) < 500


async def test_other_groups_are_not_told(ensemble: Ensemble, others: KazooClient) -> None:
    put(others, f"{T}/0", b"7")
    put(others, "/consumers/h/offsets/t/0", b"8")
    told = Told()
    async with watching(ensemble, told, "g") as watch:
        others.set("/consumers/h/offsets/t/0", b"9")
        others.set(f"{T}/0", b"10")
        await told.one("g", ("t", 0), 10)
        assert list(told.offsets) == ["g"]
        watch.watch("h")
        await watch.known("h")
        assert told.calls[-1] == ("h", {("t", 0): StoredOffset(9, 2)})


async def test_unwatched(ensemble: Ensemble, others: KazooClient) -> None:
    put(others, f"{T}/0", b"7")
    put(others, "/consumers/h/offsets/t/0", b"8")
    told = Told()
    async with watching(ensemble, told, "g", "h") as watch:
        told.clear()
        watch.unwatch("g")
        watch.unwatch("g")
        watch.unwatch("nobody")
        put(others, f"{T}/0", b"9")
        put(others, f"{T}/1", b"9")
        others.set("/consumers/h/offsets/t/0", b"10")
        await told.of("h", {("t", 0): StoredOffset(10, 2)})
        assert list(told.offsets) == ["h"]
        with pytest.raises(KeyError):
            await watch.known("g")
        watch.watch("g")
        watch.watch("g")
        await watch.known("g")
        assert told.calls[1:] == [("g", {("t", 0): StoredOffset(9, 2), ("t", 1): StoredOffset(9, 1)})]
        others.set(f"{T}/0", b"11")
        assert await told.one("g", ("t", 0), 11) == StoredOffset(11, 3)


async def test_what_is_not_watched_any_more_is_not_over(
    ensemble: Ensemble, others: KazooClient, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    put(others, f"{T}/0", b"7")
    refused, get_many = asyncio.Event(), ensemble.get_many

    async def refuses(paths: Any, *args: Any, wrong: Any, **more: Any) -> Any:
        found = await get_many(paths, *args, wrong=wrong, **more)
        wrong |= dict.fromkeys(paths, EnsembleError("it is refused"))
        if paths:
            refused.set()
        return [None for _ in found]

    monkeypatch.setattr(ensemble, "get_many", refuses)
    line = Line("are not seen for now")
    logging.getLogger("shim.offsets.zookeeper.watching").addHandler(line)
    try:
        async with watching(ensemble, Told()) as watch:
            watch.watch("g")
            async with asyncio.timeout(TIMEOUT_S):
                await line.there.wait()
            watch.unwatch("g")
    finally:
        logging.getLogger("shim.offsets.zookeeper.watching").removeHandler(line)
    assert refused.is_set()
    assert [each for each in caplog.messages if "'g'" in each] == [
        "offsets of group 'g' in ZooKeeper are not seen for now: it is refused"
    ]


async def test_that_what_is_strange_is_gone_is_a_line(
    ensemble: Ensemble, others: KazooClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    put(others, f"{T}/0", b"no offset")
    put(others, f"{T}/x", b"7")
    put(others, f"{T}/1", b"7")
    for name in ("0", "x"):
        put(others, f"/consumers/g/offsets/u/{name}", b"no offset")
    told = Told()
    async with watching(ensemble, told, "g"):
        others.delete("/consumers/g/offsets/u", recursive=True)
        others.delete(f"{T}/0")
        others.delete(f"{T}/x")
        others.set(f"{T}/1", b"8")
        await told.one("g", ("t", 1), 8)
        put(others, f"{T}/2", b"9")  # behind both
        await told.one("g", ("t", 2), 9)
        put(others, "/consumers/g/offsets/v/0", b"1")  # behind the other topic
        await told.one("g", ("v", 0), 1)
    over = {each for each in caplog.messages if each.startswith("this is over: what stands at ")}
    assert over == {
        f"this is over: what stands at {topic}/{name} is not taken as an offset"
        for topic in (T, "/consumers/g/offsets/u")
        for name in "0x"
    }


async def test_unwatched_while_it_is_looked_at(ensemble: Ensemble, others: KazooClient) -> None:
    put(others, f"{T}/0", b"7")
    put(others, "/consumers/h/offsets/t/0", b"7")
    told: list[str] = []

    def changed(group: str, _: object) -> None:
        told.append(group)
        watch.unwatch("h" if group == "g" else "g")

    watch = OffsetsWatch(ensemble, changed)
    watch.watch("g")
    watch.watch("h")
    running = asyncio.ensure_future(watch.run())
    async with asyncio.timeout(TIMEOUT_S):
        known = await asyncio.gather(watch.known("g"), watch.known("h"), return_exceptions=True)
    running.cancel()
    assert [type(each) for each in known] == [type(None), KeyError][:: 1 if told == ["g"] else -1]
    assert len(told) == 1


async def test_who_waits_for_a_group_that_is_not_watched_any_more(ensemble: Ensemble) -> None:
    watch = OffsetsWatch(ensemble, Told().changed)
    with pytest.raises(KeyError):
        await watch.known("g")
    watch.watch("g")
    waiting = asyncio.ensure_future(watch.known("g"))
    await asyncio.sleep(0)
    assert not waiting.done(), "nothing runs"
    watch.unwatch("g")
    with pytest.raises(KeyError):
        await waiting


async def test_the_oldest_layout(ensemble: Ensemble, others: KazooClient) -> None:
    put(others, f"{T}/1001-0", b"5")
    told = Told()
    async with watching(ensemble, told, "g"):
        assert told.calls == [("g", {("t", 0): StoredOffset(5, ABSENT)})]
        others.set(f"{T}/1001-0", b"6")
        await told.of("g", {("t", 0): StoredOffset(6, ABSENT)})
        others.create(f"{T}/0", b"7")
        await told.of("g", {("t", 0): StoredOffset(7, 0)})
        others.set(f"{T}/1001-0", b"8")
        others.set(f"{T}/0", b"9")
        await told.of("g", {("t", 0): StoredOffset(9, 1)})
        assert 8 not in [each.offset for _, offsets in told.calls for each in offsets.values()]
        others.delete(f"{T}/0")
        await told.of("g", {("t", 0): StoredOffset(8, ABSENT)})
        put(others, f"{T}/1002-0", b"10")
        put(others, f"{T}/1", b"11")
        await told.one("g", ("t", 1), 11)
        assert told.offsets["g"]["t", 0].offset == 8, "of several brokers none"


async def test_strange_values(ensemble: Ensemble, others: KazooClient, caplog: pytest.LogCaptureFixture) -> None:
    for name, value in (("0", b"nonsense"), ("1", b"1"), ("x", b"2")):
        put(others, f"{T}/{name}", value)
    told = Told()
    async with watching(ensemble, told, "g"):
        assert told.calls == [("g", {("t", 1): StoredOffset(1, 1)})]
        for number in range(3):
            others.set(f"{T}/0", b"nonsense")
            others.set(f"{T}/1", b"%d" % number)
            await told.one("g", ("t", 1), number)
        others.set(f"{T}/0", b"5")
        assert await told.one("g", ("t", 0), 5) == StoredOffset(5, 5)
    lines = [record.getMessage() for record in caplog.records if record.name == "shim.offsets.zookeeper.watching"]
    assert sorted(lines) == [
        f"what stands at {T}/0 is not taken as an offset for now: b'nonsense' is no offset",
        f"what stands at {T}/x is not taken as an offset for now: not the name of a partition",
    ]


async def test_what_may_not_be_read(
    connect: str, ensemble: Ensemble, others: KazooClient, caplog: pytest.LogCaptureFixture
) -> None:
    """It keeps nobody else from being seen, and is when it may be read."""
    put(others, f"{T}/0", b"1")
    put(others, "/consumers/h/offsets/t/0", b"2")
    told = Told()
    with kazoo(connect, auth_data=[("digest", "ann:secret")]) as ann:
        ann.create(f"{T}/1", b"3", acl=CREATOR_ALL_ACL)
        async with watching(ensemble, told, "h") as watch:
            watch.watch("g")
            await told.of("g", {("t", 0): StoredOffset(1, 1)})
            others.set(f"{T}/0", b"4")
            await told.of("g", {("t", 0): StoredOffset(4, 2)})
            knowing = asyncio.ensure_future(watch.known("g"))
            await asyncio.sleep(0)
            assert not knowing.done()
            ann.set_acls(f"{T}/1", OPEN_ACL_UNSAFE)
            async with asyncio.timeout(TIMEOUT_S):
                await knowing
            assert told.offsets["g"] == {("t", 0): StoredOffset(4, 2), ("t", 1): StoredOffset(3, 0)}
    lines = [record.getMessage() for record in caplog.records if record.name == "shim.offsets.zookeeper.watching"]
    assert lines == [
        f"offsets of group 'g' in ZooKeeper are not seen for now: {T}/1: ZooKeeper does not allow it (NoAuth)"
    ]


async def test_a_server_that_is_stopped_and_started_again(
    zookeeper: ZooKeeper, ensemble: Ensemble, connect: str
) -> None:
    with kazoo(connect) as others:
        put(others, f"{T}/0", b"1")
        put(others, f"{T}/1", b"1")
    told, events = Told(), Events(ensemble)
    async with watching(ensemble, told, "g", "none") as watch:
        await asyncio.to_thread(zookeeper.stop)
        assert await events.next() is SessionEvent.SUSPENDED
        told.clear()
        waiting = [asyncio.ensure_future(watch.known(group)) for group in ("g", "none")]
        await asyncio.sleep(0)
        assert not any(each.done() for each in waiting), "nothing is known while the connection is away"
        await asyncio.to_thread(zookeeper.start)
        with kazoo(connect) as others:
            others.set(f"{T}/0", b"2")
            async with asyncio.timeout(TIMEOUT_S):
                await asyncio.gather(*waiting)
            await told.of("g", {("t", 0): StoredOffset(2, 2), ("t", 1): StoredOffset(1, 1)})
            put(others, f"{T}/1", b"3")
            put(others, "/consumers/none/offsets/t/0", b"4")
            assert await told.one("g", ("t", 1), 3) == StoredOffset(3, 2)
            await told.one("none", ("t", 0), 4)


async def test_an_expired_session(ensemble: Ensemble, connect: str) -> None:
    """With a change made before there is a new one."""
    told, events = Told(), Events(ensemble)
    with kazoo(connect) as others:
        put(others, f"{T}/0", b"1")
        async with watching(ensemble, told, "g") as watch:
            client = ensemble._session.client
            assert client is not None
            with kazoo(connect, client_id=client.client_id):
                others.set(f"{T}/0", b"2")
            heard = [await events.next()]
            while heard[-1] is not SessionEvent.CONNECTED or SessionEvent.LOST not in heard:
                heard.append(await events.next())
            async with asyncio.timeout(TIMEOUT_S):
                await watch.known("g")
            assert told.offsets["g"] == {("t", 0): StoredOffset(2, 2)}
            others.set(f"{T}/0", b"3")
            await told.of("g", {("t", 0): StoredOffset(3, 3)})


class Line(logging.Handler):
    """Told of a line in the log, in the event loop."""

    def __init__(self, words: str) -> None:
        super().__init__()
        self._words = words
        self.there = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if self._words in record.getMessage():
            self.there.set()


async def test_a_short_hang_is_got_over(zookeeper: ZooKeeper, connect: str) -> None:
    """The connection stays: what was not read is tried again without a new one."""
    ensemble = Ensemble(connect, session_timeout_ms=20_000)
    await ensemble.start(TIMEOUT_S, make_chroot=True)
    line = Line("not seen for now")
    logging.getLogger("shim.offsets.zookeeper.watching").addHandler(line)
    try:
        await ensemble.make_path(T)
        await ensemble.create(f"{T}/0", b"1")
        told, events = Told(), Events(ensemble)
        async with watching(ensemble, told) as watch:
            with hung(zookeeper.pid), in_vain(ensemble, 0.2):
                watch.watch("g")
                async with asyncio.timeout(TIMEOUT_S):
                    await line.there.wait()
            await told.of("g", {("t", 0): StoredOffset(1, 0)})
            assert events.none_left
    finally:
        logging.getLogger("shim.offsets.zookeeper.watching").removeHandler(line)
        await ensemble.close()


async def test_an_outage_is_a_line_and_that_it_is_over(
    ensemble: Ensemble, others: KazooClient, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many words there are for it."""
    caplog.set_level(logging.INFO)
    put(others, f"{T}/0", b"1")
    whys, looks = ["it is suspended", "it is lost"], ensemble.children_many

    async def away_at_first(*args: Any, **more: Any) -> Any:
        if whys:
            raise EnsembleUnavailable(whys.pop(0))
        return await looks(*args, **more)

    monkeypatch.setattr(ensemble, "children_many", away_at_first)
    told = Told()
    async with watching(ensemble, told, "g"):
        assert told.calls == [("g", {("t", 0): StoredOffset(1, 1)})]
    lines = [record.getMessage() for record in caplog.records if record.name == "shim.offsets.zookeeper.watching"]
    assert lines == [
        "changes of offsets in ZooKeeper are not seen for now: it is suspended",
        "this is over: changes of offsets in ZooKeeper are not seen",
    ]


async def test_it_starts_before_the_session(connect: str) -> None:
    ensemble = Ensemble(connect)
    told = Told()
    watch = OffsetsWatch(ensemble, told.changed)
    watch.watch("g")
    running = asyncio.ensure_future(watch.run())
    await asyncio.sleep(0)
    await ensemble.start(TIMEOUT_S, make_chroot=True)
    await ensemble.make_path(T)
    await ensemble.create(f"{T}/0", b"1")
    await told.of("g", {("t", 0): StoredOffset(1, 0)})
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await ensemble.close()


def test_what_can_be_no_group(connect: str) -> None:
    with pytest.raises(NotAName):
        OffsetsWatch(Ensemble(connect), Told().changed).watch("a/b")


async def first_reading_and_slowest_change(ensemble: Ensemble, groups: int) -> tuple[float, float]:
    """Seconds, of the first a minute at most. Groups of 50 partitions each."""
    names = [f"g{number}" for number in range(groups)]
    for name in names:
        await ensemble.make_path(f"/consumers/{name}/offsets/t")
        await ensemble.multi([Create(f"/consumers/{name}/offsets/t/{number}", b"1") for number in range(50)])
    told, slowest, begun = Told(), 0.0, time.monotonic()
    async with watching(ensemble, told, *names, within=60):
        first = time.monotonic() - begun
        assert sum(map(len, told.offsets.values())) == groups * 50
        for number, name in enumerate(names[:: groups // 20]):
            begun = time.monotonic()
            await ensemble.set(f"/consumers/{name}/offsets/t/{number}", b"2")
            await told.one(name, ("t", number), 2)
            slowest = max(slowest, time.monotonic() - begun)
    return first, slowest


async def test_many_groups(ensemble: Ensemble) -> None:
    await first_reading_and_slowest_change(ensemble, 40)


@pytest.mark.soak
async def test_two_thousand_groups(tmp_path: Path) -> None:
    """The server's heap is larger than usual: 64 MB are too few for so many znodes, each with a watch."""
    with ZooKeeper(tmp_path, heap_mb=256) as zookeeper:
        ensemble = Ensemble(zookeeper.connect_string)
        await ensemble.start(TIMEOUT_S)
        try:
            first, slowest = await first_reading_and_slowest_change(ensemble, 2_000)
        finally:
            await ensemble.close()
    print(f"2,000 groups, 100,000 znodes: first read in {first:.1f} s, then a change told in {slowest * 1000:.0f} ms")
    assert slowest < 1
