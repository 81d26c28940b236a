"""kazoo, such that it never makes the event loop wait, and never sends anything late."""

from __future__ import annotations

import logging
import select
import socket
import threading
from collections.abc import Sequence
from typing import Any, Final, Protocol

from kazoo import exceptions
from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.states import KeeperState
from kazoo.retry import KazooRetry
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE

from shim.config import HostPort
from shim.offsets.zookeeper.znodes import (
    Acl,
    Create,
    Delete,
    EnsembleError,
    EnsembleRefused,
    EnsembleUnavailable,
    NoZnode,
    Operation,
    Set,
    WrongVersion,
    Znode,
    ZnodeExists,
    ZnodeHasChildren,
)

MOST_UNDER_WAY: Final = 256
"""Requests that kazoo may have at a time. It has a byte in a socket for each that it has not sent, and whoever adds one
waits where that is full: by default after some 270."""

_WAKE_BYTES: Final = 1 << 20  # of that socket's buffer, as far as the system lets us

_log = logging.getLogger(__name__)
# It would tell of each try to connect, and at the level DEBUG of passwords.
_log.setLevel(logging.ERROR)

_AGAIN_SECONDS: Final = 2.0  # the longest pause between two tries to connect


class _HasFileno(Protocol):
    def fileno(self) -> int: ...


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    def select(
        self, to_read: Sequence[_HasFileno], to_write: Sequence[_HasFileno], _: object, timeout: float | None = None
    ) -> tuple[list[_HasFileno], list[_HasFileno], list[_HasFileno]]:
        """As `select.select`. kazoo calls it before whatever it sends and receives; its own makes a new epoll each
        time, which takes half of all the time that a request needs."""
        poll = select.poll()
        for each in to_read:
            poll.register(each, select.POLLIN)
        for each in to_write:
            poll.register(each, select.POLLOUT)
        ready = {number for number, _ in poll.poll(None if timeout is None else timeout * 1000)}
        return (
            [each for each in to_read if each.fileno() in ready],
            [each for each in to_write if each.fileno() in ready],
            [],
        )

    def create_socket_pair(self) -> tuple[socket.socket, socket.socket]:
        pair = socket.socketpair()
        for end in pair:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _WAKE_BYTES)
        return pair


class Client(KazooClient):  # type: ignore[misc]
    """A request goes out on the connection that stands when it is made, or never.

    kazoo would keep it for the next connection, and a write could come minutes after its caller has given up.
    """

    def __init__(
        self, servers: tuple[HostPort, ...], session_timeout_ms: int, auth: tuple[str, str] | None, acl: Acl
    ) -> None:
        self._gate = threading.RLock()
        super().__init__(
            hosts=",".join(map(str, servers)),
            timeout=session_timeout_ms / 1000,
            handler=_Handler(),
            default_acl=CREATOR_ALL_ACL if acl is Acl.CREATOR else OPEN_ACL_UNSAFE,
            auth_data=[("digest", ":".join(auth))] if auth else None,
            connection_retry=KazooRetry(max_tries=-1, max_delay=_AGAIN_SECONDS),
            logger=_log,
        )

    def _call(self, request: Any, async_object: Any) -> Any:
        with self._gate:
            if not self.connected:
                async_object.set_exception(exceptions.ConnectionLoss())
                return False
            return super()._call(request, async_object)

    def _session_callback(self, state: str) -> None:
        with self._gate:  # between a connection's end and the end of its requests none may be added
            super()._session_callback(state)

    def _reset_watchers(self) -> None:
        """The connection has gone, and what it watched. kazoo would call each watcher, to tell of the session: whoever
        watches hears of that once, from the session."""
        self._child_watchers.clear()
        self._data_watchers.clear()

    @property
    def ended(self) -> bool:
        """Whether it has given up, and will not connect again."""
        return self._state in (KeeperState.CLOSED, KeeperState.AUTH_FAILED)

    def let_go(self) -> None:
        """Close the session and the connection. It blocks, and where the server hangs for as long as a session."""
        try:
            self.stop()
            self.close()
        except exceptions.WriterNotClosedException:
            _log.warning("a ZooKeeper session could not be closed, and is left to expire")


_AWAY: Final = (
    exceptions.ConnectionLoss,
    exceptions.OperationTimeoutError,
    exceptions.RequestTimeoutError,
    exceptions.SessionExpiredError,
    exceptions.SessionMovedError,
    exceptions.ThrottledOpError,
)
_REFUSED: Final = (
    exceptions.AuthFailedError,
    exceptions.InvalidACLError,
    exceptions.NoAuthError,
    exceptions.SessionClosedRequireSaslError,
)
_OF_A_ZNODE: Final = (
    (exceptions.NoNodeError, NoZnode, "there is no such znode"),
    (exceptions.NodeExistsError, ZnodeExists, "the znode exists"),
    (exceptions.BadVersionError, WrongVersion, "the znode has another version"),
    (exceptions.NotEmptyError, ZnodeHasChildren, "the znode has children"),
)


def in_our_words(error: Exception, path: str) -> EnsembleError:
    """What went wrong with a request about ``path``, of what kazoo says."""
    words = type(error).__name__.removesuffix("Error")
    if isinstance(error, _AWAY):
        return EnsembleUnavailable(f"{path}: ZooKeeper was lost on the way ({words})")
    if isinstance(error, _REFUSED):
        return EnsembleRefused(f"{path}: ZooKeeper does not allow it ({words})")
    for kind, ours, why in _OF_A_ZNODE:
        if isinstance(error, kind):
            return ours(f"{path}: {why}")
    return EnsembleError(f"{path}: {words}")


def znode(answer: Any) -> Znode:
    """Of what kazoo has for it."""
    data, stat = answer
    return Znode(data or b"", stat.version, stat.mzxid, stat.ephemeralOwner)


def transaction(operations: Sequence[Operation], paths: Sequence[str], client: Client) -> Any:
    """The request for all or none of them; gives kazoo's AsyncResult. ``paths``: the whole ones."""
    made = client.transaction()
    for operation, path in zip(operations, paths, strict=True):
        if isinstance(operation, Create):
            made.create(path, operation.data, ephemeral=operation.ephemeral)
        elif isinstance(operation, Set):
            made.set_data(path, operation.data, operation.version)
        elif isinstance(operation, Delete):
            made.delete(path, operation.version)
        else:
            made.check(path, operation.version)
    return made.commit_async()
