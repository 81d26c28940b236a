"""Groups whose offsets are looked at as registers, at shims that share one log."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

from protocol.errors import ErrorCode
from protocol.messages import find_coordinator, offset_commit, offset_fetch
from shim.config import HostPort, Settings
from shim.upstream.errors import UpstreamError
from shim.upstream.kept_connection import KeptConnection
from tests.shim_process import Shim

PATIENCE_S: Final = 90.0
_ANSWERED_WITHIN_S: Final = 5.0
_SETTINGS: Final = Settings(request_timeout_ms=60_000)
_PAUSE_S: Final = 0.02  # between requests of one task: two cores have other things to do, too
_NEWEST_OF_ONE: Final = 3


def connection(address: HostPort) -> KeptConnection:
    return KeptConnection(address, _SETTINGS)


class Register:
    """One group's offset of one partition: one writer, many readers. What is told has to be the newest number that was
    acknowledged, or told, before it was asked for, or a later one; or one of which the writer has never heard, which
    may be done at any time, or never."""

    def __init__(self, group: str, topic: str) -> None:
        self.group = group
        self._topic = topic
        self._number = 0
        self._least = -1
        self._unknown: set[int] = set()
        self.wrong: list[str] = []
        self.acknowledged = 0
        self.told: Counter[int] = Counter()

    async def commit(self, at: KeptConnection) -> bool:
        """Whether it was acknowledged. Raises UpstreamError, TimeoutError."""
        self._number += 1
        number = self._number
        self._unknown.add(number)
        partitions = (offset_commit.OffsetCommitRequestPartition(0, number),)
        request = offset_commit.OffsetCommitRequest(
            self.group, topics=(offset_commit.OffsetCommitRequestTopic(self._topic, partitions=partitions),)
        )
        async with asyncio.timeout(_ANSWERED_WITHIN_S):
            answer = await at.ask(offset_commit.API, request, at_most=8, once=True)
        if answer.topics[0].partitions[0].error_code != ErrorCode.NONE:
            return False
        self._unknown.discard(number)
        self._least = max(self._least, number)
        self.acknowledged += 1
        return True

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
        if found < least and found not in self._unknown:
            self.wrong.append(f"{self.group}: shim {place} says {found}, when {least} was acknowledged or told")
        self._least = max(self._least, found)


class AtWork:
    """Writers that look for their coordinators, as clients do, and readers that ask every shim all the time."""

    def __init__(self, shims: Sequence[Shim], registers: Sequence[Register], node_ids: Sequence[int]) -> None:
        self.shims = shims
        self.registers = registers
        self._node_ids = node_ids
        self._tasks: list[asyncio.Task[None]] = []
        self._avoided: Shim | None = None
        self._committing: dict[str, HostPort] = {}
        self._asked: Counter[int] = Counter()

    def begin(self) -> None:
        begun = [self._write(each) for each in self.registers]
        begun += [self._read(each, place) for each in self.registers for place in range(len(self.shims))]
        self._tasks = [asyncio.ensure_future(each) for each in begun]

    async def end(self) -> None:
        """Raises what went wrong."""
        broken = [task.exception() for task in self._tasks if task.done()]
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        assert not broken, broken
        self.check()

    async def _write(self, register: Register) -> None:
        rng = random.Random(register.group)
        asked = [connection(HostPort("127.0.0.1", shim.port)) for shim in self.shims]
        try:
            while True:
                with suppress(UpstreamError, TimeoutError):
                    address = await self._coordinator(rng.choice(asked), register.group)
                    if address is not None and not self._is_avoided(address):
                        await self._commits(register, address)
                await asyncio.sleep(_PAUSE_S)
        finally:
            for each in asked:
                each.close()

    async def _commits(self, register: Register, address: HostPort) -> None:
        """As long as they are acknowledged. Raises UpstreamError, TimeoutError."""
        at = connection(address)
        self._committing[register.group] = address
        try:
            while not self._is_avoided(address) and await register.commit(at):  # noqa: ASYNC110 - as quick as it goes
                await asyncio.sleep(_PAUSE_S)
        finally:
            at.close()
            del self._committing[register.group]

    def _is_avoided(self, address: HostPort) -> bool:
        shim = self._avoided
        return shim is not None and address.port in {shim.broker_port(node_id) for node_id in self._node_ids}

    @asynccontextmanager
    async def avoided(self, shim: Shim) -> AsyncIterator[None]:
        """Nobody commits there, so that there is nothing left for it to write, by which it would hear of others."""
        self._avoided = shim
        await self._soon(lambda: not any(map(self._is_avoided, self._committing.values())), "silence there")
        try:
            yield
        finally:
            self._avoided = None

    async def asked(self, shim: Shim, more: int = 10) -> None:
        """Every group's offset, that often, and it has answered something."""
        place = self.shims.index(shim)
        due = self._asked[place] + more * len(self.registers)
        await self._soon(lambda: self._asked[place] >= due, "answers there")

    async def _coordinator(self, asked: KeptConnection, group: str) -> HostPort | None:
        """As one of them says. Raises UpstreamError, TimeoutError."""
        async with asyncio.timeout(_ANSWERED_WITHIN_S):
            answer = await asked.ask(
                find_coordinator.API, find_coordinator.FindCoordinatorRequest(group), at_most=_NEWEST_OF_ONE
            )
        return HostPort(answer.host, answer.port) if answer.error_code == ErrorCode.NONE else None

    async def _read(self, register: Register, place: int) -> None:
        at = connection(HostPort("127.0.0.1", self.shims[place].broker_port(self._node_ids[0])))
        try:
            while True:
                with suppress(UpstreamError):
                    await register.fetch(at, place)
                    self._asked[place] += 1
                await asyncio.sleep(_PAUSE_S)
        finally:
            at.close()

    async def commits(self, more: int = 3) -> None:
        """Of each group."""
        async with asyncio.TaskGroup() as each:
            for register in self.registers:
                each.create_task(self._until(lambda register=register: register.acknowledged, more, "a commit"))  # type: ignore[misc]

    async def answers(self, more: int = 3) -> None:
        """To fetches, of each group."""
        async with asyncio.TaskGroup() as each:
            for register in self.registers:
                each.create_task(self._until(lambda register=register: register.told.total(), more, "an answer"))  # type: ignore[misc]

    async def _until(self, count: Callable[[], int], more: int, what: str) -> None:
        due = count() + more
        await self._soon(lambda: count() >= due, f"{what} of each group")

    async def _soon(self, reached: Callable[[], bool], what: str) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not reached():
                    self.check()
                    await asyncio.sleep(0.05)  # it is counted by tasks that answer to nobody
        except TimeoutError:
            logs = "\n".join(f"--- {shim.bootstrap}\n{shim.log()[-3000:]}" for shim in self.shims)
            raise AssertionError(f"no {what} within {PATIENCE_S:g} s\n{logs}") from None

    def check(self) -> None:
        wrong = [each for register in self.registers for each in register.wrong]
        assert not wrong, wrong[:5]
