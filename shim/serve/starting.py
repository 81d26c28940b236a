"""From the first port that is open to when every group is served."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from shim.config import HostPort
from shim.forwarding.between import CannotBeReached
from shim.given import Given
from shim.net import CannotListen, leads_to
from shim.serve.errors import CannotStart
from shim.serve.log_on_disk import claim, load, note_chroot
from shim.serve.parts import Parts
from shim.serve.zookeeper import begin_session, look_for_groups, registered, warn_of_zookeeper


class Start:
    """For the event loop."""

    def __init__(self, parts: Parts, given: Given) -> None:
        self._parts = parts
        self.data_dir = given.data_dir
        self._bootstrap = given.bootstrap
        self._listening = [each.listen for each in given.listening]
        self._registrar_waits = given.registrar
        self._first_view = asyncio.Event()
        self._session_tried, self._session_begun = asyncio.Event(), asyncio.Event()
        if parts.zookeeper is None:
            self._session_tried.set()
        parts.cluster.watch(self._follow)

    async def open(self) -> None:
        """Clients come in from here on. They are told COORDINATOR_LOAD_IN_PROGRESS until the cluster is known to be
        the right one, whether it has an authorizer is known too, and their partition is loaded.

        Raises :class:`CannotStart`.
        """
        if (own := await leads_to(self._bootstrap, self._listening)) is not None:
            raise CannotStart(
                f"{own[0]} of --bootstrap-servers is where this shim listens itself ({own[1]}): name the brokers"
            )
        try:
            await self._parts.listeners.open()
            if self._parts.between is not None:
                await self._parts.between.open()
        except (CannotListen, CannotBeReached) as error:
            raise CannotStart(str(error)) from error

    async def complete(self) -> None:
        """Until all is there, beside what has to go on for that. Raises :class:`CannotStart`."""
        await asyncio.gather(
            load(self._parts.runtime, self.data_dir),
            self._broker_ports(),
            self._admit(),
            registered(self._parts.registrar),
            self._session_tried.wait(),
        )
        if self._parts.zookeeper is None:
            warn_of_zookeeper(self._parts.runtime)

    async def hold_session(self) -> None:
        """With ZooKeeper, which there has to be. Raises :class:`CannotStart`."""
        assert self._parts.zookeeper is not None
        ensemble = self._parts.zookeeper.ensemble
        await begin_session(ensemble, self._session_tried, self._session_begun, waits=self._registrar_waits)

    async def look_for_groups(self) -> None:
        """In ZooKeeper, which there has to be; from then on another chroot is a mistake."""
        assert self._parts.zookeeper is not None
        connect = self._parts.zookeeper.connect

        async def found() -> None:
            await note_chroot(self._parts.data_dir, connect, self._parts.claimed)

        await look_for_groups(self._parts.lookup, self._session_begun, found, connect)

    async def _follow(self, brokers: Mapping[int, HostPort]) -> None:
        cluster, zookeeper = self._parts.cluster, self._parts.zookeeper
        if cluster.looked_up:
            # Before anybody is served: the offsets may be of another cluster.
            claim(self._parts.data_dir, cluster, zookeeper and zookeeper.connect)
            self._parts.claimed.set()
        await self._parts.listeners.follow(brokers)
        if cluster.looked_up:
            self._first_view.set()
            if self._parts.registrar is not None:
                self._parts.registrar.heard(brokers)

    async def _broker_ports(self) -> None:
        await self._first_view.wait()
        if self._parts.listeners.refused:
            raise CannotStart(self._parts.listeners.refused[0])

    async def _admit(self) -> None:
        """Serve groups as soon as the cluster is the right one, and it is known whether it says what clients may do."""
        await self._parts.claimed.wait()
        await self._parts.authorizer.known.wait()
        self._parts.runtime.admit()
