"""A session with the ZooKeeper in memory, as the shim has it: answers come in order, late, or not at all."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

from shim.offsets.zookeeper.znodes import (
    ANY_VERSION,
    Create,
    Delete,
    EnsembleError,
    EnsembleUnavailable,
    MultiFailed,
    NoZnode,
    Operation,
    SessionEvent,
    Set,
    Watch,
    Znode,
    ZnodeExists,
)
from tests.migration.simulated.znode_tree import CHILDREN, DATA, ZnodeTree

Result = TypeVar("Result")

_ANSWER_SECONDS: Final = 10.0
_WAY_SECONDS: Final = 0.004
"""The mean of what a request needs to the server, and its answer back."""
_LATE_SECONDS: Final = (0, 0, 0.004, 0.02, 0.1)
_NOT_DONE: Final = 0.5
"""How likely a request that is under way is lost with the connection, and what was sent behind it."""


class _Asked:
    def __init__(self, serve: Callable[[], Any]) -> None:
        self.serve = serve
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.answer.add_done_callback(lambda answer: answer.cancelled() or answer.exception())
        self.served = False


class SimulatedEnsemble:
    """Has the methods of :class:`shim.offsets.zookeeper.ensemble.Ensemble` that dual commit needs."""

    jute_maxbuffer = 1 << 20

    def __init__(self, tree: ZnodeTree, rng: random.Random) -> None:
        self._tree = tree
        self._rng = rng
        self._open = asyncio.Event()
        self._connected = False
        self._listeners: list[Callable[[SessionEvent], None]] = []
        self._under_way: list[_Asked] = []
        self._overdue: set[_Asked] = set()
        self._server_at = self._client_at = 0.0
        self._connection = 0

    # -- what the test does with it

    def connect(self, *, expired: bool = False) -> None:
        self._connection += 1
        self._connected = True
        if expired:
            self._tell(SessionEvent.LOST)
        self._tell(SessionEvent.CONNECTED)
        self._open_or_not()

    def lose(self) -> None:
        """The connection: of what is under way the server does the first part, or all, or nothing."""
        if not self._connected:
            return
        self._connected = False
        self._open.clear()
        lost, self._under_way = self._under_way, []
        self._overdue.clear()
        for each in lost:
            if each.served:
                continue
            if self._rng.random() < _NOT_DONE:
                break
            self._serve(each)
        self._connection += 1
        self._tree.unwatch_all()
        self._tell(SessionEvent.SUSPENDED)
        for each in lost:
            asyncio.get_running_loop().call_soon(_lost, each.answer)

    def stall(self, seconds: float) -> None:
        """The server does nothing for so long, and then all that it was asked for."""
        self._server_at = max(self._server_at, asyncio.get_running_loop().time()) + seconds

    def abandon(self) -> None:
        """The shim was killed."""
        self._listeners.clear()
        self.lose()

    def _tell(self, event: SessionEvent) -> None:
        for listener in self._listeners:
            asyncio.get_running_loop().call_soon(listener, event)

    # -- requests and answers

    async def _send(self, serve: Callable[[], Any]) -> _Asked:
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                await self._open.wait()
        except TimeoutError:
            raise EnsembleUnavailable("it cannot be reached") from None
        asked = _Asked(serve)
        self._under_way.append(asked)
        self._server_at = self._in_order(self._server_at)
        asyncio.get_running_loop().call_at(self._server_at, self._reached, asked, self._connection)
        return asked

    def _in_order(self, last: float) -> float:
        """When what is sent now arrives, behind the last."""
        way = self._rng.expovariate(1 / _WAY_SECONDS)
        return max(last + 1e-6, asyncio.get_running_loop().time() + way)

    def _reached(self, asked: _Asked, connection: int) -> None:
        if connection == self._connection:
            self._serve(asked)

    def _serve(self, asked: _Asked) -> None:
        asked.served = True
        try:
            result, error = asked.serve(), None
        except EnsembleError as raised:
            result, error = None, raised
        self._deliver(lambda: self._answered(asked, result, error))

    def _deliver(self, told: Callable[[], None]) -> None:
        connection = self._connection
        self._client_at = self._in_order(self._client_at)

        def arrived() -> None:
            if connection == self._connection:
                told()

        asyncio.get_running_loop().call_at(self._client_at, arrived)

    def _answered(self, asked: _Asked, result: Any, error: EnsembleError | None) -> None:
        self._under_way.remove(asked)
        self._overdue.discard(asked)
        self._open_or_not()
        if asked.answer.done():
            return
        if error is None:
            asked.answer.set_result(result)
        else:
            asked.answer.set_exception(error)

    def _open_or_not(self) -> None:
        if self._connected and not self._overdue:
            self._open.set()
        else:
            self._open.clear()

    async def _answer(self, asked: _Asked) -> Any:
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await asked.answer
        except TimeoutError:
            if asked in self._under_way:
                self._overdue.add(asked)
                self._open_or_not()
            raise EnsembleUnavailable("it does not answer") from None

    async def _ask(self, serve: Callable[[], Result]) -> Result:
        result: Result = await self._answer(await self._send(serve))
        return result

    async def _many(
        self, serves: Iterable[tuple[str, Callable[[], Any]]], wrong: dict[str, EnsembleError] | None
    ) -> list[Any]:
        """In the order of the paths: that of whoever asks may be a set's, and no other at the next run."""
        asked = list(serves)
        sent = {path: await self._send(serve) for path, serve in sorted(asked, key=lambda each: each[0])}
        answers = {}
        for path, each in sent.items():
            try:
                answers[path] = await self._answer(each)
            except NoZnode as error:
                if wrong is not None:
                    wrong[path] = error
                answers[path] = None
        return [answers[path] for path, _ in asked]

    # -- reading

    def _watching(self, path: str, kind: str, watch: Watch | None) -> None:
        if watch is not None:
            loop = asyncio.get_running_loop()
            self._tree.watch(path, kind, watch, lambda: self._deliver(lambda: _none(loop.call_soon(watch, path))))

    def _get(self, path: str, watch: Watch | None) -> Callable[[], Znode]:
        def serve() -> Znode:
            if path not in self._tree.follower.znodes:
                raise NoZnode(path)
            self._watching(path, DATA, watch)
            return self._tree.follower.znodes[path]

        return serve

    def _children(self, path: str, watch: Watch | None) -> Callable[[], list[str]]:
        def serve() -> list[str]:
            if path not in self._tree.follower.znodes:
                raise NoZnode(path)
            self._watching(path, CHILDREN, watch)
            return self._tree.follower.children(path)

        return serve

    def _exists(self, path: str, watch: Watch | None) -> Callable[[], bool]:
        def serve() -> bool:
            self._watching(path, DATA, watch)
            return path in self._tree.follower.znodes

        return serve

    def watch_session(self, listener: Callable[[SessionEvent], None]) -> None:
        self._listeners.append(listener)

    async def get(self, path: str, watch: Watch | None = None) -> Znode | None:
        try:
            return await self._ask(self._get(path, watch))
        except NoZnode:
            return None

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        try:
            return await self._ask(self._children(path, watch))
        except NoZnode:
            return []

    async def get_many(
        self, paths: Sequence[str], *, watch: Watch | None = None, wrong: dict[str, EnsembleError] | None = None
    ) -> list[Znode | None]:
        found = await self._many(((path, self._get(path, watch)) for path in paths), wrong)
        if watch is not None:  # as where many groups are looked at: what was read first is told late
            await asyncio.sleep(self._rng.choice(_LATE_SECONDS))
        return found

    async def children_many(
        self, paths: Sequence[str], *, watch: Watch | None = None, wrong: dict[str, EnsembleError] | None = None
    ) -> list[list[str]]:
        return [each or [] for each in await self._many(((p, self._children(p, watch)) for p in paths), wrong)]

    async def exist_many(
        self, paths: Sequence[str], *, watch: Watch | None = None, wrong: dict[str, EnsembleError] | None = None
    ) -> list[bool]:
        return await self._many(((path, self._exists(path, watch)) for path in paths), wrong)

    async def sync(self) -> None:
        await self._ask(self._tree.catch_up)

    # -- writing

    def _written(self, operations: Sequence[Operation]) -> Callable[[], list[int | None]]:
        def serve() -> list[int | None]:
            try:
                return self._tree.write(operations)
            finally:
                self._tree.catch_up()  # the server answers when it has done it, and all that came before

        return serve

    async def multi(self, operations: Sequence[Operation]) -> list[int | None]:
        return await self._ask(self._written(list(operations))) if operations else []

    async def _one(self, operation: Operation) -> None:
        try:
            await self.multi([operation])
        except MultiFailed as failed:
            raise failed.reason from None

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> None:
        await self._one(Set(path, data, version))

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._one(Delete(path, version))

    async def make_path(self, path: str) -> None:
        ends = [i for i, letter in enumerate(path) if letter == "/" and i]
        for each in [*(path[:end] for end in ends), path]:
            if not await self._ask(self._exists(each, None)):
                try:
                    await self._one(Create(each))
                except ZnodeExists:
                    continue

    def size_of(self, operation: Operation) -> int:
        return 80 + len(operation.path)


def _lost(answer: asyncio.Future[Any]) -> None:
    if not answer.done():
        answer.set_exception(EnsembleUnavailable("the connection was lost"))


def _none(_: object) -> None:
    return None
