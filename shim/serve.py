"""The running shim: its parts, wired together, from the first file that is opened to the last that is closed."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from shim.api import OFFERED, Services
from shim.config import HostPort, Settings
from shim.following import Topics, TransactionFollower
from shim.log import OFFSETS_TOPIC, LogError, OffsetsLog
from shim.net import CannotListen, Listeners
from shim.runtime import Clock, OffsetsOfTopics, OffsetsRetention, Runtime, open_log
from shim.upstream import Cluster, ClusterTopics, PortMap, TopicReader, reason_of

log = logging.getLogger("shim")

# How long the log may take over its last write, and again over whatever else it is at, once everybody is answered or
# cut off.
LAST_WRITE_SECONDS = 3.0


class CannotStart(Exception):
    """Why ``serve`` cannot go on; the message is one line fit for a terminal."""


class DiskHangs(CannotStart):
    """A call of the log has not come back: Python waits for its threads at exit, and this one may never end."""


async def serve(
    bootstrap: tuple[HostPort, ...],
    listen: HostPort,
    advertised_host: str,
    data_dir: Path,
    settings: Settings,
    ready: Callable[[str], None],
) -> None:
    """Run the shim until SIGTERM or SIGINT; ``ready`` is told in a line when it serves. Raises :class:`CannotStart`."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)

    offsets_log = await _open_log(data_dir, settings, stop)
    if offsets_log is None:
        log.info("stopped")
        return
    clock = Clock()
    runtime = Runtime(offsets_log, settings, clock)
    retention = OffsetsRetention(runtime, settings, clock)
    cluster = Cluster(bootstrap, settings)
    transactions = TransactionFollower(runtime, TopicReader(cluster, settings, OFFSETS_TOPIC))
    cluster_topics = ClusterTopics(cluster, settings)
    topics = Topics(cluster_topics, settings)
    services = Services(runtime, cluster, PortMap(advertised_host, listen.port), OFFERED, transactions, topics)
    listeners = Listeners(listen, services, settings)
    first_view = asyncio.Event()

    async def follow(brokers: Mapping[int, HostPort]) -> None:
        if cluster.looked_up:
            # Before anybody is served: the offsets may be of another cluster.
            _claim(offsets_log, cluster, data_dir)
            runtime.admit()
        await listeners.follow(brokers)
        if cluster.looked_up:
            first_view.set()

    cluster.watch(follow)
    tasks: list[asyncio.Task[object]] = []
    try:
        await _open_port(listeners)
        # Clients come in from here on; they are told COORDINATOR_LOAD_IN_PROGRESS until the cluster is known to be the
        # right one and their partition is loaded.
        writing = loop.create_task(runtime.run(), name="log")
        tasks = [
            writing,
            loop.create_task(cluster.run(), name="cluster"),
            loop.create_task(keep_up("the look for expired offsets", retention.run)),
            loop.create_task(keep_up("the look at topics", partial(topics.run, OffsetsOfTopics(runtime)))),
        ]
        starting = asyncio.gather(_load(runtime, data_dir), _broker_ports(listeners, first_view))
        if await _first_of(starting, stop, tasks):
            ports = f"{len(cluster.brokers)} broker port{'' if len(cluster.brokers) == 1 else 's'}"
            ready(f"offset-shim ready on {listen}, {ports}, data in {data_dir}")
            await _first_of(loop.create_future(), stop, tasks)
        log.info("stopping: no new connections, answering requests in flight")
        runtime.stop()
        await listeners.drain(settings.shutdown_drain_timeout_ms / 1000)
        await asyncio.wait({writing}, timeout=LAST_WRITE_SECONDS)
    finally:
        runtime.stop()
        await transactions.stop()
        listeners.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        cluster_topics.close()
        try:
            await runtime.close(LAST_WRITE_SECONDS)
        except TimeoutError:
            raise _hangs(data_dir) from None
    log.info("stopped")


async def _open_log(data_dir: Path, settings: Settings, stop: asyncio.Event) -> OffsetsLog | None:
    """None when the shim is stopped meanwhile."""
    # Not the loop's own threads, for which it waits at its end.
    thread = ThreadPoolExecutor(1, thread_name_prefix="log-open")
    opening = asyncio.get_running_loop().run_in_executor(thread, _opened, data_dir, settings)
    thread.shutdown(wait=False)
    try:
        if await _first_of(asyncio.shield(opening), stop, []):
            return await opening
        async with asyncio.timeout(LAST_WRITE_SECONDS):
            (await opening).close()
    except LogError as error:
        raise CannotStart(str(error)) from error
    except TimeoutError:
        raise _hangs(data_dir) from None
    except OSError as error:
        raise CannotStart(f"data directory {data_dir}: {reason_of(error)}") from error
    return None


def _opened(data_dir: Path, settings: Settings) -> OffsetsLog:
    is_new = not (data_dir / f"{OFFSETS_TOPIC}-0").exists()
    offsets_log = open_log(data_dir, settings)
    if is_new:
        log.warning("data directory %s is new: every group starts without offsets", data_dir)
    return offsets_log


def _hangs(data_dir: Path) -> DiskHangs:
    return DiskHangs(f"the disk under {data_dir} does not answer: stopped without waiting for it any longer")


async def _load(runtime: Runtime, data_dir: Path) -> None:
    try:
        await runtime.load()
    except LogError as error:
        raise CannotStart(str(error)) from error
    except OSError as error:
        raise CannotStart(f"data directory {data_dir}: {reason_of(error)}") from error


async def _open_port(listeners: Listeners) -> None:
    try:
        await listeners.open()
    except CannotListen as error:
        raise CannotStart(str(error)) from error


async def _broker_ports(listeners: Listeners, first_view: asyncio.Event) -> None:
    await first_view.wait()
    if listeners.refused:
        raise CannotStart(listeners.refused[0])


def _claim(offsets_log: OffsetsLog, cluster: Cluster, data_dir: Path) -> None:
    try:
        if cluster.cluster_id is not None:
            offsets_log.claim(cluster.cluster_id)
    except LogError as error:
        raise CannotStart(str(error)) from error
    except OSError as error:
        raise CannotStart(f"data directory {data_dir}: {reason_of(error)}") from error


async def keep_up(what: str, chore: Callable[[], Awaitable[None]], pause: float = 10.0) -> None:
    """Do it for ever, begun again ``pause`` seconds after it broke off: no bug in a chore stops produce and fetch."""
    while True:
        try:
            await chore()
        except Exception:
            log.exception("%s broke off; it begins again in %g s", what, pause)
        await asyncio.sleep(pause)


async def _first_of(wanted: asyncio.Future[Any], stop: asyncio.Event, tasks: Sequence[asyncio.Task[object]]) -> bool:
    """Wait for ``wanted`` (True; what it raises is raised) or ``stop`` (False).

    ``wanted`` is given up otherwise. A task that ends meanwhile ends the shim.
    """
    stopped = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([wanted, stopped, *tasks], return_when=asyncio.FIRST_COMPLETED)
        if wanted.done():
            wanted.result()
    finally:
        stopped.cancel()
        # What becomes of it after that is nobody's business any more.
        wanted.add_done_callback(lambda given_up: given_up.cancelled() or given_up.exception())
        wanted.cancel()
    for task in tasks:
        if task.done():
            task.result()
            raise RuntimeError(f"the {task.get_name()} task ended by itself")
    return not stop.is_set()
