"""The parts of one shim, wired together: each is given what it works with, and nothing goes on yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Self

from protocol.own.shim_group import ListenerAddress
from protocol.partition import OFFSETS_TOPIC
from shim.api import OFFERED, EntrustedRequests, Services
from shim.api.topics_elsewhere import TopicsElsewhere
from shim.config import HostPort, Settings
from shim.following import Lags, Topics, TransactionFollower
from shim.forwarding.between import Between
from shim.forwarding.between_shims import between_shims
from shim.given import Given
from shim.groups.groups import Groups
from shim.kafka_log.topics.wanted import TopicsWanted
from shim.listener_config import SHIMS, Listener
from shim.log.directory.places import PLACES_NAME
from shim.migration.dual.dual_commit import DualCommit
from shim.migration.dual.lookup import Lookup
from shim.migration.feeding import Feeding
from shim.migration.hands.first_contact import FirstContact
from shim.migration.hands.placements import Placements
from shim.migration.migration import Migration
from shim.migration.mirror.guard import Guard
from shim.migration.mirror.mirror import Mirror
from shim.migration.registrar.registrar import Registrar
from shim.migration.registrar.topic_list import TopicList
from shim.migration.stores import Stores
from shim.net import Departures, Limits, Listeners
from shim.offsets.cluster.groups import ClusterGroups
from shim.offsets.cluster.kept_brokers import KeptBrokers
from shim.offsets.zookeeper.ensemble import Ensemble
from shim.offsets.zookeeper.offsets import ZooKeeperOffsets
from shim.ownership.shared_ports import SharedPorts
from shim.ownership.sharing import Sharing
from shim.runtime import Clock, OffsetsRetention, Runtime
from shim.security.authorizer import Authorizer
from shim.serve.log_on_disk import LAST_WRITE_SECONDS, Opened
from shim.serve.logs import logs_of
from shim.serve.loop_delay import LoopDelay
from shim.serve.measuring import Measured, Measuring
from shim.serve.overview import Whole
from shim.serve.reloading import TakesSettings
from shim.serve.tls_files import TO_SHIMS
from shim.serve.zookeeper import ensemble_at, own_name, registered_listener
from shim.tls import TlsContext
from shim.upstream import ClientPorts, Cluster, ClusterTopics, LogEnds, PortMap, TopicReader, before_each_turn
from shim.workers.at_parent import Worker
from shim.workers.between_workers import between_workers

_LOOK_PATIENCE_SECONDS: Final = 3.0
"""How long a client that opens a group waits for what passes by itself at the brokers, before it is told to ask
again."""


class BesideZooKeeper(NamedTuple):
    """``connect``: a connect string."""

    connect: str
    ensemble: Ensemble
    dual_commit: DualCommit

    @classmethod
    def of(cls, connect: str, runtime: Runtime, settings: Settings) -> Self:
        ensemble = ensemble_at(connect, settings)
        return cls(connect, ensemble, DualCommit(runtime, ZooKeeperOffsets(ensemble), ensemble))


class Parts:
    """Of a shim whose data directory is open. ``zookeeper`` and ``registrar``: None where they are not wanted.
    ``claimed`` is set when the offsets are known to be this cluster's.

    For the event loop.
    """

    def __init__(
        self,
        given: Given,
        opened: Opened,
        limits: Limits,
        contexts: Mapping[str, TlsContext],
        worker: Worker | None = None,
    ) -> None:
        """``contexts``: by the names of the listeners that have TLS. ``worker``: where others have the rest of the log.
        Raises :class:`CannotStart`."""
        settings = given.settings
        clock, departures = Clock(), Departures()
        self.cluster = cluster = Cluster(given.bootstrap, settings)

        # The log, and whose it is.
        self.data_dir = opened.data_dir
        self.claimed = asyncio.Event()
        logs = logs_of(opened, cluster, settings, clock, self.claimed)
        self.runtime = runtime = Runtime(logs.backend, settings, clock, answered=departures.send)
        if logs.local is not None:
            before_each_turn(logs.local.writes.give_way)
        self.relocation = logs.relocation(runtime)
        self.retention = OffsetsRetention(runtime, settings, clock)
        self.sharing = None
        if worker is not None:
            runtime.own(list(filter(worker.share.has, range(runtime.num_partitions))))
        elif runtime.is_among_shims:
            addresses = [ListenerAddress(each.name, *each.advertised) for each in given.listening]
            if given.shims_listener is not None:
                addresses.append(ListenerAddress(SHIMS, *given.shims_listener.address))
            self.sharing = Sharing(cluster, settings, runtime, str(given.listening[0].advertised), addresses)

        # What is in front of the brokers, and what the shim itself asks of them.
        self.transactions = TransactionFollower(runtime, TopicReader(cluster, settings, OFFSETS_TOPIC))
        self._cluster_topics = ClusterTopics(cluster, settings)
        self.topics = Topics(self._cluster_topics, settings)
        self.authorizer = Authorizer(cluster, settings)
        # Clients wait for what is asked here, and not for what is copied or looked at.
        asked, copied, looked_at = (KeptBrokers(cluster, settings) for _ in range(3))
        self._kept_brokers = asked, copied, looked_at
        cluster_groups = ClusterGroups(asked)

        # Where groups and their offsets are, and how they move.
        self.mirror = Mirror(runtime, ClusterGroups(copied, 0.0), settings, self.topics.blocked)
        self.guard = Guard(runtime, cluster_groups, self.mirror)
        self.zookeeper = BesideZooKeeper.of(given.zookeeper, runtime, settings) if given.zookeeper else None
        dual_commit = self.zookeeper.dual_commit if self.zookeeper else None
        stores = Stores(runtime, self.mirror, dual_commit)
        self.feeding = Feeding(runtime, self.mirror, dual_commit)
        self.lookup = Lookup(None if dual_commit is None else dual_commit.store)
        passed_by = self.transactions.passed_by
        patient = ClusterGroups(asked, _LOOK_PATIENCE_SECONDS)
        placements = Placements(runtime)
        self.first_contact = FirstContact(runtime, placements, patient, settings, passed_by, self.lookup)
        self.migration = Migration(
            runtime=runtime,
            cluster_groups=cluster_groups,
            first_contact=self.first_contact,
            placements=placements,
            stores=stores,
            lookup=self.lookup,
            guard=self.guard,
            settings=settings,
            followed=passed_by,
            uncertain=self.topics.uncertain,
            clock=clock,
        )
        self.groups = Groups(
            runtime=runtime,
            history_log=logs.history,
            clock=clock,
            first_contact=self.first_contact,
            placements=placements,
            stores=stores,
            cluster_groups=cluster_groups,
            brokers=asked,
            topics=self._cluster_topics,
        )
        self.registrar = self._registrar(given) if given.registrar else None

        # Other shims, or workers of this one.
        self.between = self._between(given, contexts, worker)
        peers = None if self.between is None else self.between.peers
        elsewhere = None if peers is None else TopicsElsewhere(peers, runtime.num_partitions)

        # What operators see.
        self._ends = LogEnds(looked_at, settings.metrics_lag_interval_ms / 1000)
        self.loop_delay = LoopDelay()
        lags = Lags(runtime, self._ends, settings)
        forwarding = None if peers is None else peers.counts
        measured = Measured(
            runtime, cluster, limits, lags, self.mirror, self.guard, dual_commit, self.loop_delay, forwarding
        )
        self.measuring = Measuring(measured)
        others: Callable[[], Sequence[str]] = tuple if self.sharing is None else self.sharing.other_owners
        log_moves = (opened.data_dir.path / PLACES_NAME).exists()
        self.whole = Whole(runtime, cluster, settings, given.listening, given.zookeeper, others, log_moves=log_moves)

        # What clients meet.
        services = [
            Services(
                runtime=runtime,
                cluster=cluster,
                ports=self._ports(each),
                offered=OFFERED,
                transactions=self.transactions,
                topics=self.topics,
                authorizer=self.authorizer,
                first_contact=self.first_contact,
                placements=placements,
                stores=stores,
                peers=peers,
                others=() if self.between is None else self.between.others,
                elsewhere=elsewhere,
            )
            for each in given.listening
        ]
        self.listeners = Listeners(
            [(each, its, contexts.get(each.name)) for each, its in zip(given.listening, services, strict=True)],
            limits,
            departures,
        )
        if self.between is not None:
            self.between.serve(self._entrusted(given, services[0], limits, worker).accept)
        if self.sharing is not None:
            self.sharing.lead_away = self.listeners.lead_away
            self.listeners.know_others(self.sharing.stands_elsewhere)

    @property
    def reloadable(self) -> Sequence[TakesSettings]:
        """All that go by settings which may change."""
        return [part for part in vars(self).values() if isinstance(part, TakesSettings)]

    def _registrar(self, given: Given) -> Registrar:
        assert given.zookeeper is not None  # or it would not have been given
        return Registrar(
            ensemble_at(given.zookeeper, given.settings),
            self.cluster,
            TopicList(
                self.cluster,
                self._cluster_topics,
                given.settings,
                TopicsWanted.of(given.settings).names,
            ),
            self._ports(registered_listener(given.listening)),
            own_name(given.data_dir),
        )

    def _between(self, given: Given, contexts: Mapping[str, TlsContext], worker: Worker | None) -> Between | None:
        if worker is not None:
            return between_workers(self.data_dir.path, worker.share, given.settings)
        sharing, listener = self.sharing, given.shims_listener
        if sharing is None or listener is None:
            return None

        def owner_of(partition: int) -> HostPort | None:
            return sharing.peer_of(partition, SHIMS)

        tls, tls_to_others = contexts.get(SHIMS), contexts.get(TO_SHIMS)
        return between_shims(owner_of, self.cluster, given.settings, listener, tls, tls_to_others)

    def _entrusted(self, given: Given, services: Services, limits: Limits, worker: Worker | None) -> EntrustedRequests:
        counts = limits.traffic.answers
        if worker is not None:
            return EntrustedRequests.of_workers(services, counts)
        assert given.shims_listener is not None, "others connect there"
        return EntrustedRequests.of_shims(services, counts, are_known=bool(given.shims_listener.principals))

    async def _close_log(self) -> None:
        if self.relocation is not None:
            await self.relocation.close()
        try:
            await self.runtime.close(LAST_WRITE_SECONDS, self._leave)
        finally:
            await self._leave()

    async def _leave(self) -> None:
        """Others may have what was served here."""
        if self.sharing is not None:
            await self.sharing.leave()

    def _ports(self, listener: Listener) -> ClientPorts:
        ports = PortMap(listener.advertised.host, listener.advertised.port, listener.listen.port)
        return ports if self.sharing is None else SharedPorts(ports, listener.name, self.sharing)

    async def close(self) -> None:
        """What goes on in them has ended. Raises TimeoutError where the disk does not let go."""
        before_each_turn(None)
        if self.between is not None:
            self.between.close()
        self.feeding.close()
        self.groups.close()
        self._cluster_topics.close()
        self._ends.close()
        for each in self._kept_brokers:
            each.close()
        sessions = [each.close() for each in (self.registrar, self.zookeeper and self.zookeeper.ensemble) if each]
        # A ZooKeeper that hangs takes its time, and keeps nobody from the last snapshots.
        await asyncio.gather(self._close_log(), *sessions)
        self.data_dir.close()  # the last thing
