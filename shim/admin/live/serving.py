"""The shim's side of the admin interface: paths, what is asked there, and the port."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

from shim.admin.live.as_json import Row, list_in_pieces, offsets_rows, one_line, planned_row, status_row
from shim.admin.live.choosing import BadRequest, Choice, choice_of, wanted_of
from shim.admin.live.connections import REQUEST_SECONDS, Connections, error_response
from shim.admin.live.guarding import JSON, turned_away
from shim.admin.live.migrating import GroupStatus, Migration, NotKnown, Refused
from shim.admin.live.sending import send_all
from shim.admin.live.streaming import in_lines
from shim.config import HostPort
from shim.upstream import reason_of

log = logging.getLogger(__name__)

_MOST_BODY: Final = 1 << 20
_ANSWER_SECONDS: Final = 60.0  # of what only looks
_STOP_SECONDS: Final = 1.0  # for what is under way when the shim stops; aiohttp waits so long twice
_AT_ONCE: Final = 100  # groups looked at in one go
_SIDE_BY_SIDE: Final = 8  # groups that change hands at the same time

_HEADERS: Final = {
    "Connection": "close",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}

_Move = Callable[[str, str], Awaitable[GroupStatus]]
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class CannotListen(Exception):
    """Why the port cannot be opened, in one line."""


@asynccontextmanager
async def serve_admin(address: HostPort, migration: Migration) -> AsyncIterator[int]:
    """The admin interface, while the context lasts; gives its port, which is a free one for port 0.

    At the end nothing more is begun, and what is under way has two seconds. Raises :class:`CannotListen`.
    """
    stopping = asyncio.Event()
    application = _application(_Admin(migration, stopping), address.host)
    runner = web.AppRunner(application, shutdown_timeout=_STOP_SECONDS)
    await runner.setup()
    try:
        assert runner.server is not None, "it is set up"
        loop = asyncio.get_running_loop()
        try:
            listening = await loop.create_server(Connections(runner.server), address.host, address.port)
        except OSError as error:
            raise CannotListen(f"cannot listen on {address}: {reason_of(error)}") from error
        try:
            port: int = listening.sockets[0].getsockname()[1]
            log.info("admin interface on %s", address._replace(port=port))
            if not all(_is_loopback(each.getsockname()[0]) for each in listening.sockets):
                log.warning(
                    "whoever reaches %s may see all groups and move them: nobody is asked who they are", address
                )
            yield port
        finally:
            listening.close()
    finally:
        stopping.set()
        await runner.cleanup()


def _query(request: web.Request) -> str:
    """As it was sent."""
    return request.raw_path.partition("?")[2]


def _is_loopback(host: str) -> bool:
    return ipaddress.ip_address(host).is_loopback


def _application(admin: _Admin, own_host: str) -> web.Application:
    @web.middleware
    async def in_json(request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Errors are JSON, whoever finds them."""
        try:
            away = turned_away(request.method, request.headers, request.content_type, own_host)
            return error_response(*away) if away is not None else await handler(request)
        except BadRequest as error:
            return error_response(400, str(error))
        except NotKnown as error:
            return error_response(404, one_line(error) or "there is no such group")
        except Refused as error:
            return error_response(409, one_line(error))
        except web.HTTPException as error:
            return error_response(error.status, one_line(error.reason))
        except TimeoutError:
            return error_response(504, "no answer in time")
        except ConnectionError:  # nobody is there to be told
            raise
        except Exception:
            log.exception("%s of the admin interface", request.path)
            return error_response(500, "failed, the shim's log says why")

    async def with_headers(_: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(_HEADERS)
        response.force_close()

    application = web.Application(middlewares=[in_json], client_max_size=_MOST_BODY)
    application.on_response_prepare.append(with_headers)
    application.add_routes(
        [
            web.get("/v1/groups", admin.groups, allow_head=False),
            web.get("/v1/groups/describe", admin.describe, allow_head=False),
            web.post("/v1/migrate/plan", admin.plan),
            web.post("/v1/migrate/status", admin.status),
            web.post("/v1/migrate/start", admin.start),
            web.post("/v1/migrate/rollback", admin.rollback),
        ]
    )
    return application


class _Admin:
    """What is behind each path."""

    def __init__(self, migration: Migration, stopping: asyncio.Event) -> None:
        self._migration = migration
        self._stopping = stopping

    async def groups(self, request: web.Request) -> web.StreamResponse:
        choice = choice_of(_query(request))
        async with asyncio.timeout(_ANSWER_SECONDS):
            statuses = await self._statuses(choice)
        return await send_all(request, JSON, list_in_pieces({}, "groups", map(status_row, statuses)))

    async def describe(self, request: web.Request) -> web.StreamResponse:
        names = choice_of(_query(request)).names
        if names is None or len(names) != 1:
            raise BadRequest("one group has to be named: describe?group=…")
        async with asyncio.timeout(_ANSWER_SECONDS):
            (status,) = await self._statuses(Choice(names))
            offsets = await self._migration.offsets(status.group)
        return await send_all(request, JSON, list_in_pieces(status_row(status), "offsets", offsets_rows(offsets)))

    async def plan(self, request: web.Request) -> web.StreamResponse:
        async def step(names: Sequence[str]) -> list[Row]:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return [planned_row(each) for each in await self._migration.plan(names)]

        choice, _ = await self._wanted(request)
        names = await self._names(choice, "upstream")
        return await in_lines(request, names, step, together=_AT_ONCE, side_by_side=1, stopping=self._stopping)

    async def status(self, request: web.Request) -> web.StreamResponse:
        async def step(names: Sequence[str]) -> list[Row]:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return [status_row(each) for each in await self._migration.status(names)]

        choice, _ = await self._wanted(request)
        names = await self._names(choice)
        return await in_lines(request, names, step, together=_AT_ONCE, side_by_side=1, stopping=self._stopping)

    async def start(self, request: web.Request) -> web.StreamResponse:
        return await self._move(request, self._migration.start, "upstream")

    async def rollback(self, request: web.Request) -> web.StreamResponse:
        return await self._move(request, self._migration.rollback, "kafka")

    async def _move(self, request: web.Request, move: _Move, storage: str) -> web.StreamResponse:
        """``storage``: of those that can be moved so. A group that is named is tried in any case."""
        choice, cause = await self._wanted(request)
        said = cause or f"{request.path}, asked for at the admin interface"

        async def step(names: Sequence[str]) -> list[Row]:
            return [status_row(await move(name, said)) for name in names]

        names = await self._names(choice, storage)
        return await in_lines(request, names, step, together=1, side_by_side=_SIDE_BY_SIDE, stopping=self._stopping)

    async def _wanted(self, request: web.Request) -> tuple[Choice, str]:
        async with asyncio.timeout(REQUEST_SECONDS):
            body = await request.read()
        return wanted_of(body)

    async def _names(self, choice: Choice, storage: str | None = None) -> Sequence[str]:
        if choice.names is not None:
            return choice.names
        async with asyncio.timeout(_ANSWER_SECONDS):
            return [each.group for each in choice.fitting(await self._migration.status(None), storage)]

    async def _statuses(self, choice: Choice) -> Sequence[GroupStatus]:
        if choice.names is None:
            return choice.fitting(await self._migration.status(None))
        found = await self._migration.status(choice.names)
        if missing := set(choice.names).difference(each.group for each in found):
            raise NotKnown(f"there is no group {min(missing)!a}")
        return found
