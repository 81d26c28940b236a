"""Dual commit, the real one on a real log, with a ZooKeeper in memory, while all goes wrong that can: whatever was
acknowledged last is what is left, in both places. See :mod:`tests.migration.simulated.world`."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from compat import zookeeper as layout
from protocol.own.state_log import STATE_TOPIC, Step
from protocol.topic_partition import TopicPartition
from shim.coordinator import GroupCoordinator, GroupEvent
from shim.migration.own_offsets import own_offsets
from tests.migration.simulated import virtual_time
from tests.migration.simulated.disk import WritesOf
from tests.migration.simulated.retold import retold
from tests.migration.simulated.shim_process import TOPIC, ShimProcess
from tests.migration.simulated.world import World
from tests.migration.simulated.znode_tree import ZnodeTree

SHORT = 2
ORDERED = 9016
"""A world that was not the same each time where the order was a set's."""
ROUNDS = 6
SOON_SECONDS = 30  # of the loop's own
TOLD_LATE = 1013
"""A world in which the watch tells what a first fetch has just read, and it is read again behind that fetch."""
PARTS = 20
A_PART = 100


@pytest.fixture(autouse=True)
def _writes_in_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    _in_the_loop(monkeypatch)


def _in_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shim.disk_log.writer.WritingThread", WritesOf)
    monkeypatch.setattr("shim.runtime.snapshots.LEAST_RECORDS", 30)


def seen(seed: int, data_dir: Path, *, torn: bool = False, stays_dual: bool = False) -> Counter[str]:
    async def of_world() -> Counter[str]:
        world = World(seed, data_dir / str(seed), torn=torn, stays_dual=stays_dual)
        await world.run(ROUNDS)
        return world.counts

    return virtual_time.run(of_world())


# What a world must have seen on average, so that it shows something.
SEEN = {
    "changes": 150,
    "changes not done": 15,
    "and back": 20,
    "direct": 100,
    "fetches": 200,
    "created anew": 2,
    "kill": 3,
    "away": 3,
    "stall": 1,
    "disk": 1,
    "moves to ZOOKEEPER": 1,
    "moves to ZOOKEEPER_DUAL": 2,
    "moves to KAFKA_DUAL": 1,
}


def test_what_was_acknowledged_last_is_left(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    counts = Counter[str]()
    for seed in range(SHORT):
        counts += seen(seed, tmp_path)
    assert not [each for each in caplog.messages if each.startswith("cleaning failed")]
    assert counts >= Counter({what: SHORT * least for what, least in SEEN.items()})


def test_what_a_first_fetch_brings_with_it_is_waited_for(tmp_path: Path) -> None:
    virtual_time.run(World(TOLD_LATE, tmp_path).run(rounds=0))


def tell(data_dir: Path) -> None:
    """On standard output: what happens in that world, in a process of its own."""

    async def of_world() -> None:
        world = World(ORDERED, data_dir)
        await world.run(ROUNDS)
        print(*world.story, sep="\n")

    with pytest.MonkeyPatch.context() as monkeypatch:
        _in_the_loop(monkeypatch)
        virtual_time.run(of_world())


def test_a_seed_is_the_same_world_each_time(tmp_path: Path) -> None:
    """In whatever order sets of strings are."""
    first, second = retold(__name__, tmp_path)
    assert first
    assert first == second


def test_where_the_log_is_right_what_clients_committed_last_stands(tmp_path: Path) -> None:
    """Over what consumers had written before that, whatever was there in between."""
    counts = Counter[str]()
    for seed in range(SHORT // 2):
        counts += seen(seed, tmp_path, stays_dual=True)
    assert counts["the log is right"] == SHORT // 2 * ROUNDS * 12
    assert counts["back alone"] >= SHORT // 2 * ROUNDS
    assert list(tmp_path.rglob("*.snapshot")), "no start was from one"


def test_killed_when_half_of_what_was_carried_is_in_the_log(tmp_path: Path) -> None:
    """What a consumer writes next, while no shim runs, is newer than what was carried."""
    assert virtual_time.run(_left_after_a_kill_between_the_logs(tmp_path)) == b"8"


async def _left_after_a_kill_between_the_logs(data_dir: Path) -> bytes:
    tree, path = ZnodeTree(random.Random(0)), layout.offset_path("g", TOPIC, 0)
    tree.put(path, b"5")
    shim = _started(data_dir, tree)
    await asyncio.sleep(SOON_SECONDS)
    await shim.does(shim.fetch("g"))
    for step in (Step.ZOOKEEPER_DUAL, Step.KAFKA_DUAL):
        await shim.does(shim.stepping.move("g", step, "a test"))
        await asyncio.sleep(SOON_SECONDS)
    killed = asyncio.Event()
    shim.disk.tear(killed.set, STATE_TOPIC)
    tree.put(path, b"7")
    await killed.wait()
    await shim.kill()
    tree.put(path, b"8")
    tree.catch_up()
    shim = _started(data_dir, tree)
    await asyncio.sleep(SOON_SECONDS)
    await shim.kill()
    return tree.leader.znodes[path].data


@pytest.mark.parametrize("step", [Step.ZOOKEEPER, Step.ZOOKEEPER_DUAL, Step.KAFKA_DUAL])
def test_while_its_offsets_are_not_known_nothing_is_deleted(
    step: Step, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A partition that has yet to catch up with the cluster's transactions says nothing of its offsets."""
    loaded = GroupCoordinator.loaded

    def behind(self: GroupCoordinator, *args: Any) -> Sequence[GroupEvent]:
        events = loaded(self, *args)
        self._state.behind.add(0)
        return events

    async def of_a_restart() -> tuple[bytes, bytes]:
        tree, path = ZnodeTree(random.Random(0)), layout.offset_path("g", TOPIC, 0)
        tree.put(path, b"5")
        shim = _started(tmp_path, tree)
        await asyncio.sleep(SOON_SECONDS)
        await shim.does(shim.fetch("g"))
        for each in (Step.ZOOKEEPER_DUAL, Step.KAFKA_DUAL)[: list(Step).index(step) - 1]:
            await shim.does(shim.stepping.move("g", each, "a test"))
            await asyncio.sleep(SOON_SECONDS)
        assert shim.step_of("g") is step
        await shim.kill()
        with monkeypatch.context() as patched:
            patched.setattr(GroupCoordinator, "loaded", behind)
            shim = _started(tmp_path, tree)
            await asyncio.sleep(SOON_SECONDS)
        still = tree.leader.znodes[path].data
        tree.put(path, b"6")
        (coordinator,) = filter(None, [shim.runtime.coordinator(0)])
        coordinator.caught_up(0)
        await asyncio.sleep(SOON_SECONDS)
        assert own_offsets(coordinator, "g")[TopicPartition(TOPIC, 0)].offset == 6
        await shim.kill()
        return still, tree.leader.znodes[path].data

    assert virtual_time.run(of_a_restart()) == (b"5", b"6")


def _started(data_dir: Path, tree: ZnodeTree) -> ShimProcess:
    shim = ShimProcess(data_dir, tree, random.Random(0))
    shim.start()
    shim.ensemble.connect()
    return shim


@pytest.mark.soak
@pytest.mark.parametrize("part", range(PARTS))
def test_it_is_in_many_worlds(part: int, tmp_path: Path) -> None:
    counts = Counter[str]()
    for seed in range(1_000 + part * A_PART, 1_000 + (part + 1) * A_PART):
        counts += seen(seed, tmp_path)
    assert counts >= Counter({what: A_PART * least for what, least in SEEN.items()})


@pytest.mark.soak
@pytest.mark.parametrize("part", range(PARTS))
def test_the_log_is_right_in_many_worlds(part: int, tmp_path: Path) -> None:
    for seed in range(50_000 + part * A_PART, 50_000 + (part + 1) * A_PART):
        seen(seed, tmp_path, torn=bool(seed % 2), stays_dual=True)
