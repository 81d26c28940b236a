"""Shims with one log on topics, each with a data directory of its own: one takes over from another that works, is
killed, or is held up for longer than its lease, with brokers that hang meanwhile. No commit that was acknowledged is
lost, and no offset is told that is older than one."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from protocol.errors import ErrorCode
from protocol.messages import offset_commit, offset_fetch
from protocol.partition import partition_for
from shim.config import HostPort, Settings
from shim.demo.parts import Cluster
from shim.upstream.errors import UpstreamError
from shim.upstream.kept_connection import KeptConnection
from tests.conftest import TopicFactory
from tests.shim_process import Shim

PARTITIONS: Final = 3
GROUPS: Final = tuple(
    next(name for i in range(100) if partition_for(name := f"group-{i}", PARTITIONS) == number)
    for number in range(PARTITIONS)
)
SETTINGS: Final = Settings(request_timeout_ms=60_000)
PATIENCE_S: Final = 90.0
_PAUSE_S: Final = 0.02  # between requests of one task: two cores have other things to do, too


class Register:
    """One group's offset of one partition: one writer, many readers. Numbers only rise, so that whatever is told has to
    be at least what was acknowledged, or told, before it was asked for."""

    def __init__(self, group: str, topic: str) -> None:
        self.group = group
        self._topic = topic
        self._number = 0
        self._least = -1
        self.wrong: list[str] = []
        self.acknowledged = 0
        self.told: Counter[int] = Counter()

    async def commit(self, at: KeptConnection) -> None:
        """Raises UpstreamError. Whether an earlier one that was not acknowledged was done nobody knows; later than this
        one it is not."""
        self._number += 1
        number = self._number
        partitions = (offset_commit.OffsetCommitRequestPartition(0, number),)
        request = offset_commit.OffsetCommitRequest(
            self.group, topics=(offset_commit.OffsetCommitRequestTopic(self._topic, partitions=partitions),)
        )
        answer = await at.ask(offset_commit.API, request, at_most=8, once=True)
        if answer.topics[0].partitions[0].error_code == ErrorCode.NONE:
            self._least = max(self._least, number)
            self.acknowledged += 1

    async def fetch(self, at: KeptConnection, place: int) -> None:
        """Raises UpstreamError."""
        least = self._least
        topics = (offset_fetch.OffsetFetchRequestTopic(self._topic, (0,)),)
        request = offset_fetch.OffsetFetchRequest(self.group, topics)
        answer = await at.ask(offset_fetch.API, request, at_most=7, once=True)
        of_partition = answer.topics[0].partitions[0] if answer.topics else None
        if answer.error_code != ErrorCode.NONE or of_partition is None or of_partition.error_code != ErrorCode.NONE:
            return
        found = of_partition.committed_offset
        self.told[place] += 1
        if found < least:
            self.wrong.append(f"{self.group}: shim {place} says {found}, when {least} was acknowledged or told")
        self._least = max(self._least, found)


class Turns:
    """Two places for shims. ``current``: whose shim the writers commit at."""

    def __init__(self, shims: list[Shim], registers: list[Register]) -> None:
        self.shims = shims
        self.registers = registers
        self.current = 0
        self.changed = asyncio.Event()

    def change_to(self, place: int) -> None:
        """From now on nobody commits anywhere else any more."""
        self.current = place
        self.changed.set()
        self.changed = asyncio.Event()

    async def write(self, register: Register) -> None:
        while True:
            place, changed = self.current, self.changed
            at = connection(self.shims[place])
            commits = asyncio.ensure_future(self._commits(register, at))
            try:
                await changed.wait()
            finally:
                commits.cancel()
                await asyncio.wait([commits])
                at.close()

    async def _commits(self, register: Register, at: KeptConnection) -> None:
        while True:
            with suppress(UpstreamError):
                await register.commit(at)
            await asyncio.sleep(_PAUSE_S)

    async def read(self, register: Register, place: int) -> None:
        at = connection(self.shims[place])
        try:
            while True:
                with suppress(UpstreamError):
                    await register.fetch(at, place)
                await asyncio.sleep(_PAUSE_S)
        finally:
            at.close()

    async def until(self, count: Callable[[], int], more: int, what: str) -> None:
        """It has grown by so much."""
        due = count() + more
        async with asyncio.timeout(PATIENCE_S):
            while count() < due:
                self.check()
                await asyncio.sleep(0.05)  # it is counted by tasks that answer to nobody
        assert count() >= due, what

    async def commits(self, more: int = 3) -> None:
        """Of each group."""
        async with asyncio.TaskGroup() as each:
            for register in self.registers:
                each.create_task(self.until(lambda register=register: register.acknowledged, more, "a commit"))  # type: ignore[misc]

    async def answers(self, place: int) -> None:
        """To fetches, of each group."""
        async with asyncio.TaskGroup() as each:
            for register in self.registers:
                each.create_task(self.until(lambda register=register: register.told[place], 3, "an answer"))  # type: ignore[misc]

    def check(self) -> None:
        wrong = [each for register in self.registers for each in register.wrong]
        assert not wrong, wrong[:5]


def connection(shim: Shim) -> KeptConnection:
    return KeptConnection(HostPort("127.0.0.1", shim.broker_port(1)), SETTINGS)


async def started(shim: Shim) -> None:
    await asyncio.to_thread(shim.start)


async def ended_by_itself(shim: Shim) -> None:
    """It has found out that it was fenced."""
    async with asyncio.timeout(PATIENCE_S):
        while shim.running:  # noqa: ASYNC110 - a process tells only who waits for it in a thread
            await asyncio.sleep(0.05)
    assert "another shim has taken over" in shim.log().splitlines()[-1], shim.log()[-2000:]


@asynccontextmanager
async def at_work(cluster: Cluster, topic: str, folder: Path) -> AsyncIterator[Turns]:
    settings: dict[str, str | int] = {
        "offsets.log": "kafka",
        "offsets.log.topics.prefix": f"__{topic}",
        "offsets.topic.num.partitions": PARTITIONS,
        "offsets.mirror.upstream": "false",
    }
    shims = [
        Shim(cluster.bootstrap_servers, folder / f"data-{place}", settings=settings, start_timeout=PATIENCE_S)
        for place in range(2)
    ]
    turns = Turns(shims, [Register(group, topic) for group in GROUPS])
    try:
        await started(shims[0])
        tasks = [asyncio.ensure_future(turns.write(each)) for each in turns.registers]
        tasks += [asyncio.ensure_future(turns.read(each, place)) for each in turns.registers for place in range(2)]
        try:
            await turns.commits()
            yield turns
            await turns.commits()
            turns.check()
            for task in tasks:
                assert not task.done(), task.exception()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    finally:
        for shim in shims:
            with suppress(RuntimeError):
                shim.kill()


async def fault(kind: str, turns: Turns, cluster: Cluster, rng: random.Random) -> None:
    here, there = turns.current, 1 - turns.current
    shim, other = turns.shims[here], turns.shims[there]
    match kind:
        case "taken over":
            await started(other)
            turns.change_to(there)
            await turns.commits()
            await ended_by_itself(shim)
        case "killed":
            shim.kill()
            await started(other)
            turns.change_to(there)
        case "held up":
            # Nothing is left for it to write, by which it would hear of the other one.
            turns.change_to(there)
            await turns.answers(here)
            os.kill(shim.pid, signal.SIGSTOP)
            try:
                await started(other)
                await turns.commits()
            finally:
                os.kill(shim.pid, signal.SIGCONT)
            await ended_by_itself(shim)
        case "stopped":
            assert await asyncio.to_thread(shim.stop) == 0, shim.log()[-2000:]
            await started(other)
            turns.change_to(there)
        case "broker":
            pid = rng.choice([each for each in cluster.brokers if not each.is_controller]).pid
            os.kill(pid, signal.SIGSTOP)
            try:
                await turns.commits(2)
            finally:
                os.kill(pid, signal.SIGCONT)
    await turns.commits()


KINDS: Final = ("held up", "taken over", "broker", "killed", "stopped")


@pytest.mark.parametrize("faults", [5, pytest.param(100, marks=pytest.mark.soak)])
async def test_shims_in_turn(cluster: Cluster, make_topic: TopicFactory, tmp_path: Path, faults: int) -> None:
    rng = random.Random(faults)
    async with at_work(cluster, make_topic(), tmp_path) as turns:
        for number in range(faults):
            await fault(KINDS[number] if number < len(KINDS) else rng.choice(KINDS), turns, cluster, rng)
        assert all(sum(register.told.values()) > 10 for register in turns.registers)
