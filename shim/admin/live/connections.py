"""Connections of the admin interface: few, each of one request, and none that takes its time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from aiohttp import web
from aiohttp.web import RequestHandler, Server

from shim.admin.live.as_json import encoded, one_line

MOST_CONNECTIONS: Final = 32
"""The process's files are there for clients and the log."""

REQUEST_SECONDS: Final = 10.0
"""How long a request may take to arrive, its head and its body each."""

_LIMITS: Final[dict[str, Any]] = {
    "keepalive_timeout": REQUEST_SECONDS,  # of the first request, too
    "lingering_time": 1.0,
    "auto_decompress": False,  # a small body may be a large one
    "access_log": None,
}


class _Connection(RequestHandler):
    """Says in JSON what is not even HTTP. ``ended`` is called once the connection is no more."""

    __slots__ = ("_ended",)

    def __init__(self, server: Server, ended: Callable[[], None]) -> None:
        super().__init__(server, loop=asyncio.get_running_loop(), **_LIMITS)
        self._ended = ended

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self._ended()

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
    """Makes them. One too many is closed."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._open = 0

    def __call__(self) -> asyncio.Protocol:
        # The server counts those whose client has gone and whose work has not ended, but none that has just come in.
        if max(self._open, len(self._server.connections)) >= MOST_CONNECTIONS:
            return _OneTooMany()
        self._open += 1
        return _Connection(self._server, self._ended)

    def _ended(self) -> None:
        self._open -= 1


def error_response(status: int, reason: str) -> web.Response:
    response = web.Response(status=status, body=encoded({"error": reason}), content_type="application/json")
    response.force_close()
    return response
