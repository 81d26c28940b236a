"""Groups that commit and read all the while, each one thing after the other, whatever becomes of those who answer."""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from protocol.api import Api
from protocol.errors import ErrorCode
from protocol.messages import offset_commit, offset_fetch

_ANSWERS_WITHIN_S = 10.0
CLIENT_ID = "steady"
_PAUSE_S = 0.02  # of a client that was refused, as clients have it
_BETWEEN_S = 0.05  # otherwise: many groups have enough under way then, whatever happens
_COMMIT, _FETCH = 7, 7  # versions

_RETRIABLE = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)


class _Refused(Exception):
    """To be asked again."""


class SteadyGroup:
    """Commits 1, 2, 3 … of one partition, again where that has failed, and reads what is there now and then.

    ``acknowledged``: the last one. ``refusals``: what it was told when it had to ask again, or that its connection was
    lost, or took too long.
    """

    def __init__(self, group: str, topic: str, ports: Sequence[int], rng: random.Random) -> None:
        self.group = group
        self.acknowledged = self.sent = 0
        self.refusals: list[str] = []
        self.reads = 0
        self._goal = 0
        self._reached = asyncio.Event()
        self._topic = topic
        self._ports = ports
        self._rng = rng
        self._connection: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def run(self, until: asyncio.Event) -> None:
        """Until that is set, and the last commit is acknowledged."""
        while not until.is_set() or self.acknowledged < self.sent:
            if await self._try(self.read if self._rng.random() < 0.2 else self._commit):
                await asyncio.sleep(_BETWEEN_S)
        self.close()

    async def look(self) -> None:
        """Read what is there, once; asked again where it is refused for now, as clients do."""
        while not await self._try(self.read):
            pass
        self.close()

    async def _try(self, ask: Callable[[], Awaitable[None]]) -> bool:
        """Whether it was answered."""
        try:
            async with asyncio.timeout(_ANSWERS_WITHIN_S):
                await ask()
        except (OSError, EOFError, _Refused) as error:
            self.refusals.append(repr(error))
            self.close()
            await asyncio.sleep(_PAUSE_S)
            return False
        return True

    async def _commit(self) -> None:
        if self.acknowledged == self.sent:
            self.sent += 1
        partition = offset_commit.OffsetCommitRequestPartition(0, self.sent)
        request = offset_commit.OffsetCommitRequest(
            group_id=self.group, topics=(offset_commit.OffsetCommitRequestTopic(self._topic, partitions=(partition,)),)
        )
        response = await self._ask(offset_commit.API, _COMMIT, request)
        _accepted(response.topics[0].partitions[0].error_code)
        self.acknowledged = self.sent
        if self.acknowledged >= self._goal:
            self._reached.set()

    async def further(self, commits: int) -> None:
        """Wait until so many more are acknowledged."""
        self._goal = self.acknowledged + commits
        self._reached.clear()
        await self._reached.wait()

    async def read(self) -> None:
        """What is there has to be what was acknowledged last, or what was sent since."""
        topic = offset_fetch.OffsetFetchRequestTopic(self._topic, (0,))
        request = offset_fetch.OffsetFetchRequest(group_id=self.group, topics=(topic,))
        response = await self._ask(offset_fetch.API, _FETCH, request)
        _accepted(response.error_code)
        (found,) = response.topics[0].partitions
        _accepted(found.error_code)
        self.reads += 1
        offset = max(0, found.committed_offset)  # -1: there is none
        assert self.acknowledged <= offset <= self.sent, (
            f"{self.group}: {offset} is served, {self.acknowledged} was acknowledged and {self.sent} sent"
        )

    async def _ask(self, api: Api[Any, Any], version: int, request: Any) -> Any:
        if self._connection is None:
            self._connection = await asyncio.open_connection("127.0.0.1", self._rng.choice(self._ports))
        reader, writer = self._connection
        writer.write(api.request_frame(version, 1, CLIENT_ID, request))
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        return api.parse_response(version, await reader.readexactly(size))[1]

    def close(self) -> None:
        if self._connection is not None:
            self._connection[1].close()
            self._connection = None


def _accepted(code: int) -> None:
    error = ErrorCode.for_code(code)
    if error in _RETRIABLE:
        raise _Refused(error.name)
    assert error is ErrorCode.NONE, error.name
