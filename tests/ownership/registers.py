"""Groups whose offsets are looked at as registers, at shims that share one log."""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from protocol.errors import ErrorCode
from protocol.messages import find_coordinator, offset_commit, offset_fetch
from shim.config import HostPort, Settings
from shim.upstream.errors import UpstreamError
from shim.upstream.kept_connection import KeptConnection
from tests.ownership.history import Operation, Told, gone_back, wrong_in
from tests.shim_process import Shim
from tests.waiting import until

PATIENCE_S: Final = 90.0
_ANSWERED_WITHIN_S: Final = 5.0
_SETTINGS: Final = Settings(request_timeout_ms=60_000)
_PAUSE_S: Final = 0.3  # between requests of one task: two cores have other things to do, too
PARTITIONS_OF_A_COMMIT: Final = (0, 1)
_NEWEST_OF_ONE: Final = 3


def connection(address: HostPort) -> KeptConnection:
    return KeptConnection(address, _SETTINGS)


class Register:
    """One group's offsets of two partitions, which are always committed together, each time as a number of its own."""

    def __init__(self, group: str, topic: str) -> None:
        self.group = group
        self._topic = topic
        self._numbers = itertools.count()
        self.operations: list[Operation] = []
        self._torn: list[str] = []
        self.acknowledged = 0
        self.told: Counter[int] = Counter()

    async def commit(self, at: KeptConnection, place: int) -> bool:
        """Whether it was acknowledged. Raises UpstreamError, TimeoutError."""
        number = next(self._numbers)
        partitions = tuple(offset_commit.OffsetCommitRequestPartition(each, number) for each in PARTITIONS_OF_A_COMMIT)
        request = offset_commit.OffsetCommitRequest(
            self.group, topics=(offset_commit.OffsetCommitRequestTopic(self._topic, partitions=partitions),)
        )
        begun, ended = time.monotonic(), math.inf
        try:
            async with asyncio.timeout(_ANSWERED_WITHIN_S):
                answer = await at.ask(offset_commit.API, request, at_most=8, once=True)
            done = {each.error_code for each in answer.topics[0].partitions} == {ErrorCode.NONE}
            if done:
                ended = time.monotonic()
                self.acknowledged += 1
            return done
        finally:
            self.operations.append(Operation(True, number, place, begun, ended))

    async def fetch(self, at: KeptConnection, place: int) -> None:
        """Raises UpstreamError."""
        topics = (offset_fetch.OffsetFetchRequestTopic(self._topic, PARTITIONS_OF_A_COMMIT),)
        request = offset_fetch.OffsetFetchRequest(self.group, topics)
        begun = time.monotonic()
        answer = await at.ask(offset_fetch.API, request, at_most=7, once=True)
        ended = time.monotonic()
        partitions = answer.topics[0].partitions if answer.topics else ()
        if not partitions or any((answer.error_code, *(each.error_code for each in partitions))):
            return
        found = {each.committed_offset for each in partitions}
        if len(found) > 1:
            self._torn.append(f"{self.group}: shim {place} says {sorted(found)}, which were never committed together")
        self.told[place] += 1
        self.operations.append(Operation(False, min(found), place, begun, ended))

    @property
    def wrong(self) -> list[str]:
        return [*self._torn, *(f"{self.group}: {each}" for each in wrong_in(self.operations))]


class Watched:
    """A group of others' consumers: what is told of its offsets."""

    def __init__(self, group: str, topic: str, partitions: int) -> None:
        self.group = group
        self._partitions = partitions
        self._topics = (offset_fetch.OffsetFetchRequestTopic(topic, tuple(range(partitions))),)
        self.told: list[Told] = []

    async def fetch(self, at: KeptConnection, place: int) -> None:
        """Raises UpstreamError."""
        begun = time.monotonic()
        request = offset_fetch.OffsetFetchRequest(self.group, self._topics)
        answer = await at.ask(offset_fetch.API, request, at_most=7, once=True)
        partitions = answer.topics[0].partitions if answer.topics else ()
        if partitions and not any((answer.error_code, *(each.error_code for each in partitions))):
            offsets = tuple(each.committed_offset for each in partitions)
            self.told.append(Told(offsets, place, begun, time.monotonic()))

    def wrong(self, written: Mapping[int, Sequence[int]]) -> list[str]:
        """``written``: of each partition what was committed, in the order in which it is in the log."""
        in_order = [written.get(partition, ()) for partition in range(self._partitions)]
        return [f"{self.group}: {each}" for each in gone_back(self.told, in_order)]


class AtWork:
    """Writers that look for their coordinators, as clients do; at each shim one that commits there whoever has the
    group, and readers that ask there all the time."""

    def __init__(self, shims: Sequence[Shim], registers: Sequence[Register], node_ids: Sequence[int]) -> None:
        self.shims = shims
        self.registers = registers
        self._node_ids = node_ids
        self.watched: list[Watched] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._avoided: Shim | None = None
        self._committing: dict[str, HostPort] = {}
        self._insisting: dict[int, HostPort] = {}
        self._asked: Counter[int] = Counter()

    def begin(self) -> None:
        begun = [self._write(each) for each in self.registers]
        begun += [self._read(each, place) for each in self.registers for place in range(len(self.shims))]
        begun += [self._insist(place) for place in range(len(self.shims))]
        self._tasks = [asyncio.ensure_future(each) for each in begun]

    def watch(self, groups: Iterable[Watched]) -> None:
        """From now on, at every shim."""
        for each in groups:
            self.watched.append(each)
            self._tasks += [asyncio.ensure_future(self._look(each, place)) for place in range(len(self.shims))]

    async def _look(self, watched: Watched, place: int) -> None:
        at = self._reading(place)
        try:
            while True:
                with suppress(UpstreamError):
                    await watched.fetch(at, place)
                await asyncio.sleep(_PAUSE_S)
        finally:
            at.close()

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
            while not self._is_avoided(address) and await register.commit(at, self._place(address)):  # noqa: ASYNC110 - as quick as it goes
                await asyncio.sleep(_PAUSE_S)
        finally:
            at.close()
            del self._committing[register.group]

    async def _insist(self, place: int) -> None:
        """Of one group after the other, there."""
        address = HostPort("127.0.0.1", self.shims[place].broker_port(self._node_ids[-1]))
        at = connection(address)
        try:
            for register in itertools.cycle(self.registers):
                if not self._is_avoided(address):
                    self._insisting[place] = address
                    with suppress(UpstreamError, TimeoutError):
                        await register.commit(at, place)
                    self._insisting.pop(place)
                await asyncio.sleep(_PAUSE_S)
        finally:
            at.close()

    def _place(self, address: HostPort) -> int:
        return next(place for place in range(len(self.shims)) if address.port in self._ports(self.shims[place]))

    def _ports(self, shim: Shim) -> set[int]:
        return {shim.broker_port(node_id) for node_id in self._node_ids}

    def _is_avoided(self, address: HostPort) -> bool:
        return self._avoided is not None and address.port in self._ports(self._avoided)

    @asynccontextmanager
    async def avoided(self, shim: Shim) -> AsyncIterator[None]:
        """Nobody commits there, so that there is nothing left for it to write, by which it would hear of others."""
        self._avoided = shim
        await self._soon(
            lambda: not any(map(self._is_avoided, (*self._committing.values(), *self._insisting.values()))),
            "silence there",
        )
        try:
            yield
        finally:
            self._avoided = None

    async def asked(self, shim: Shim, more: int = 5) -> None:
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
        at = self._reading(place)
        try:
            while True:
                with suppress(UpstreamError):
                    await register.fetch(at, place)
                    self._asked[place] += 1
                await asyncio.sleep(_PAUSE_S)
        finally:
            at.close()

    def _reading(self, place: int) -> KeptConnection:
        return connection(HostPort("127.0.0.1", self.shims[place].broker_port(self._node_ids[0])))

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
            await until(reached, PATIENCE_S)
        except TimeoutError:
            logs = "\n".join(f"--- {shim.bootstrap}\n{shim.log()[-3000:]}" for shim in self.shims)
            raise AssertionError(f"no {what} within {PATIENCE_S:g} s\n{logs}") from None

    def check(self) -> None:
        """Of all that was asked of the registers, and answered, so far."""
        wrong = [each for register in self.registers for each in register.wrong]
        assert not wrong, wrong[:5]

    def write(self, path: Path) -> None:
        """All that was asked and answered, a line each, for who has to find out why it is wrong."""
        with path.open("w") as file:
            for register in self.registers:
                for each in sorted(register.operations, key=lambda each: each.begun):
                    file.write(json.dumps([register.group, *each]) + "\n")
