"""A session with ZooKeeper, by kazoo."""

from __future__ import annotations

import logging
import select
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Protocol

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
from kazoo.hosts import collect_hosts
from kazoo.retry import KazooRetry

from pipeline.audit.words import CannotRead

_CONNECT_SECONDS: Final = 10.0

_log = logging.getLogger(__name__)
_log.setLevel(logging.CRITICAL)  # kazoo would tell of each try to connect; what comes of it is raised


class _HasFileno(Protocol):
    def fileno(self) -> int: ...


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    def select(
        self, to_read: Sequence[_HasFileno], to_write: Sequence[_HasFileno], _: object, timeout: float | None = None
    ) -> tuple[list[_HasFileno], list[_HasFileno], list[_HasFileno]]:
        """As `select.select`. kazoo's own makes a new epoll each time, half of what a request takes."""
        poll = select.poll()
        for each in to_read:
            poll.register(each, select.POLLIN)
        for each in to_write:
            poll.register(each, select.POLLOUT)
        ready = {number for number, _ in poll.poll(None if timeout is None else timeout * 1000)}
        readable = [each for each in to_read if each.fileno() in ready]
        return readable, [each for each in to_write if each.fileno() in ready], []

    def create_socket_pair(self) -> tuple[socket.socket, socket.socket]:
        return socket.socketpair()


@contextmanager
def zookeeper_session(connect: str) -> Iterator[Any]:
    """A `KazooClient`, connected. ``connect``: ``host:port[,host:port]…[/chroot]``; paths are below the chroot.

    Raises :class:`CannotRead`.
    """
    _check_any_listens(connect)
    client = KazooClient(
        hosts=connect,
        timeout=_CONNECT_SECONDS,
        handler=_Handler(),
        read_only=True,
        connection_retry=KazooRetry(max_tries=-1, max_delay=2.0),
        logger=_log,
    )
    try:
        client.start_async().wait(_CONNECT_SECONDS)  # kazoo's start() would print a warning of its own
        _check(client, connect)
        yield client
    finally:
        _let_go(client)


def _check(client: Any, connect: str) -> None:
    if not client.connected:
        raise CannotRead(f"no ZooKeeper answers at {connect}")
    try:
        there = client.exists("/") is not None
    except (KazooTimeoutError, KazooException) as error:
        raise CannotRead(f"no ZooKeeper answers at {connect}") from error
    if not there:
        raise CannotRead(f"ZooKeeper at {connect} has no znode {client.chroot}")


def _check_any_listens(connect: str) -> None:
    """kazoo would try for as long as it may. Raises :class:`CannotRead`."""
    refused = []
    for host, port in collect_hosts(connect)[0]:
        try:
            socket.create_connection((host, port), _CONNECT_SECONDS).close()
        except OSError as error:
            refused.append(f"{host}:{port}: {error.strerror or error}")
        else:
            return
    raise CannotRead(f"no ZooKeeper answers at {connect}: {'; '.join(refused)}")


def _let_go(client: Any) -> None:
    try:
        client.stop()
        client.close()
    except KazooException:
        _log.debug("a ZooKeeper session could not be closed, and is left to expire")
