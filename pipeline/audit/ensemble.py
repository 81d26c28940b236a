"""Offsets in ZooKeeper, read with many requests under way. Nothing is written, and nothing is watched.

It is no consistent snapshot: each znode is read at a moment of its own, so what tells them apart (mzxid, mtime) and
when it was read is carried along.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from kazoo.exceptions import KazooException, NoAuthError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from compat.zookeeper import (
    CONSUMERS,
    NotAnOffset,
    choose,
    offset_path,
    offsets_path,
    parse_offset,
    topic_path,
)
from pipeline.audit.words import NO_PARTITION, ZOOKEEPER, CannotRead, Reading
from pipeline.audit.zookeeper_session import zookeeper_session

_TIMEOUT_SECONDS: Final = 30.0
_UNDER_WAY: Final = 200
"""kazoo has a byte in a socket for each request that it has not sent, and whoever adds one waits where that is full."""
_TRIES: Final = 3
"""Of one portion of groups, where the connection is lost on the way."""


class _Found(NamedTuple):
    """``name``: of the znode."""

    group: str
    topic: str
    partition: int
    name: str


class Ensemble:
    """A session, for a ``with``. Everything raises :class:`CannotRead`.

    ``connect``: ``host:port[,host:port]…[/chroot]``; paths are below the chroot.
    """

    def __init__(self, connect: str) -> None:
        self._connect = connect
        self._session = zookeeper_session(connect)
        self._client: Any = None

    def __enter__(self) -> Self:
        self._client = self._session.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._session.__exit__(kind, error, trace)

    def groups(self) -> list[str]:
        """All that have a znode, whether they have offsets or not."""
        ((_, names, _),) = self._again(lambda: list(self._many([CONSUMERS], self._client.get_children_async)))
        return list(names or ())

    def read(self, groups: Sequence[str]) -> list[Reading]:
        """All offsets of these. A znode that is none of an offset has a reading with the problem, and so has one whose
        ACL refuses it; a negative offset is none, as to consumers."""
        return self._again(lambda: list(self._readings(groups)))

    def _again(self, read: Callable[[], list[Any]]) -> list[Any]:
        tries = _TRIES
        while True:
            try:
                return read()
            except (KazooException, KazooTimeoutError) as error:
                tries -= 1
                if not tries:
                    words = type(error).__name__.removesuffix("Error")
                    raise CannotRead(f"ZooKeeper at {self._connect} was lost on the way ({words})") from error
                try:
                    self._client.retry(self._client.exists, "/")  # returns when there is a connection again
                except (KazooException, KazooTimeoutError) as still:
                    raise CannotRead(f"ZooKeeper at {self._connect} was lost on the way") from still

    def _readings(self, groups: Sequence[str]) -> Iterator[Reading]:
        topics: list[tuple[str, str]] = []
        for group, names, problem in self._children(groups, offsets_path):
            if problem:
                yield _problem(group, "", problem)
            topics += ((group, topic) for topic in names)
        found: list[_Found] = []
        for (group, topic), names, problem in self._children(topics, lambda at: topic_path(*at)):
            if problem:  # of the group: which of its partitions are there is not known
                yield _problem(group, "", problem)
            chosen = choose(names)
            for name, why in chosen.strange.items():
                yield _problem(group, topic, f"znode {name!r}: {why}")
            found += (_Found(group, topic, partition, name) for partition, name in chosen.names.items())
        paths = (f"{topic_path(each.group, each.topic)}/{each.name}" for each in found)
        for each, (_, answer, problem) in zip(found, self._many(paths, self._client.get_async), strict=True):
            yield from _reading(each, answer, problem)

    def _children(self, items: Sequence[Any], path: Callable[[Any], str]) -> Iterator[tuple[Any, list[str], str]]:
        asked = self._many(map(path, items), self._client.get_children_async)
        for item, (_, names, problem) in zip(items, asked, strict=True):
            yield item, names or [], problem

    def _many(self, paths: Iterable[str], ask: Callable[[str], Any]) -> Iterator[tuple[str, Any, str]]:
        """Of each path, in their order, the answer (None for one that is not there), and what is wrong with it."""
        window: deque[tuple[str, Any]] = deque()
        for path in paths:
            if len(window) >= _UNDER_WAY:
                yield _answered(*window.popleft())
            window.append((path, ask(path)))
        while window:
            yield _answered(*window.popleft())


def _answered(path: str, future: Any) -> tuple[str, Any, str]:
    try:
        return path, future.get(timeout=_TIMEOUT_SECONDS), ""
    except NoNodeError:
        return path, None, ""
    except NoAuthError:
        return path, None, f"{path}: ZooKeeper does not allow it (NoAuth)"


def _reading(at: _Found, answer: Any, problem: str) -> Iterator[Reading]:
    if problem:
        yield _problem(at.group, at.topic, problem, at.partition)
    if answer is None:
        return
    data, stat = answer
    read_ms = time.time_ns() // 1_000_000
    try:
        offset = parse_offset(data or b"")
    except NotAnOffset as error:
        path = offset_path(at.group, at.topic, at.partition)
        yield Reading(
            ZOOKEEPER, at.group, at.topic, at.partition, None, stat.mzxid, stat.mtime, read_ms, f"{path}: {error}"
        )
        return
    if offset >= 0:
        yield Reading(ZOOKEEPER, at.group, at.topic, at.partition, offset, stat.mzxid, stat.mtime, read_ms)


def _problem(group: str, topic: str, problem: str, partition: int = NO_PARTITION) -> Reading:
    return Reading(ZOOKEEPER, group, topic, partition, None, None, None, time.time_ns() // 1_000_000, problem)
