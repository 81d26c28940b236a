"""Which paths there are, and which of them change something."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from aiohttp import web

from shim.admin.console import page_files
from shim.admin.live.paths.burrow import BurrowPaths
from shim.admin.live.paths.console import ConsolePaths, file_handler
from shim.admin.live.paths.description import send_description
from shim.admin.live.paths.groups import GroupPaths
from shim.admin.live.paths.log import LogPaths
from shim.admin.live.paths.migration import MigrationPaths
from shim.admin.live.paths.vital_signs import VitalSigns

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Route(NamedTuple):
    """``changes``: whether something is different afterwards. ``open``: told to anybody who reaches the port, as it is
    the same of every shim; pages of other sites may lead there."""

    method: str
    path: str
    handler: Handler
    changes: bool = False
    open: bool = False


def routes(
    moving: MigrationPaths,
    of_groups: GroupPaths,
    of_log: LogPaths,
    console: ConsolePaths,
    burrow: BurrowPaths,
    vital_signs: VitalSigns,
) -> Sequence[Route]:
    return [
        Route("GET", "/livez", vital_signs.livez, open=True),
        Route("GET", "/readyz", vital_signs.readyz, open=True),
        Route("GET", "/metrics", vital_signs.metrics),
        Route("GET", "/v1/access", console.access, open=True),
        Route("GET", "/v1/openapi.json", send_description, open=True),
        Route("GET", "/v1/overview", console.overview),
        Route("GET", "/v1/clients", console.clients),
        Route("GET", "/v1/groups", of_groups.groups),
        Route("GET", "/v1/groups/summary", console.summary),
        Route("GET", "/v1/groups/describe", of_groups.describe),
        Route("GET", "/v1/groups/lag", of_groups.lag),
        Route("GET", "/v1/groups/lag/recent", console.recent_lag),
        Route("GET", "/v1/groups/history", of_groups.history),
        Route("POST", "/v1/groups/reset/plan", of_groups.plan_reset),
        Route("POST", "/v1/groups/reset", of_groups.reset, changes=True),
        Route("POST", "/v1/groups/delete", of_groups.delete, changes=True),
        Route("GET", "/v1/migrate/candidates", moving.candidates),
        Route("POST", "/v1/migrate/plan", moving.plan),
        Route("POST", "/v1/migrate/status", moving.status),
        Route("POST", "/v1/migrate/verify", moving.verify),
        Route("POST", "/v1/migrate/look", moving.look),
        Route("POST", "/v1/migrate/start", moving.start, changes=True),
        Route("POST", "/v1/migrate/advance", moving.advance, changes=True),
        Route("POST", "/v1/migrate/rollback", moving.rollback, changes=True),
        Route("GET", "/v1/log/places", of_log.places),
        Route("POST", "/v1/log/move", of_log.move, changes=True),
        Route("GET", "/v3/kafka", burrow.clusters),
        Route("GET", "/v3/kafka/{cluster}/consumer", burrow.consumers),
        Route("GET", "/v3/kafka/{cluster}/consumer/{group}/lag", burrow.lag),
        Route("GET", "/v3/kafka/{cluster}/consumer/{group}/status", burrow.status),
        *(Route("GET", path, file_handler(file), open=True) for path, file in page_files().items()),
    ]
