"""Where a process has the sockets from that it listens on: its own, unless others accept from the same ones."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable, Sequence
from ipaddress import IPv6Address, ip_address
from typing import Any, Final, Protocol

from shim.config import HostPort

# Connections that the system may hold before they are accepted: after a restart every client comes at once.
BACKLOG: Final = 1024


class ListeningSockets(Protocol):
    """``at_once``: how many connections to accept in one turn of the loop; those that are there already have their turn
    in between."""

    at_once: int

    async def open(self, address: HostPort) -> Sequence[socket.socket]:
        """Of all addresses that the host stands for, listening. Raises OSError."""

    def closed(self, address: HostPort) -> None:
        """This process listens there no more, and has closed its sockets."""


class OwnSockets:
    """See :class:`ListeningSockets`. Of a process that has them to itself."""

    at_once = 32

    async def open(self, address: HostPort) -> Sequence[socket.socket]:
        """See :class:`ListeningSockets`."""
        return listening_on(await found_for(address))

    def closed(self, address: HostPort) -> None:
        """Nobody else has to know."""


async def found_for(address: HostPort) -> list[tuple[Any, ...]]:
    """What getaddrinfo says, which may ask others and take its time: for :func:`listening_on`. Raises OSError."""
    loop = asyncio.get_running_loop()
    return await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)


def check_free(address: HostPort) -> None:
    """That it can be listened on now; nobody can connect meanwhile. A host that is a name is not looked at: who is
    asked what it stands for may not answer for long. Raises OSError where it cannot."""
    try:
        host = ip_address(address.host)
    except ValueError:
        return
    if isinstance(host, IPv6Address) and host.scope_id is not None:
        return  # which interface that is has to be asked, too
    family = socket.AF_INET6 if isinstance(host, IPv6Address) else socket.AF_INET
    for bound in _bound_to([(family, socket.SOCK_STREAM, 0, "", (address.host, address.port))], listens=False):
        bound.close()


def listening_on(found: Iterable[tuple[Any, ...]]) -> list[socket.socket]:
    """``found``: see :func:`found_for`. Raises OSError."""
    return _bound_to(found, listens=True)


def _bound_to(found: Iterable[tuple[Any, ...]], *, listens: bool) -> list[socket.socket]:
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, where in dict.fromkeys(found):
            listening = socket.socket(family, kind, protocol)
            sockets.append(listening)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listening.setblocking(False)
            listening.bind(where)
            if listens:
                listening.listen(BACKLOG)
    except BaseException:
        for listening in sockets:
            listening.close()
        raise
    return sockets
