"""Producers and consumer groups of unmodified libraries, a process each, under way while shims and brokers fail."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Final, Self

from protocol.errors import ErrorCode
from protocol.messages import describe_groups, find_coordinator
from shim.config import HostPort, Settings
from shim.demo.parts.process import Child
from shim.upstream.errors import UpstreamError
from shim.upstream.kept_connection import KeptConnection, KeptConnections
from tests.clients.client_table import Client
from tests.cluster.rolling_load import committed, high_watermarks
from tests.waiting import until_told

TOPIC_PARTITIONS: Final = 8
PATIENCE_S: Final = 150.0
"""Kafka's clients wait for an answer for 30 seconds, ask once more, and back off."""
OUTLASTING: Final[Mapping[str, tuple[str, ...]]] = {"aiokafka": ("request_timeout_ms=150000",)}
"""What producers are told so that a record outlasts a minute in which nobody answers: aiokafka gives one up 40 seconds
after it was handed to it, at a broker that hangs for as long, too. The others have two minutes and more."""
_RECORD: Final = re.compile(r"Partition:(\d+)\tOffset:(\d+)\t(.*)-(\d+)")
_BETWEEN_RECORDS_S: Final = 0.1
_LOOK_S: Final = 0.1
_LEAVE_S: Final = 60.0
_STDERR_SHOWN: Final = 1_000  # characters of each, and more where it has ended


class Group:
    """The members of one group, all of one library, and what they have printed: of each producer the numbers."""

    def __init__(self, name: str, client: Client) -> None:
        self.name = name
        self.client = client
        self.members: list[Child] = []
        self._lock = threading.Lock()
        self._read: dict[str, set[int]] = {}
        self.records = 0

    def take(self, line: str) -> None:
        """Of any of them; called in their reading threads."""
        if match := _RECORD.fullmatch(line):
            with self._lock:
                self._read.setdefault(match[3], set()).add(int(match[4]))
                self.records += 1

    def has_read_since(self, producer: str, number: int) -> bool:
        """That one or a later one."""
        with self._lock:
            return max(self._read.get(producer, ()), default=-1) >= number

    def missing(self, producer: str, numbers: int) -> set[int]:
        with self._lock:
            return set(range(numbers)) - self._read.get(producer, set())


class Crowd:
    """Groups of one library each, and producers of some, at these shims. Each member's and
    producer's standard error is in ``folder``."""

    def __init__(
        self,
        folder: Path,
        shims: Sequence[HostPort],
        topic: str,
        groups: Mapping[str, tuple[Client, int]],
        producers: Sequence[Client],
    ) -> None:
        self._folder = folder
        self._shims = shims
        self._bootstrap = ",".join(map(str, shims))
        self._topic = topic
        self._sizes = groups
        self._clients = producers
        self.groups: list[Group] = []
        self._producers: dict[str, Child] = {}
        self._left: dict[int, int] = {}
        self._written: Counter[str] = Counter()
        self._writing: asyncio.Task[None] | None = None

    @property
    def size(self) -> int:
        """Client processes."""
        return sum(len(group.members) for group in self.groups) + len(self._producers)

    async def __aenter__(self) -> Self:
        self._folder.mkdir()
        for client in self._clients:
            name = f"producer-{client.name}"
            command = client.produce(self._bootstrap, self._topic)
            self._producers[name] = self._start(name, [*command, *OUTLASTING.get(client.name, ())])
        for name, (client, size) in self._sizes.items():
            group = Group(name, client)
            self.groups.append(group)
            for number in range(size):
                command = client.consume(self._bootstrap, self._topic, name)
                group.members.append(self._start(f"{client.name}-{number}", command, group.take))
        self._writing = asyncio.create_task(self._write())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.wait([self._writing])
        for child in self._all():
            child.kill()
            if (stdin := child.process.stdin) is not None and not stdin.closed:
                with suppress(BrokenPipeError):  # what was never read cannot be flushed
                    stdin.close()

    def _start(self, name: str, command: list[str], on_line: Callable[[str], None] | None = None) -> Child:
        with (self._folder / name).open("wb") as stderr:
            return Child(command, on_line=on_line, stdin=subprocess.PIPE, stderr=stderr)

    def _all(self) -> Iterable[Child]:
        return chain(self._producers.values(), *(group.members for group in self.groups))

    async def _write(self) -> None:
        """To all producers, for as long as it goes."""
        while True:
            for name, child in self._producers.items():
                stdin = child.process.stdin
                assert stdin is not None
                number = self._written[name]
                stdin.write(f"{number}\t{name}-{number}\n")
                stdin.flush()
                self._written[name] += 1
            await asyncio.sleep(_BETWEEN_RECORDS_S)

    async def goes_on(self) -> None:
        """Returns when each group has read something of each producer that is written from now on."""
        now = dict(self._written)

        def behind() -> list[str]:
            return [
                f"{group.name} has read nothing of {producer} from {number} on"
                for group in self.groups
                for producer, number in now.items()
                if not group.has_read_since(producer, number)
            ]

        await self._until(behind)

    async def all_are_members(self) -> None:
        """Those that were started, of their groups, which are stable."""
        connections = KeptConnections(Settings())
        try:
            for group in self.groups:
                await self._are_members(connections, group)
        finally:
            connections.close()

    async def end(self) -> None:
        """All that was written is acknowledged, and read and committed by each group; all that were started are members
        of their groups still, and leave in good order."""
        assert self._writing is not None
        self._writing.cancel()
        await asyncio.wait([self._writing])
        for child in self._producers.values():
            assert child.process.stdin is not None
            child.process.stdin.close()
        await self._until(lambda: [name for name, each in self._producers.items() if each.running], producing=False)
        statuses = {name: each.returncode for name, each in self._producers.items()}
        assert not any(statuses.values()), f"exit statuses of producers: {statuses}\n{self._said()}"

        def unread() -> list[str]:
            return [
                f"{group.name} has not read {len(missing)} of {producer}: {sorted(missing)[:5]}"
                for group in self.groups
                for producer, numbers in self._written.items()
                if (missing := group.missing(producer, numbers))
            ]

        await self._until(unread, producing=False)
        await self.all_are_members()
        # Who has committed has its coordinator: aiokafka (0.14) that is stopped while it looks for one asks for ever.
        ends = await asyncio.to_thread(high_watermarks, self._bootstrap, self._topic)
        for group in self.groups:
            await until_told(lambda group=group: self._has_committed(group, ends), PATIENCE_S, again_seconds=0.5)  # type: ignore[misc]
        for group in self.groups:
            for member in group.members:
                member.send_signal(signal.SIGTERM)
            left = [await asyncio.to_thread(member.wait, _LEAVE_S) for member in group.members]
            statuses_of_group = [member.returncode for member in group.members]
            assert all(left), f"members of {group.name} do not end\n{self._said()}"
            assert set(statuses_of_group) == {group.client.left}, f"{group.name}: {statuses_of_group}\n{self._said()}"

    async def _has_committed(self, group: Group, ends: Sequence[int]) -> bool:
        found = await asyncio.to_thread(committed, self._bootstrap, group.name, self._topic, len(ends))
        return all(offset >= end for offset, end in zip(found, ends, strict=True) if end)

    async def _are_members(self, connections: KeptConnections, group: Group) -> None:
        found: tuple[str, int] | None = None
        try:
            async with asyncio.timeout(PATIENCE_S):
                while found != ("Stable", len(group.members)):
                    with suppress(UpstreamError):
                        found = await _state_and_members(connections, self._shims[0], group.name)
                    await asyncio.sleep(_LOOK_S)  # nobody is told of other members
        except TimeoutError:
            raise AssertionError(f"{group.name} is {found}, of {len(group.members)}\n{self._said()}") from None

    async def _until(self, open_: Callable[[], list[str]], *, producing: bool = True) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                while left := open_():
                    expected = self._all() if producing else chain(*(group.members for group in self.groups))
                    assert all(each.running for each in expected), f"a client has ended\n{self._said()}"
                    await asyncio.sleep(_LOOK_S)  # what they print is counted by threads
        except TimeoutError:
            raise AssertionError(f"not within {PATIENCE_S:g} s: {left[:3]}\n{self._said()}") from None

    def _said(self) -> str:
        names = {f"{group.client.name}-{n}": each for group in self.groups for n, each in enumerate(group.members)}
        return "\n".join(
            f"--- {name}, exit status {child.returncode}\n"
            + (self._folder / name).read_text(errors="replace")[
                -(_STDERR_SHOWN if child.running else 4 * _STDERR_SHOWN) :
            ]
            for name, child in (self._producers | names).items()
        )


async def _state_and_members(connections: KeptConnections, shim: HostPort, group: str) -> tuple[str, int] | None:
    """As the group's coordinator says. Raises UpstreamError."""
    found = await _ask_coordinator(connections.to(shim), group)
    if found is None:
        return None
    answer = await connections.to(found).ask(
        describe_groups.API, describe_groups.DescribeGroupsRequest((group,)), at_most=4
    )
    (described,) = answer.groups
    return (described.group_state, len(described.members)) if described.error_code == ErrorCode.NONE else None


async def _ask_coordinator(asked: KeptConnection, group: str) -> HostPort | None:
    answer = await asked.ask(find_coordinator.API, find_coordinator.FindCoordinatorRequest(group), at_most=3)
    return HostPort(answer.host, answer.port) if answer.error_code == ErrorCode.NONE else None
