"""The shim's side of the admin interface: the port, and which paths there are."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

from shim.admin.live.asked.groups import NotCertain
from shim.admin.live.asked.migration import NotKnown, Refused
from shim.admin.live.asked.watched import NotReady, Watched
from shim.admin.live.burrow_paths import BurrowPaths
from shim.admin.live.connections import Connections
from shim.admin.live.console_paths import ConsolePaths
from shim.admin.live.group_paths import GroupPaths
from shim.admin.live.guard.access import Access, TokenFor
from shim.admin.live.guard.cross_site import turned_away
from shim.admin.live.log_paths import LogPaths
from shim.admin.live.over_http.answering import error_response
from shim.admin.live.over_http.receiving import body_of
from shim.admin.live.paths import Paths
from shim.admin.live.requests.fields import BadRequest
from shim.admin.live.routes import Route, routes
from shim.admin.live.sampling import Pace, Sampler
from shim.admin.live.shown.documents import one_line
from shim.admin.live.vital_signs import VitalSigns
from shim.config import HostPort, SettingError, check_admin_reach
from shim.upstream import reason_of

log = logging.getLogger(__name__)

_MOST_BODY: Final = 1 << 20
_STOP_SECONDS: Final = 1.0  # for what is under way when the shim stops; aiohttp waits so long twice

_LONGEST_TOLD: Final = 1_000

_HEADERS: Final = {
    "Connection": "close",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def _nowhere(_: web.Request) -> web.StreamResponse:
    raise web.HTTPNotFound


_NOWHERE: Final = Route("GET", "", _nowhere)


class CannotListen(Exception):
    """Why the port cannot be opened, in one line."""


@asynccontextmanager
async def serve_admin(
    address: HostPort,
    watched: Watched,
    access: Access | None = None,
    *,
    insecure: bool = False,
    pace: Pace | None = None,
) -> AsyncIterator[int]:
    """The admin interface, while the context lasts; gives its port, which is a free one for port 0.

    The shim need not be ready: who asks for more than there is yet is told 503. ``access``: by default nobody is asked
    who they are, and the port is opened for this machine alone, unless ``insecure``. At the end nothing more is begun,
    and what is under way has two seconds. Raises :class:`CannotListen`.
    """
    stopping = asyncio.Event()
    access = access or Access()
    sampler = Sampler(watched, pace)
    moving = Paths(watched, stopping)
    table = routes(
        moving,
        GroupPaths(watched, moving.statuses, stopping),
        LogPaths(watched),
        ConsolePaths(sampler, watched, access),
        BurrowPaths(watched, sampler),
        VitalSigns(watched),
    )
    application = _application(table, address.host, access, sampler)
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
            hosts = [each.getsockname()[0] for each in listening.sockets]
            _refuse_others(address, hosts, guarded=insecure or access.token_for is not TokenFor.NOTHING)
            if not all(map(_is_loopback, hosts)):
                _warn_of_others(address, access)
            log.info("admin interface on %s", address._replace(port=port))
            sampling = loop.create_task(sampler.run(), name="lags")
            try:
                yield port
            finally:
                stopping.set()
                sampling.cancel()
                await asyncio.wait({sampling})
        finally:
            listening.close()
    finally:
        stopping.set()
        await runner.cleanup()


def _refuse_others(address: HostPort, hosts: Iterable[str], *, guarded: bool) -> None:
    """``hosts``: what a name has turned out to stand for."""
    try:
        for host in hosts:
            check_admin_reach(address, guarded=guarded, stands_for=host)
    except SettingError as error:
        raise CannotListen(str(error)) from error


def _warn_of_others(address: HostPort, access: Access) -> None:
    if access.token_for is TokenFor.NOTHING:
        log.warning(
            "whoever reaches %s may see all groups, move, reset and delete them: nobody is asked who they are", address
        )
    else:
        log.warning("at %s the token, and all that is told, pass in clear: there is no TLS at this port", address)


def _is_loopback(host: str) -> bool:
    return ipaddress.ip_address(host).is_loopback


def _application(table: Sequence[Route], own_host: str, access: Access, sampler: Sampler) -> web.Application:
    by_handler: dict[object, Route] = {route.handler: route for route in table}

    async def answered(request: web.Request, handler: _Handler) -> web.StreamResponse:
        # What there is no path for is asked for with the token as well: nobody learns which there are.
        route = by_handler.get(request.match_info.handler, _NOWHERE)
        changes = route.changes or (route is _NOWHERE and request.method != "GET")
        away = turned_away(request.method, request.headers, request.content_type, own_host, linked=route.open)
        if away is None and not route.open:
            away = await access.refused(request.headers.get("Authorization", ""), changes=changes)
        if away is not None:
            if route.changes:
                log.warning("%s from %s refused: %s", request.path, request.remote, away.reason)
            refusal = error_response(*away)
            if away.status == web.HTTPUnauthorized.status_code:
                refusal.headers["WWW-Authenticate"] = "Bearer"
            return refusal
        if not route.changes:
            return await handler(request)
        # The message is the event: no other change is left out for it, whatever log.repeat.max.per.minute says.
        told = _told(await body_of(request))
        log.info("%s", f"{request.path} from {request.remote}, {_word_of(access)}: {told}")
        try:
            return await handler(request)
        finally:
            sampler.changed()

    @web.middleware
    async def in_json(request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Errors are JSON, whoever finds them."""
        try:
            return await answered(request, handler)
        except BadRequest as error:
            return error_response(400, str(error))
        except NotKnown as error:
            return error_response(404, one_line(error) or "there is no such group")
        except Refused as error:
            return error_response(409, one_line(error))
        except (NotCertain, NotReady) as error:
            return error_response(503, one_line(error))
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
    for route in table:
        application.router.add_route(route.method, route.path, route.handler)
        if route.open:
            application.router.add_route("HEAD", route.path, route.handler)
    return application


def _word_of(access: Access) -> str:
    return "without a token" if access.token_for is TokenFor.NOTHING else "with the token"


def _told(body: bytes) -> str:
    """A request for a change as the log has it: ASCII, in one line."""
    text = ascii(body.decode("utf-8", "replace"))[1:-1]
    return text if len(text) <= _LONGEST_TOLD else f"{text[:_LONGEST_TOLD]}… ({len(body)} bytes)"
