"""The running shim: its parts, wired together, from the first file that is opened to the last that is closed."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from shim.api import OFFERED, Services
from shim.config import HostPort, SettingError, Settings
from shim.following import Topics, TransactionFollower
from shim.listener_config import Listener
from shim.log import OFFSETS_TOPIC, LogError, OffsetsLog
from shim.logged_once import LoggedOnce
from shim.migration.dual_commit import DualCommit
from shim.migration.groups import Placements
from shim.migration.guard import Guard
from shim.migration.migration import Migration
from shim.migration.mirror import Mirror
from shim.migration.registrar import Registrar
from shim.migration.stores import Stores
from shim.migration.topic_list import TopicList
from shim.net import CannotListen, Departures, Limits, Listeners
from shim.offsets.cluster_groups import ClusterGroups
from shim.offsets.ensemble import Ensemble
from shim.offsets.kept_brokers import KeptBrokers
from shim.offsets.znodes import Acl, ChrootMissing, EnsembleError
from shim.offsets.zookeeper import ZooKeeperOffsets
from shim.runtime import Clock, OffsetsOfTopics, OffsetsRetention, Runtime, open_log
from shim.security.authorizer import Authorizer
from shim.tls import CannotUse, TlsContext, context_for_brokers, context_for_clients
from shim.upstream import AuthenticationFailed, Cluster, ClusterTopics, PortMap, TopicReader, reason_of

log = logging.getLogger("shim")

# How long the log may take over its last write, and again over whatever else it is at, once everybody is answered or
# cut off.
LAST_WRITE_SECONDS = 3.0

# How often key and certificate files are looked at, for whether they have changed.
CERTIFICATE_LOOK_SECONDS = 5.0


# How long a client that opens a group waits for what passes by itself at the brokers, before it is told to ask again.
LOOK_PATIENCE_SECONDS = 3.0

# The longest wait for a session with a ZooKeeper, each time.
ZOOKEEPER_START_SECONDS = 3.0

# The offsets, their history and the shim's own state: a file open for each partition of each.
TOPICS_OF_THE_LOG = 3


class CannotStart(Exception):
    """Why ``serve`` cannot go on; the message is one line fit for a terminal."""


class DiskHangs(CannotStart):
    """A call of the log has not come back: Python waits for its threads at exit, and this one may never end."""


async def serve(
    bootstrap: tuple[HostPort, ...],
    listening: Sequence[Listener],
    data_dir: Path,
    settings: Settings,
    ready: Callable[[str], None],
    admin: HostPort | None = None,
    zookeeper: str | None = None,
    *,
    registrar: bool = False,
) -> None:
    """Run the shim until SIGTERM or SIGINT; ``ready`` is told in a line when it serves: the first listener, and what it
    found. ``admin``: where the admin interface is. ``zookeeper``: the connect string of the one where old consumers
    have their offsets; with ``registrar`` they find the cluster there, too.

    Raises :class:`CannotStart`.
    """
    to_register = _registered_listener(listening) if registrar else None
    contexts = _tls_contexts(listening, settings)
    admin_port = _admin_port(admin)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if contexts:
        loop.add_signal_handler(signal.SIGHUP, partial(_look_at_files, contexts.values(), anyway=True))

    try:
        limits = Limits.of(settings, TOPICS_OF_THE_LOG * settings.offsets_topic_num_partitions)
    except SettingError as error:
        raise CannotStart(str(error)) from error
    offsets_log = await _open_log(data_dir, settings, stop)
    if offsets_log is None:
        log.info("stopped")
        return
    clock = Clock()
    departures = Departures()
    runtime = Runtime(offsets_log, settings, clock, answered=departures.send)
    retention = OffsetsRetention(runtime, settings, clock)
    cluster = Cluster(bootstrap, settings)
    transactions = TransactionFollower(runtime, TopicReader(cluster, settings, OFFSETS_TOPIC))
    cluster_topics = ClusterTopics(cluster, settings)
    topics = Topics(cluster_topics, settings)
    authorizer = Authorizer(cluster, settings)
    brokers = KeptBrokers(cluster, settings)
    cluster_groups = ClusterGroups(brokers)
    copies = KeptBrokers(cluster, settings)  # what others wait for does not wait for what is copied there
    mirror = Mirror(runtime, ClusterGroups(copies, 0.0), settings)
    guard = Guard(runtime, cluster_groups, mirror)
    ensemble = None if zookeeper is None else _ensemble(zookeeper, settings)
    dual_commit = None if ensemble is None else DualCommit(runtime, ZooKeeperOffsets(ensemble), ensemble)
    stores = Stores(runtime, mirror, dual_commit)
    placements = Placements(
        runtime, ClusterGroups(brokers, LOOK_PATIENCE_SECONDS), settings, transactions.passed_by, stores
    )
    migration = Migration(runtime, cluster_groups, placements, stores, guard, settings, transactions.passed_by)
    listeners = Listeners(
        [
            (
                each,
                Services(
                    runtime,
                    cluster,
                    _port_map(each),
                    OFFERED,
                    transactions,
                    topics,
                    authorizer,
                    placements,
                    stores,
                ),
                contexts.get(each.name),
            )
            for each in listening
        ],
        limits,
        departures,
    )
    registering = None
    if zookeeper is not None and to_register is not None:
        registering = Registrar(
            _ensemble(zookeeper, settings),
            cluster,
            TopicList(cluster, cluster_topics, settings),
            _port_map(to_register),
            _own_name(data_dir),
        )
    claimed, first_view, session_tried = asyncio.Event(), asyncio.Event(), asyncio.Event()
    if ensemble is None:
        session_tried.set()

    async def follow(brokers: Mapping[int, HostPort]) -> None:
        if cluster.looked_up:
            # Before anybody is served: the offsets may be of another cluster.
            _claim(offsets_log, cluster, data_dir)
            claimed.set()
        await listeners.follow(brokers)
        if cluster.looked_up:
            first_view.set()
            if registering is not None:
                registering.heard(brokers)

    cluster.watch(follow)
    tasks: list[asyncio.Task[object]] = []
    try:
        await _open_port(listeners)
        # Clients come in from here on; they are told COORDINATOR_LOAD_IN_PROGRESS until the cluster is known to be the
        # right one, whether it has an authorizer is known too, and their partition is loaded.
        writing = loop.create_task(runtime.run(), name="log")
        tasks = [
            writing,
            loop.create_task(_follow(cluster), name="cluster"),
            loop.create_task(keep_up("the look for expired offsets", retention.run)),
            loop.create_task(keep_up("the look at topics", partial(topics.run, OffsetsOfTopics(runtime)))),
            loop.create_task(keep_up("the look for an authorizer", authorizer.run)),
        ]
        if contexts:
            tasks.append(loop.create_task(keep_up("the look at certificates", partial(_follow_files, contexts))))
        if registering is not None:
            tasks.append(loop.create_task(keep_up("the registrar", registering.run)))
        chores = {"other places for offsets": stores.run, "the mirror": mirror.run, "the guard": guard.run}
        if ensemble is not None and dual_commit is not None:
            tasks.append(loop.create_task(_begin_session(ensemble, session_tried, waits=registrar), name="ZooKeeper"))
            chores |= {"the watch of offsets": dual_commit.watch.run, "the look for old consumers": dual_commit.run}
        tasks += [loop.create_task(keep_up(what, chore)) for what, chore in chores.items()]
        starting = asyncio.gather(
            _load(runtime, data_dir),
            _broker_ports(listeners, first_view),
            _admit(runtime, claimed, authorizer),
            _register(registering),
            session_tried.wait(),
        )
        if await _first_of(starting, stop, tasks):
            ports = f"{len(cluster.brokers)} broker port{'' if len(cluster.brokers) == 1 else 's'}"
            async with admin_port(migration):
                ready(f"offset-shim ready on {listening[0].listen}, {ports}, data in {data_dir}")
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
        stores.close()
        if registering is not None:
            await registering.close()
        if ensemble is not None:
            await ensemble.close()
        cluster_topics.close()
        brokers.close()
        copies.close()
        try:
            await runtime.close(LAST_WRITE_SECONDS)
        except TimeoutError:
            raise _hangs(data_dir) from None
    log.info("stopped")


def _tls_contexts(listening: Sequence[Listener], settings: Settings) -> Mapping[str, TlsContext]:
    """By the listener's name; the one for brokers by no name."""
    try:
        contexts = {
            each.name: context_for_clients(f"listener {each.name}", each.settings)
            for each in listening
            if each.speaks_tls
        }
        for_brokers = context_for_brokers(settings)
    except CannotUse as error:
        raise CannotStart(str(error)) from error
    for each in listening:
        log.info("listener %s", each)
    if for_brokers is not None:
        contexts[""] = for_brokers
    for line in _what_does_not_pass(listening, settings):
        log.warning("%s", line)
    return contexts


def _what_does_not_pass(listening: Sequence[Listener], settings: Settings) -> Iterator[str]:
    """Lines about what brokers cannot know of a client that comes through the shim."""
    asking = [each.name for each in listening if each.speaks_tls and each.settings.ssl_client_auth != "none"]
    if asking:
        yield f"clients' certificates at {', '.join(asking)} do not reach the brokers: they let clients in, and no more"
    if settings.upstream_ssl_keystore_location:
        yield "brokers are shown the shim's certificate for all clients: a principal from a certificate is the shim's"
    if settings.upstream_security_protocol != "PLAINTEXT":
        yield "brokers see the shim's address for all clients: ACLs for a host mean the shim. Kerberos does not pass"


async def _follow_files(contexts: Mapping[str, TlsContext]) -> None:
    while True:
        await asyncio.sleep(CERTIFICATE_LOOK_SECONDS)
        _look_at_files(contexts.values())


def _look_at_files(contexts: Iterable[TlsContext], *, anyway: bool = False) -> None:
    for context in contexts:
        context.look(anyway=anyway)


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


async def _follow(cluster: Cluster) -> None:
    try:
        await cluster.run()
    except AuthenticationFailed as error:
        raise CannotStart(f"the brokers do not take the shim's credentials: {error}") from error


async def _open_port(listeners: Listeners) -> None:
    try:
        await listeners.open()
    except CannotListen as error:
        raise CannotStart(str(error)) from error


def _admin_port(address: HostPort | None) -> Callable[[Migration], AbstractAsyncContextManager[object]]:
    """Opens it, once there is somebody to move groups. That raises :class:`CannotStart`."""
    if address is None:
        return lambda _: nullcontext()
    # Only where it is wanted, and before there are clients that would wait for it: aiohttp takes its time.
    from shim.admin.live import serving

    @asynccontextmanager
    async def port(migration: Migration) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(serving.serve_admin(address, migration))
            except serving.CannotListen as error:
                raise CannotStart(str(error)) from error
            yield

    return port


async def _admit(runtime: Runtime, claimed: asyncio.Event, authorizer: Authorizer) -> None:
    """Serve groups as soon as the cluster is the right one, and it is known whether it says what clients may do."""
    await claimed.wait()
    await authorizer.known.wait()
    runtime.admit()


def _port_map(listener: Listener) -> PortMap:
    return PortMap(listener.advertised.host, listener.advertised.port, listener.listen.port)


def _own_name(data_dir: Path) -> str:
    """Of this shim and no other that runs, and the same when it is started anew: nobody shares a data directory."""
    return f"{socket.gethostname()}:{data_dir.resolve()}"


def _registered_listener(listening: Sequence[Listener]) -> Listener:
    """The consumers that look in ZooKeeper speak neither TLS nor SASL."""
    for listener in listening:
        if listener.security_protocol == "PLAINTEXT":
            return listener
    raise CannotStart("--registrar is for consumers that speak PLAINTEXT alone, and no listener does")


def _ensemble(zookeeper: str, settings: Settings) -> Ensemble:
    auth = (settings.zookeeper_username, settings.zookeeper_password) if settings.zookeeper_username else None
    acl = Acl.CREATOR if settings.zookeeper_set_acl else Acl.WORLD
    return Ensemble(zookeeper, session_timeout_ms=settings.zookeeper_session_timeout_ms, auth=auth, acl=acl)


async def _begin_session(ensemble: Ensemble, tried: asyncio.Event, *, waits: bool) -> None:
    """With a ZooKeeper that is away until it is there; what is in it is not known until then. One without the chroot
    is another one than was meant, unless the registrar is about to make it (``waits``)."""
    trouble = LoggedOnce(log)
    while True:
        try:
            await ensemble.start(ZOOKEEPER_START_SECONDS)
            tried.set()
            break
        except ChrootMissing as error:
            if not waits:
                raise CannotStart(str(error)) from error
            await asyncio.sleep(ZOOKEEPER_START_SECONDS / 10)  # ZooKeeper would tell, but not a session that is none
        except EnsembleError as error:
            tried.set()
            trouble.failed("offsets in ZooKeeper are not served", error)
    await asyncio.Event().wait()  # kazoo goes on by itself


async def _register(registrar: Registrar | None) -> None:
    """A ZooKeeper that is away is waited for while others are served; one that is somebody else's is a mistake."""
    if registrar is not None:
        await registrar.tried.wait()
        if registrar.refused is not None:
            raise CannotStart(registrar.refused)


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
