"""Connections of the admin interface: few, each of one request, and none that takes its time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final, cast

from aiohttp import web
from aiohttp.web import RequestHandler, Server

from shim.admin.live.over_http.answering import error_response
from shim.admin.live.over_http.receiving import REQUEST_SECONDS
from shim.admin.live.shown.documents import one_line
from shim.config import HostPort
from shim.tls import HandshakePace, Receiver, TlsContext, tls_server

log = logging.getLogger(__name__)

MOST_CONNECTIONS: Final = 32
"""The process's files are there for clients and the log."""

_LIMITS: Final[dict[str, Any]] = {
    "keepalive_timeout": REQUEST_SECONDS,  # of the first request, too
    "lingering_time": 1.0,
    "auto_decompress": False,  # a small body may be a large one
    "access_log": None,
}


class _Connection(RequestHandler):
    """Says in JSON what is not even HTTP. ``ended`` is called with the connection once it is no more."""

    __slots__ = ("_ended", "_wire")

    def __init__(self, server: Server, ended: Callable[[_Connection], None]) -> None:
        super().__init__(server, loop=asyncio.get_running_loop(), **_LIMITS)
        self._ended = ended
        self._wire: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._wire = cast(asyncio.Transport, transport)  # uvloop's is one in all but name
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self._ended(self)

    @property
    def waits_for_client(self) -> bool:
        """Nothing is worked at here: the request has not come, or not to its end, or all is done and the client has
        yet to take what is left of the answer."""
        if self._wire is None:
            return False  # it has just come in
        request = self._current_request
        return request is None or not request.content.is_eof() or self._wire.is_closing()

    def give_up(self) -> None:
        """Whatever was to be sent yet is dropped."""
        assert self._wire is not None, "somebody is there"
        self._wire.abort()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if request.writer.output_size > 0:
            raise ConnectionError("a part of the answer has gone out already") from exc
        return error_response(status, one_line(message or "failed").partition(":")[0])


class _OneTooMany(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


class Connections:
    """Makes them. Where there is no room for one more, the one that has kept the shim waiting for longest makes room:
    whoever connects and says nothing, or half of something, keeps nobody out. Where all are worked at, the newcomer is
    closed."""

    def __init__(self, server: Server, tls: TlsContext | None = None) -> None:
        self._server = server
        self._tls = tls
        self._pace = HandshakePace()
        self._open: dict[_Connection, None] = {}  # the oldest first
        self._given_up: set[_Connection] = set()

    def __call__(self) -> asyncio.BaseProtocol:
        if self._count() >= MOST_CONNECTIONS and not self._make_room():
            return _OneTooMany()
        connection = _Connection(self._server, self._ended)
        self._open[connection] = None
        if self._tls is None:
            return connection
        return tls_server(self._tls, cast(Receiver, connection), _refused, self._pace)

    def _count(self) -> int:
        """The server knows those whose client has gone and whose work has not ended, but none that has just come in,
        and has those that were given up for a moment yet."""
        known = set(self._server.connections)
        self._given_up &= known
        return len((known | self._open.keys()) - self._given_up)

    def _make_room(self) -> bool:
        waiting = next((each for each in self._open if each.waits_for_client), None)
        if waiting is None:
            return False
        self._ended(waiting)
        self._given_up.add(waiting)
        waiting.give_up()
        return True

    def _ended(self, connection: _Connection) -> None:
        self._open.pop(connection, None)


def _refused(address: HostPort, reason: str) -> None:
    log.warning("a connection to the admin interface from %s was closed: %s", address.host, reason)
