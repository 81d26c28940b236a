"""A listening socket that accepts as many as the quotas allow, and goes on after a lack of descriptors.

In place of asyncio's own server, which accepts whoever comes: here it is known before a connection is made whether it
may be, and while none may, nobody is accepted. Clients wait in the system's backlog meanwhile, as with a broker.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import math
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from shim.config import HostPort
from shim.net.complaints import Complaints
from shim.net.listening import ListeningSockets, OwnSockets
from shim.net.quotas import ListenerQuotas

log = logging.getLogger(__name__)

# Pause where the system has no descriptors or memory, unless a connection ends before.
RETRY_SECONDS: Final = 1.0

OWN_SOCKETS: Final = OwnSockets()

_SHORT_OF: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

MakeProtocol = Callable[[Callable[[], None]], asyncio.BaseProtocol]
"""Makes the protocol of one connection. What it is given is to be called when the connection is lost, once."""


class Place:
    """What one connection takes of the quotas, until it is called."""

    __slots__ = ("_address", "_quotas")

    def __init__(self, quotas: ListenerQuotas, address: str) -> None:
        self._quotas: ListenerQuotas | None = quotas
        self._address = address

    def __call__(self) -> None:
        quotas, self._quotas = self._quotas, None
        if quotas is not None:
            quotas.give_back(self._address)


class Acceptor:
    """One port, of one address or of all that a host name stands for. It accepts until it is closed."""

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        make: MakeProtocol,
        quotas: ListenerQuotas,
        complaints: Complaints,
        at_once: int = OwnSockets.at_once,
        closed: Callable[[], None] = lambda: None,
    ) -> None:
        """``closed`` is called when the sockets are."""
        self._at_once = at_once
        self._when_closed = closed
        self._loop = asyncio.get_running_loop()
        self._sockets = list(sockets)
        self._make = make
        self._quotas = quotas
        self._complaints = complaints
        self._making: set[asyncio.Task[None]] = set()
        self._accepting = False
        self._closed = False
        self._timer: asyncio.TimerHandle | None = None
        self._go_on()

    def close(self) -> None:
        """Accept nobody any more, and cut off who is just being accepted."""
        self._closed = True
        self._stop()
        for listening in self._sockets:
            listening.close()
        if self._sockets:
            self._sockets.clear()
            self._when_closed()

    def _go_on(self) -> None:
        self._quotas.everywhere.no_matter(self._go_on)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._accepting:
            self._accepting = True
            for listening in self._sockets:
                self._loop.add_reader(listening, self._accept, listening)

    def _stop(self) -> None:
        self._quotas.everywhere.no_matter(self._go_on)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._accepting:
            self._accepting = False
            for listening in self._sockets:
                self._loop.remove_reader(listening)

    def _wait(self, seconds: float) -> None:
        """Accept nobody for so long, or until a connection has left."""
        self._stop()
        self._quotas.everywhere.when_one_has_left(self._go_on)
        if seconds < math.inf:
            self._timer = self._loop.call_later(seconds, self._go_on)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(self._at_once):
            wait_seconds = self._quotas.wait_seconds(self._loop.time())
            if wait_seconds:
                if math.isinf(wait_seconds):
                    self._complain(
                        listening, "as many connections as there may be (max.connections, open files): new ones wait"
                    )
                self._wait(wait_seconds)
                return
            try:
                connection, peer = listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in _SHORT_OF:
                    self._complain(listening, f"no connection can be accepted for now: {error.strerror}")
                    self._wait(RETRY_SECONDS)
                    return
                continue  # that client has gone already
            self._begin(connection, peer[0])

    def _begin(self, connection: socket.socket, address: str) -> None:
        if not self._quotas.take(address, self._loop.time()):
            connection.close()
            reason = f"this address has max.connections.per.ip ({self._quotas.most_of(address)}) connections"
            self._complaints.tell(address, reason, f"client {address}: connection refused: {reason}")
            return
        place = Place(self._quotas, address)
        task = self._loop.create_task(self._connect(connection, place))
        self._making.add(task)
        task.add_done_callback(partial(self._made, connection, place))

    async def _connect(self, connection: socket.socket, place: Place) -> None:
        transport: asyncio.Transport | None = None
        if not self._closed:
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # As a broker does, for clients that are gone without a word.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            transport, _ = await self._loop.connect_accepted_socket(partial(self._make, place), connection)
        if self._closed:
            # Only now: were this cancelled in the middle, uvloop would tell the protocol of a beginning and of no end.
            if transport is None:
                raise ConnectionAbortedError
            transport.abort()

    def _made(self, connection: socket.socket, place: Place, task: asyncio.Task[None]) -> None:
        """Or not. A task that is cancelled before it begins comes here, too."""
        self._making.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is None and not task.cancelled():
            return
        place()
        connection.close()
        if not isinstance(error, OSError | None):  # the client has gone
            log.error("a connection could not be made", exc_info=error)

    def _complain(self, listening: socket.socket, reason: str) -> None:
        where = f"port {listening.getsockname()[1]}"
        self._complaints.tell(where, reason, f"{where}: {reason}")


async def listen(
    address: HostPort,
    make: MakeProtocol,
    quotas: ListenerQuotas,
    complaints: Complaints | None = None,
    listening: ListeningSockets = OWN_SOCKETS,
) -> Acceptor:
    """Open a port, on all addresses that the host stands for. Raises OSError."""
    sockets = await listening.open(address)
    return Acceptor(
        sockets, make, quotas, complaints or Complaints(log), listening.at_once, lambda: listening.closed(address)
    )


async def addresses_of(overrides: Sequence[tuple[str, int]]) -> dict[str, int]:
    """``max.connections.per.ip.overrides`` by address: a name counts for each one that it has now. Raises OSError."""
    found: dict[str, int] = {}
    for host, most in overrides:
        infos = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
        found.update({str(info[4][0]): most for info in infos})
    return found
