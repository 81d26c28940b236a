"""The running shim: its parts, wired together, from the first file that is opened to the last that is closed."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from typing import Final

from shim.api import OFFERED, Services
from shim.config import HostPort, SettingError
from shim.following import Lags, Topics, TransactionFollower
from shim.groups.groups import Groups
from shim.listener_config import Listener
from shim.log import OFFSETS_TOPIC
from shim.logs import LogOutput
from shim.migration.dual.dual_commit import DualCommit
from shim.migration.dual.lookup import Lookup
from shim.migration.feeding import Feeding
from shim.migration.hands.placements import Placements
from shim.migration.migration import Migration
from shim.migration.mirror.guard import Guard
from shim.migration.mirror.mirror import Mirror
from shim.migration.registrar.registrar import Registrar
from shim.migration.registrar.topic_list import TopicList
from shim.migration.stores import Stores
from shim.net import CannotListen, Departures, Limits, Listeners
from shim.offsets.cluster.groups import ClusterGroups
from shim.offsets.cluster.kept_brokers import KeptBrokers
from shim.offsets.zookeeper.offsets import ZooKeeperOffsets
from shim.runtime import Clock, OffsetsOfTopics, OffsetsRetention, Runtime
from shim.security.authorizer import Authorizer
from shim.serve.admin_port import admin_port
from shim.serve.errors import CannotStart
from shim.serve.given import Given
from shim.serve.health import Health
from shim.serve.log_on_disk import LAST_WRITE_SECONDS, claim, hangs, load, note_chroot, open_or_stop
from shim.serve.loop_delay import LoopDelay
from shim.serve.measuring import Measuring, Parts
from shim.serve.overview import Whole
from shim.serve.pushing import push_to
from shim.serve.reloading import Reloading
from shim.serve.tasks import first_of, keep_up
from shim.serve.tls_files import follow_files, look_at_files, tls_contexts
from shim.serve.zookeeper import (
    begin_session,
    ensemble_at,
    look_for_groups,
    own_name,
    registered,
    registered_listener,
    warn_of_zookeeper,
)
from shim.tls import TlsContext
from shim.upstream import AuthenticationFailed, Cluster, ClusterTopics, LogEnds, PortMap, TopicReader

log = logging.getLogger("shim")

_LOOK_PATIENCE_SECONDS: Final = 3.0
"""How long a client that opens a group waits for what passes by itself at the brokers, before it is told to ask
again."""

_TOPICS_OF_THE_LOG: Final = 3
"""The offsets, their history and the shim's own state: a file open for each partition of each."""


async def serve(
    given: Given,
    ready: Callable[[str], None],
    *,
    reread: Callable[[], Given] | None = None,
    logs: LogOutput | None = None,
) -> None:
    """Run the shim until SIGTERM or SIGINT; ``ready`` is told in a line when it serves: the first listener, and what it
    found. On SIGHUP ``reread`` is asked what would be given now, and the parts take what they can of it, ``logs``
    among them; certificates are looked at.

    Raises :class:`CannotStart`.
    """
    health = Health()
    async with AsyncExitStack() as admin_opened:
        await admin_opened.enter_async_context(admin_port(given.admin, given.settings, health))
        await _serve(given, ready, reread, logs, health, admin_opened.aclose)


async def _serve(
    given: Given,
    ready: Callable[[str], None],
    reread: Callable[[], Given] | None,
    logs: LogOutput | None,
    health: Health,
    close_admin: Callable[[], Awaitable[None]],
) -> None:
    """As :func:`serve`, while somebody looks at ``health``; until ``close_admin`` is called groups may be moved."""
    settings, bootstrap, listening, data_dir, admin, zookeeper, registrar, _ = given
    to_register = registered_listener(listening) if registrar else None
    contexts = tls_contexts(listening, settings)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    reloading = Reloading(given, reread, logs)
    loop.add_signal_handler(signal.SIGHUP, partial(_look_again, reloading, contexts))

    try:
        limits = Limits.of(settings, _TOPICS_OF_THE_LOG * settings.offsets_topic_num_partitions)
    except SettingError as error:
        raise CannotStart(str(error)) from error
    offsets_log = await open_or_stop(data_dir, settings, stop)
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
    ensemble = None if zookeeper is None else ensemble_at(zookeeper, settings)
    dual_commit = None if ensemble is None else DualCommit(runtime, ZooKeeperOffsets(ensemble), ensemble)
    stores = Stores(runtime, mirror, dual_commit)
    feeding = Feeding(runtime, mirror, dual_commit)
    lookup = Lookup(None if dual_commit is None else dual_commit.store)
    placements = Placements(
        runtime, ClusterGroups(brokers, _LOOK_PATIENCE_SECONDS), settings, transactions.passed_by, lookup
    )
    migration = Migration(runtime, cluster_groups, placements, stores, lookup, guard, settings, transactions.passed_by)
    groups = Groups(runtime, offsets_log, placements, stores, cluster_groups, brokers, cluster_topics)
    looks = KeptBrokers(cluster, settings)
    ends, loop_delay = LogEnds(looks, settings.metrics_lag_interval_ms / 1000), LoopDelay()
    lags = Lags(runtime, ends, settings)
    measuring = Measuring(Parts(runtime, cluster, limits, lags, mirror, dual_commit, loop_delay))
    health.opened(runtime, cluster, Whole(runtime, cluster, listening, zookeeper), measuring)
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
    reloading.tell((runtime, retention, cluster, topics, authorizer, placements), listeners)
    registering = None
    if zookeeper is not None and to_register is not None:
        registering = Registrar(
            ensemble_at(zookeeper, settings),
            cluster,
            TopicList(cluster, cluster_topics, settings),
            _port_map(to_register),
            own_name(data_dir),
        )
    claimed, first_view = asyncio.Event(), asyncio.Event()
    session_tried, session_begun = asyncio.Event(), asyncio.Event()
    if ensemble is None:
        session_tried.set()

    async def follow(brokers: Mapping[int, HostPort]) -> None:
        if cluster.looked_up:
            # Before anybody is served: the offsets may be of another cluster.
            claim(offsets_log, cluster, zookeeper, data_dir)
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
            tasks.append(loop.create_task(keep_up("the look at certificates", partial(follow_files, contexts))))
        if registering is not None:
            tasks.append(loop.create_task(keep_up("the registrar", registering.run)))
        chores: dict[str, Callable[[], Awaitable[None]]]
        chores = {"other places for offsets": feeding.run, "the mirror": mirror.run, "the guard": guard.run}
        if ensemble is not None and dual_commit is not None:
            session = begin_session(ensemble, session_tried, session_begun, waits=registrar)
            tasks.append(loop.create_task(session, name="ZooKeeper"))
            assert zookeeper is not None
            note = partial(note_chroot, offsets_log, zookeeper, claimed)
            chores["the look at ZooKeeper"] = partial(look_for_groups, lookup, session_begun, note, zookeeper)
            chores |= {"the watch of offsets": dual_commit.watch.run, "the look for old consumers": dual_commit.run}
        if admin is not None or settings.metrics_statsd_address:
            chores["the look at the event loop"] = loop_delay.run
        if settings.metrics_statsd_address:
            chores["metrics by StatsD"] = push_to(settings, measuring, health.metrics)
        tasks += [loop.create_task(keep_up(what, chore)) for what, chore in chores.items()]
        starting = asyncio.gather(
            load(runtime, data_dir),
            _broker_ports(listeners, first_view),
            _admit(runtime, claimed, authorizer),
            registered(registering),
            session_tried.wait(),
        )
        if await first_of(starting, stop, tasks):
            if dual_commit is None:
                warn_of_zookeeper(runtime)
            ports = f"{len(cluster.brokers)} broker port{'' if len(cluster.brokers) == 1 else 's'}"
            health.started(migration, groups)
            ready(f"offset-shim ready on {listening[0].listen}, {ports}, data in {data_dir}")
            await first_of(loop.create_future(), stop, tasks)
        await close_admin()
        log.info("stopping: no new connections, answering requests in flight")
        drain_seconds = reloading.settings.shutdown_drain_timeout_ms / 1000
        draining = loop.create_task(listeners.drain(drain_seconds))
        # Whoever goes on without the shim finds there what was committed here.
        await feeding.drain(drain_seconds / 2)
        runtime.stop()
        await draining
        await asyncio.wait({writing}, timeout=LAST_WRITE_SECONDS)
    finally:
        runtime.stop()
        await transactions.stop()
        listeners.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        feeding.close()
        groups.close()
        cluster_topics.close()
        ends.close()
        brokers.close()
        copies.close()
        looks.close()
        sessions = [each.close() for each in (registering, ensemble) if each is not None]
        try:
            # A ZooKeeper that hangs takes its time, and keeps nobody from the last snapshots.
            await asyncio.gather(runtime.close(LAST_WRITE_SECONDS), *sessions)
        except TimeoutError:
            raise hangs(data_dir) from None
    log.info("stopped")


def _look_again(reloading: Reloading, contexts: Mapping[str, TlsContext]) -> None:
    look_at_files(contexts.values(), anyway=True)
    reloading.reload()


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


async def _admit(runtime: Runtime, claimed: asyncio.Event, authorizer: Authorizer) -> None:
    """Serve groups as soon as the cluster is the right one, and it is known whether it says what clients may do."""
    await claimed.wait()
    await authorizer.known.wait()
    runtime.admit()


def _port_map(listener: Listener) -> PortMap:
    return PortMap(listener.advertised.host, listener.advertised.port, listener.listen.port)


async def _broker_ports(listeners: Listeners, first_view: asyncio.Event) -> None:
    await first_view.wait()
    if listeners.refused:
        raise CannotStart(listeners.refused[0])
