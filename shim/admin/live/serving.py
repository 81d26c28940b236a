"""The shim's side of the admin interface: the port, and which paths there are."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

from shim.admin.live.as_json import one_line
from shim.admin.live.choosing import BadRequest
from shim.admin.live.connections import Connections, error_response
from shim.admin.live.group_paths import GroupPaths
from shim.admin.live.grouping import NotCertain
from shim.admin.live.guarding import turned_away
from shim.admin.live.migrating import NotKnown, Refused
from shim.admin.live.paths import Paths
from shim.admin.live.vital_signs import VitalSigns
from shim.admin.live.watching import NotReady, Watched
from shim.config import HostPort
from shim.upstream import reason_of

log = logging.getLogger(__name__)

_MOST_BODY: Final = 1 << 20
_STOP_SECONDS: Final = 1.0  # for what is under way when the shim stops; aiohttp waits so long twice

_HEADERS: Final = {
    "Connection": "close",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class CannotListen(Exception):
    """Why the port cannot be opened, in one line."""


@asynccontextmanager
async def serve_admin(address: HostPort, watched: Watched) -> AsyncIterator[int]:
    """The admin interface, while the context lasts; gives its port, which is a free one for port 0.

    The shim need not be ready: who asks for more than there is yet is told 503.

    At the end nothing more is begun, and what is under way has two seconds. Raises :class:`CannotListen`.
    """
    stopping = asyncio.Event()
    paths = Paths(watched, stopping)
    of_groups = GroupPaths(watched, paths.statuses, stopping)
    application = _application(paths, of_groups, VitalSigns(watched), address.host)
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
                    "whoever reaches %s may see all groups, move, reset and delete them: nobody is asked who they are",
                    address,
                )
            yield port
        finally:
            listening.close()
    finally:
        stopping.set()
        await runner.cleanup()


def _is_loopback(host: str) -> bool:
    return ipaddress.ip_address(host).is_loopback


def _application(paths: Paths, of_groups: GroupPaths, vital_signs: VitalSigns, own_host: str) -> web.Application:
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
    application.add_routes(
        [
            web.get("/livez", vital_signs.livez),
            web.get("/readyz", vital_signs.readyz),
            web.get("/metrics", vital_signs.metrics),
            web.get("/v1/groups", paths.groups, allow_head=False),
            web.get("/v1/groups/describe", of_groups.describe, allow_head=False),
            web.get("/v1/groups/lag", of_groups.lag, allow_head=False),
            web.get("/v1/groups/history", of_groups.history, allow_head=False),
            web.post("/v1/groups/reset/plan", of_groups.plan_reset),
            web.post("/v1/groups/reset", of_groups.reset),
            web.post("/v1/groups/delete", of_groups.delete),
            web.get("/v1/migrate/candidates", paths.candidates, allow_head=False),
            web.post("/v1/migrate/plan", paths.plan),
            web.post("/v1/migrate/status", paths.status),
            web.post("/v1/migrate/verify", paths.verify),
            web.post("/v1/migrate/start", paths.start),
            web.post("/v1/migrate/advance", paths.advance),
            web.post("/v1/migrate/rollback", paths.rollback),
        ]
    )
    return application
