"""The port, from when it is opened to when nothing is begun there any more."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

from shim.admin.live.asked.shim import Shim
from shim.admin.live.guard.access import Access
from shim.admin.live.guard.cross_site import Own
from shim.admin.live.paths.burrow import BurrowPaths
from shim.admin.live.paths.console import ConsolePaths
from shim.admin.live.paths.groups import GroupPaths
from shim.admin.live.paths.log import LogPaths
from shim.admin.live.paths.migration import MigrationPaths
from shim.admin.live.paths.vital_signs import VitalSigns
from shim.admin.live.port.application import application_of
from shim.admin.live.port.connections import Connections
from shim.admin.live.port.routes import routes
from shim.admin.live.sampled.sampling import Pace, Sampler
from shim.config import HostPort, SettingError, check_admin_reach
from shim.tls import TlsContext
from shim.upstream.errors import reason_of

log = logging.getLogger(__name__)

_STOP_SECONDS: Final = 1.0  # for what is under way when the shim stops; aiohttp waits so long twice


class CannotListen(Exception):
    """Why the port cannot be opened, in one line."""


@asynccontextmanager
async def serve_admin(
    address: HostPort,
    shim: Shim,
    access: Access | None = None,
    *,
    tls: TlsContext | None = None,
    insecure: bool = False,
    pace: Pace | None = None,
) -> AsyncIterator[int]:
    """The admin interface, while the context lasts; gives its port, which is a free one for port 0.

    The shim need not be ready: who asks for more than there is yet is told 503. ``access``: by default nobody is asked
    who they are, and the port is opened for this machine alone, unless ``insecure``. ``tls``: where that is spoken. At
    the end nothing more is begun, and what is under way has two seconds. Raises :class:`CannotListen`.
    """
    stopping = asyncio.Event()
    access = access or Access()
    sampler = Sampler(shim, pace)
    table = routes(
        MigrationPaths(shim, stopping),
        GroupPaths(shim, stopping),
        LogPaths(shim),
        ConsolePaths(sampler, shim, access),
        BurrowPaths(shim, sampler),
        VitalSigns(shim),
    )
    application = application_of(table, Own(address.host, over_tls=tls is not None), access, sampler)
    runner = web.AppRunner(application, shutdown_timeout=_STOP_SECONDS)
    await runner.setup()
    try:
        assert runner.server is not None, "it is set up"
        loop = asyncio.get_running_loop()
        try:
            listening = await loop.create_server(Connections(runner.server, tls), address.host, address.port)
        except OSError as error:
            raise CannotListen(f"cannot listen on {address} (--admin): {reason_of(error)}") from error
        try:
            port: int = listening.sockets[0].getsockname()[1]
            hosts = [each.getsockname()[0] for each in listening.sockets]
            _refuse_others(address, hosts, guarded=insecure or access.is_guarded)
            if not all(map(_is_loopback, hosts)):
                _warn_of_others(address, access, tls)
            log.info("admin interface on %s%s", address._replace(port=port), "" if tls is None else ", over TLS")
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


def _warn_of_others(address: HostPort, access: Access, tls: TlsContext | None) -> None:
    if not access.is_guarded:
        log.warning(
            "whoever reaches %s may see all groups, move, reset and delete them: nobody is asked who they are", address
        )
    elif tls is None:
        log.warning("at %s the token, and all that is told, pass in clear: there is no TLS at this port", address)


def _is_loopback(host: str) -> bool:
    return ipaddress.ip_address(host).is_loopback
