"""Between shims of different machines: TCP, with TLS where it is wanted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import Any, cast

from shim.config import HostPort
from shim.forwarding.peers import Dial, Link, Peer
from shim.forwarding.serving import Admits, PeerServer
from shim.tls import Receiver, TlsContext, dial, shown_names, tls_server

log = logging.getLogger(__name__)


def dial_over_tcp(context: TlsContext | None) -> Dial:
    """Peers are each a ``HostPort``. With a ``context`` the owner's certificate has to be for its host."""

    async def connect(peer: Peer, factory: Any) -> Link:
        link: Link = await dial(factory, cast(HostPort, peer), context)
        return link

    return connect


def named_by_certificate(principals: Collection[str]) -> Admits:
    """Only those whose certificate has one of these names (:func:`shown_names`)."""

    def admits(transport: asyncio.Transport) -> str | None:
        names = set(shown_names(transport))
        if not names.isdisjoint(principals):
            return None
        return f"its certificate is of {', '.join(sorted(names)) or 'nobody'}, who is none of shims.principals"

    return admits


class TcpPort:
    """Where other shims forward requests to."""

    def __init__(self, server: PeerServer, address: HostPort, tls: TlsContext | None) -> None:
        self._server = server
        self._address = address
        self._tls = tls
        self._listening: asyncio.Server | None = None

    async def open(self) -> None:
        """Raises OSError."""
        loop = asyncio.get_running_loop()
        self._listening = await loop.create_server(self._connection, self._address.host, self._address.port)

    def close(self) -> None:
        if self._listening is not None:
            self._listening.close()
        self._server.close()

    def _connection(self) -> asyncio.BaseProtocol:
        made = self._server.connection()
        if self._tls is None:
            return made
        return tls_server(self._tls, cast(Receiver, made), _refused)


def _refused(address: HostPort, reason: str) -> None:
    log.warning("a connection to shims.listener from %s was closed: %s", address.host, reason)
