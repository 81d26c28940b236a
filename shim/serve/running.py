"""The running shim, from the first file that is opened to the last that is closed."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Final

from shim.admin.live.asked.shim import Shim
from shim.config import SettingError
from shim.counted import some_of
from shim.given import Given
from shim.listener_config import ADMIN
from shim.logs import LogOutput
from shim.net import Limits
from shim.serve import chores
from shim.serve.admin_port import admin_port, asked_together
from shim.serve.errors import CannotStart
from shim.serve.health import Health
from shim.serve.log_on_disk import LAST_WRITE_SECONDS, hangs, open_or_stop
from shim.serve.parts import Parts
from shim.serve.reloading import Reloading
from shim.serve.service_manager import ServiceManager
from shim.serve.starting import Start
from shim.serve.tasks import first_of
from shim.serve.tls_files import CertificateFiles, tls_contexts
from shim.serve.zookeeper import registered_listener
from shim.upstream import PortMap
from shim.workers.at_parent import Worker

log = logging.getLogger("shim")

_TOPICS_OF_THE_LOG: Final = 3
"""The offsets, their history and the shim's own state: a file open for each partition of each."""


_FORWARDED_SECONDS: Final = 1.0
"""At the end, for what other shims, or workers, have yet to answer."""


async def serve(
    given: Given,
    ready: Callable[[str], None],
    *,
    reread: Callable[[], Given] | None = None,
    logs: LogOutput | None = None,
    hung_up: Callable[[], bool] = lambda: False,
    worker: Worker | None = None,
    manager: ServiceManager | None = None,
) -> None:
    """Run the shim until SIGTERM or SIGINT; ``ready`` is told in a line when it serves: the first listener, and what it
    found. On SIGHUP ``reread`` is asked what would be given now, and the parts take what they can of it, ``logs``
    among them; certificates are looked at. ``hung_up``: whether there was one before this is called. ``worker``: where
    this is one of several processes, which ends with its parent, too. ``manager`` is told that it is alive, and when it
    stops.

    Raises :class:`CannotStart`.
    """
    loop = asyncio.get_running_loop()
    stop = _told_to_stop()
    if worker is not None:
        worker.parent.begin(partial(_alone, stop))
    reloading = Reloading(given, reread, logs)
    loop.add_signal_handler(signal.SIGHUP, reloading.begin)
    if hung_up():
        reloading.begin()
    health = Health()
    async with AsyncExitStack() as admin_opened:
        shim: Shim = health
        if worker is not None:
            shim = await admin_opened.enter_async_context(asked_together(given, worker.share, health))
        if given.registrar:
            registered_listener(given.listening)  # or the log would be opened for nothing
        contexts = tls_contexts(given)
        await admin_opened.enter_async_context(admin_port(given.admin, given.settings, shim, contexts.get(ADMIN)))
        certificates = CertificateFiles(contexts.values()) if contexts else None
        loop.add_signal_handler(signal.SIGHUP, partial(_look_again, reloading, certificates))
        limits = _limits(given, worker)
        opened = await open_or_stop(given.data_dir, given.settings, stop, worker)
        if opened is None:
            log.info("stopped")
            return
        parts = Parts(given, opened, limits, contexts, worker)
        health.opened(parts.runtime, parts.cluster, parts.whole, parts.measuring)
        reloading.tell([*parts.reloadable, *(() if worker is None else (worker.parent,))], parts.listeners)
        start = Start(parts, given)
        begin = partial(chores.begin, parts, start, given, certificates, health, manager)
        async with _going_on(parts, start, begin, admin_opened.aclose) as tasks:
            if await first_of(asyncio.ensure_future(start.complete()), stop, tasks.values()):
                health.started(parts.migration, parts.groups, parts.relocation)
                ready(_ready_line(given, parts))
                await first_of(loop.create_future(), stop, tasks.values())
            if manager is not None:
                manager.stopping()
            await admin_opened.aclose()
            await _drain(parts, tasks[chores.LOG], reloading.settings.shutdown_drain_timeout_ms / 1000)
        if worker is not None and opened.offsets_log is not None:
            worker.parent.left(clean=opened.offsets_log.ended_clean)
    log.info("stopped")


@asynccontextmanager
async def _going_on(
    parts: Parts,
    start: Start,
    begin: Callable[[], dict[str, asyncio.Task[None]]],
    close_admin: Callable[[], Awaitable[None]],
) -> AsyncIterator[Mapping[str, asyncio.Task[None]]]:
    """Clients come in, and the chores go on; at the end everything is closed, whatever has happened, and before it the
    port at which groups are moved."""
    tasks: dict[str, asyncio.Task[None]] = {}
    try:
        await start.open()
        tasks = begin()
        yield tasks
    finally:
        await close_admin()
        parts.runtime.stop()
        await parts.transactions.stop()
        parts.listeners.close()
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        try:
            await parts.close()
        except TimeoutError:
            raise hangs(start.data_dir) from None


async def _drain(parts: Parts, writing: asyncio.Task[None], seconds: float) -> None:
    log.info("stopping: no new connections, answering requests in flight")
    if parts.between is not None:
        parts.between.leave()
    draining = asyncio.ensure_future(parts.listeners.drain(seconds))
    # Whoever goes on without the shim finds there what was committed here.
    await parts.feeding.drain(seconds / 2)
    parts.runtime.stop()
    if parts.between is not None:
        await asyncio.wait({draining}, timeout=_FORWARDED_SECONDS)
        parts.between.give_up()  # what waits for others there, as a JoinGroup, would wait for long
    await draining
    await asyncio.wait({writing}, timeout=LAST_WRITE_SECONDS)


def _told_to_stop() -> asyncio.Event:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


def _alone(stop: asyncio.Event) -> None:
    if not stop.is_set():
        log.error("the process that began this one is gone: it ends, too")
        stop.set()


def _look_again(reloading: Reloading, certificates: CertificateFiles | None) -> None:
    if certificates is not None:
        certificates.read_again()
    reloading.begin()


def _limits(given: Given, worker: Worker | None) -> Limits:
    log_files = _TOPICS_OF_THE_LOG * given.settings.offsets_topic_num_partitions
    try:
        if worker is None:
            return Limits.of(given.settings, log_files)
        return Limits.of(given.settings, log_files, worker.parent)
    except SettingError as error:
        raise CannotStart(str(error)) from error


def _ready_line(given: Given, parts: Parts) -> str:
    listen = given.listening[0].listen
    ports = PortMap(listen.host, listen.port)
    node_ids = sorted(filter(ports.has, parts.cluster.brokers))
    brokers = some_of(node_ids, lambda node_id: f"broker {node_id} at port {ports.listening_of(node_id)}")
    return f"offset-shim ready on {listen}, {brokers}, data in {given.data_dir}"
