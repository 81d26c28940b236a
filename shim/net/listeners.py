"""The shim's ports: bootstrap, and one for each broker, opened and closed as brokers come and go."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from shim.api import Services
from shim.config import HostPort, Settings
from shim.net.session import ClientSession, Sessions
from shim.upstream import reason_of

log = logging.getLogger(__name__)


# Connections that the system may hold before they are accepted: after a restart every client comes at once.
BACKLOG = 1024


class CannotListen(Exception):
    """A port could not be opened; the message is one line."""


class Listeners:
    """All ports of one listener and all their connections."""

    def __init__(self, listen: HostPort, services: Services, settings: Settings) -> None:
        self._listen = listen
        self._services = services
        self._settings = settings
        self._bootstrap: asyncio.Server | None = None
        self._by_node: dict[int, asyncio.Server] = {}
        self._refused: dict[int, str] = {}
        self._sessions = Sessions()
        self._closed = False

    async def open(self) -> None:
        """Open the bootstrap port. Raises :class:`CannotListen`."""
        self._bootstrap = await self._serve(self._listen.port, None, self._services.cluster.any_address)

    async def follow(self, brokers: Mapping[int, HostPort]) -> None:
        """Have exactly the ports of ``brokers`` open. A port that cannot be opened is logged, once, and tried again."""
        for node_id in self._by_node.keys() - brokers.keys():
            self._by_node.pop(node_id).close()
            log.info("broker %d has left the cluster, port %d closed", node_id, self._services.ports.of(node_id).port)
        for node_id in sorted(brokers.keys() - self._by_node.keys()):
            if self._closed:
                return
            try:
                port = self._services.ports.of(node_id).port
                target = partial(self._services.cluster.address_of, node_id)
                self._by_node[node_id] = await self._serve(port, node_id, target)
            except (CannotListen, ValueError) as error:
                reason = f"no port for broker {node_id}: {error}"
                if self._refused.get(node_id) != reason:
                    log.error("%s", reason)
                self._refused[node_id] = reason
            else:
                self._refused.pop(node_id, None)
        for node_id in self._refused.keys() - brokers.keys():
            del self._refused[node_id]

    @property
    def refused(self) -> Sequence[str]:
        """Why brokers have no port, a line for each of them."""
        return tuple(self._refused.values())

    async def _serve(self, port: int, node_id: int | None, target: Callable[[], Sequence[HostPort]]) -> asyncio.Server:
        def session() -> ClientSession:
            return ClientSession(self._services, self._settings, node_id, target, self._sessions)

        loop = asyncio.get_running_loop()
        try:
            server = await loop.create_server(session, self._listen.host, port, backlog=BACKLOG)
        except OSError as error:
            raise CannotListen(f"cannot listen on {HostPort(self._listen.host, port)}: {reason_of(error)}") from error
        if self._closed:
            server.close()
        return server

    async def drain(self, timeout_seconds: float) -> None:
        """Accept nobody, let requests in flight be answered, close every connection."""
        self._close_ports()
        await self._sessions.drain(timeout_seconds)

    def close(self) -> None:
        """Close every port and cut off every connection. May be called at any time, and again."""
        self._close_ports()
        self._sessions.abort()

    def _close_ports(self) -> None:
        self._closed = True
        for server in (self._bootstrap, *self._by_node.values()):
            if server is not None:
                server.close()
