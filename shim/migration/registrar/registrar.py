"""Has the cluster stand in a ZooKeeper, for consumers that look for it there (`compat/registration.py`)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import Final

from compat.registration import (
    Change,
    Kind,
    Partitions,
    Registration,
    TopicZnodes,
    broker_value,
    differences,
    partitions_of,
    portions,
    topic_znodes,
)
from shim.config import HostPort
from shim.logged_once import LoggedOnce
from shim.migration.registrar.claim import Claim, HeldByAnother, NotOurs, still_stands, take_claim
from shim.migration.registrar.read_back import has_names_of, read_registration
from shim.migration.registrar.topic_list import TopicList
from shim.offsets.zookeeper.ensemble import Ensemble
from shim.offsets.zookeeper.znodes import Create, Delete, EnsembleError, Operation, SessionEvent, Set
from shim.upstream import ClientPorts, Cluster, UpstreamError

log = logging.getLogger(__name__)

_START_SECONDS: Final = 3.0
"""The longest wait for the first connection, each time."""

_SHARE_OF_A_REQUEST: Final = 4
"""A transaction has that part of what ZooKeeper takes in one request: it holds up all others while it is done."""

_NOT_REGISTERED: Final = "the cluster is not registered in ZooKeeper, or not as it is,"
_STANDING_BY: Final = "standing by as registrar"
_STAY: Final = "topics stay registered as they were"


class Registrar:
    """``ports``: of the listener that is registered. ``who``: as :func:`take_claim` has it.

    It looks once for each :meth:`heard`, and when there is a new session, its old ephemeral znodes being gone.
    """

    def __init__(
        self, ensemble: Ensemble, cluster: Cluster, topic_list: TopicList, ports: ClientPorts, who: str
    ) -> None:
        self._ensemble = ensemble
        self._cluster = cluster
        self._topic_list = topic_list
        self._ports = ports
        self._who = who
        self._since_ms = time.time_ns() // 1_000_000
        self._trouble = LoggedOnce(log)
        self._started = False
        self._look_wanted = asyncio.Event()
        self._brokers: Mapping[int, HostPort] = {}
        self._topics: Mapping[str, Partitions] = {}
        self._topics_known = False
        self._made: dict[str, tuple[Partitions, TopicZnodes]] = {}
        self._claim: Claim | None = None
        self._there: Registration | None = None
        self._registered = False
        self.tried = asyncio.Event()
        """Set once it has looked for the first time, whatever came of it."""
        self.refused: str | None = None
        """Why it may not write there, in a line."""
        ensemble.watch_session(self._session_changed)

    def heard(self, brokers: Mapping[int, HostPort]) -> None:
        """These there are, and their ports are open."""
        self._brokers = brokers
        self._look_wanted.set()

    async def run(self) -> None:
        """Keep the znodes true until cancelled."""
        while True:
            await self._look_wanted.wait()
            self._look_wanted.clear()
            try:
                await self._look()
            except NotOurs as error:
                self.refused = str(error)
                self._failed(_NOT_REGISTERED, error)
            except HeldByAnother as error:
                self._failed(_STANDING_BY, error)
            except (EnsembleError, UpstreamError) as error:
                self._there = None  # nobody knows what was done
                self._failed(_NOT_REGISTERED, error)
            else:
                self.refused = None
                self._went_well()
            finally:
                self.tried.set()

    async def close(self) -> None:
        """End the session, and with it the brokers' entries."""
        self._topic_list.close()
        await self._ensemble.close()

    async def _look(self) -> None:
        if not self._started:
            await self._ensemble.start(_START_SECONDS, make_chroot=True)
            self._started = True
        if self._claim is None or not await still_stands(self._ensemble, self._claim):
            self._claim = self._there = None
            cluster_id = self._cluster.cluster_id
            if cluster_id is None:
                raise NotOurs(
                    "brokers before 0.10.1 do not say which cluster they are, and have a ZooKeeper themselves"
                )
            self._claim = await take_claim(self._ensemble, cluster_id, self._who)
        if self._there is None or not await has_names_of(self._ensemble, self._there):
            self._there = await read_registration(self._ensemble, self._claim.session_id)
            # What was registered before this shim began is not gone because the first broker asked does not know it.
            left = {topic: partitions_of(znodes) for topic, znodes in self._there.topics.items()}
            self._topics = {topic: each for topic, each in left.items() if each is not None} | dict(self._topics)
        await self._look_at_topics()
        there, wanted = self._there, self._wanted()
        for portion in portions(differences(there, wanted), self._ensemble.jute_maxbuffer // _SHARE_OF_A_REQUEST):
            self._there = None  # until all of it is done
            await self._ensemble.multi([*self._claim.conditions, *map(_operation, portion)])
        self._there = wanted

    async def _look_at_topics(self) -> None:
        """Where no broker says, the topics stay what they were: brokers are registered anew all the same."""
        try:
            self._topics = await self._topic_list.look(self._topics)
        except UpstreamError as error:
            if not self._topics_known:
                raise
            self._trouble.failed(_STAY, error)
        else:
            self._topics_known = True
            self._trouble.went_well(_STAY)

    def _wanted(self) -> Registration:
        made, self._made = self._made, {}
        for topic, partitions in self._topics.items():
            before = made.get(topic)
            if before is None or before[0] != partitions:
                before = partitions, topic_znodes(partitions)
            self._made[topic] = before
        # A broker that no port can stand for has none: clients are not told of it either.
        addresses = {each: self._ports.of(each) for each in self._brokers if self._ports.has(each)}
        return Registration(
            {each: broker_value(at.host, at.port, self._since_ms) for each, at in addresses.items()},
            {topic: znodes for topic, (_, znodes) in self._made.items()},
        )

    def _failed(self, what: str, error: Exception) -> None:
        self._registered = False
        self._trouble.failed(what, error)

    def _went_well(self) -> None:
        for what in (_NOT_REGISTERED, _STANDING_BY):
            self._trouble.went_well(what)
        if not self._registered and self._there is not None:
            brokers, topics = len(self._there.brokers), len(self._there.topics)
            log.info("registered in ZooKeeper at %s: brokers %d, topics %d", self._ensemble.connect, brokers, topics)
        self._registered = True

    def _session_changed(self, event: SessionEvent) -> None:
        if event is SessionEvent.CONNECTED:
            self._look_wanted.set()


def _operation(change: Change) -> Operation:
    if change.kind is Kind.SET:
        return Set(change.path, change.data)
    if change.kind is Kind.DELETE:
        return Delete(change.path)
    return Create(change.path, change.data, ephemeral=change.kind is Kind.CREATE_EPHEMERAL)
