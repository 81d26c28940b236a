"""A ZooKeeper in memory: one leader, and a follower behind it that answers the shim's reads."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Final

from shim.offsets.zookeeper.znodes import (
    ANY_VERSION,
    Check,
    Create,
    Delete,
    EnsembleError,
    MultiFailed,
    NoZnode,
    Operation,
    Set,
    WrongVersion,
    Znode,
    ZnodeExists,
    ZnodeHasChildren,
)

DATA, CHILDREN = "data", "children"

_LAG_SECONDS: Final = 0.05
"""The mean of what the follower is behind."""

Fired = Callable[[], None]


class Tree:
    def __init__(self) -> None:
        self.znodes: dict[str, Znode] = {"/": Znode(b"", 0, 0, 0)}
        self._below: dict[str, set[str]] = {"/": set()}

    def children(self, path: str) -> list[str]:
        return sorted(self._below.get(path, ()))

    def apply(self, operations: Sequence[Operation], zxid: int) -> list[int | None]:
        """All of them, or none. Raises MultiFailed."""
        znodes, below = dict(self.znodes), {path: set(names) for path, names in self._below.items()}
        versions = []
        try:
            for index, each in enumerate(operations):
                try:
                    versions.append(self._do(each, zxid))
                except EnsembleError as error:
                    raise MultiFailed(index, each, error) from None
        except MultiFailed:
            self.znodes, self._below = znodes, below
            raise
        return versions

    def _do(self, operation: Operation, zxid: int) -> int | None:
        path = operation.path
        parent, _, name = path.rpartition("/")
        parent = parent or "/"
        there = self.znodes.get(path)
        if isinstance(operation, Create):
            if parent not in self.znodes:
                raise NoZnode(path)
            if there is not None:
                raise ZnodeExists(path)
            self.znodes[path] = Znode(operation.data, 0, zxid, 0)
            self._below[path] = set()
            self._below[parent].add(name)
            return 0
        if there is None:
            raise NoZnode(path)
        if operation.version not in (ANY_VERSION, there.version):
            raise WrongVersion(path)
        if isinstance(operation, Delete):
            if self._below[path]:
                raise ZnodeHasChildren(path)
            del self.znodes[path], self._below[path]
            self._below[parent].discard(name)
            return None
        if isinstance(operation, Check):
            return None
        assert isinstance(operation, Set)
        self.znodes[path] = there._replace(data=operation.data, version=there.version + 1, mzxid=zxid)
        return there.version + 1


class ZnodeTree:
    """``leader`` is what is, ``follower`` what the shim's server knows of it. A watch is called where the follower
    has come to the change that it waits for, once."""

    def __init__(self, rng: random.Random) -> None:
        self.leader, self.follower = Tree(), Tree()
        self._rng = rng
        self._done: list[Sequence[Operation]] = []
        self._applied = 0
        self._watches: dict[tuple[str, str], dict[object, Fired]] = {}

    def write(self, operations: Sequence[Operation]) -> list[int | None]:
        """Raises MultiFailed."""
        versions = self.leader.apply(operations, len(self._done) + 1)
        self._done.append(operations)
        lag = self._rng.expovariate(1 / _LAG_SECONDS)
        asyncio.get_running_loop().call_later(lag, self.catch_up, len(self._done))
        return versions

    def catch_up(self, until: int | None = None) -> None:
        """Up to that transaction, or to the leader's last."""
        for number in range(self._applied, len(self._done) if until is None else until):
            operations = self._done[number]
            self._applied = number + 1
            self.follower.apply(operations, number + 1)
            for each in operations:
                self._fire(each)

    def _fire(self, operation: Operation) -> None:
        if isinstance(operation, Check):
            return
        changed = [(operation.path, DATA)]
        if not isinstance(operation, Set):
            changed.append((operation.path.rpartition("/")[0] or "/", CHILDREN))
        if isinstance(operation, Delete):
            changed.append((operation.path, CHILDREN))
        for each in changed:
            for fired in self._watches.pop(each, {}).values():
                fired()

    def watch(self, path: str, kind: str, key: object, fired: Fired) -> None:
        """Two of the same ``key`` are one."""
        self._watches.setdefault((path, kind), {})[key] = fired

    def unwatch_all(self) -> None:
        self._watches.clear()

    # -- for whoever writes past the shim

    def put(self, path: str, data: bytes) -> None:
        """As the old consumers do it."""
        if path in self.leader.znodes:
            self.write([Set(path, data)])
            return
        for end in [i for i, letter in enumerate(path) if letter == "/" and i]:
            if path[:end] not in self.leader.znodes:
                self.write([Create(path[:end])])
        self.write([Create(path, data)])

    def remove(self, path: str) -> bool:
        """Whether it was there."""
        if path not in self.leader.znodes:
            return False
        self.write([Delete(path)])
        return True
