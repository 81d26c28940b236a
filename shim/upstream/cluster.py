"""What the shim knows of the cluster behind it: its brokers, looked up again and again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType

from protocol.messages import metadata
from shim.config import HostPort, Settings
from shim.upstream.connection import BrokerConnection
from shim.upstream.errors import UpstreamError

log = logging.getLogger(__name__)

RETRY_SECONDS = 0.5

Watcher = Callable[[Mapping[int, HostPort]], Awaitable[None]]


class Cluster:
    """The brokers by node id, as the newest Metadata response named them.

    Whoever needs to follow them (the listeners do) registers with :meth:`watch` and is awaited with every view, changed
    or not, so that by the time :meth:`learn` returns a broker's port is open, and what failed is tried again.
    """

    def __init__(self, bootstrap: Sequence[HostPort], settings: Settings) -> None:
        self._bootstrap = tuple(bootstrap)
        self._settings = settings
        self._brokers: dict[int, HostPort] = {}
        self._watchers: list[Watcher] = []
        self._connection: BrokerConnection | None = None
        self._refresh_wanted = asyncio.Event()
        self._change = asyncio.Lock()
        self._reachable = True
        self.looked_up = False
        """Whether the shim's own look-up has succeeded once; :meth:`learn` alone does not count."""
        self.cluster_id: str | None = None
        """As the newest look-up named it; None from a broker that is too old to say (before 0.10.1)."""

    @property
    def brokers(self) -> Mapping[int, HostPort]:
        return MappingProxyType(self._brokers)

    def address_of(self, node_id: int) -> Sequence[HostPort]:
        """Where to connect for a node's port; empty once the node has left the cluster."""
        return (self._brokers[node_id],) if node_id in self._brokers else ()

    def any_address(self) -> Sequence[HostPort]:
        """Where to connect for the bootstrap port, best first: the brokers in the newest view, then the ones given."""
        return tuple(dict.fromkeys((*self._brokers.values(), *self._bootstrap)))

    def watch(self, watcher: Watcher) -> None:
        self._watchers.append(watcher)

    async def learn(self, seen: Mapping[int, HostPort], *, whole: bool) -> None:
        """Take in brokers that a client's response named; ``whole`` when it named all there are.

        A node that is new is believed at once: the client is about to ask for its port. A known node at another
        address, or one that is missing, may be a stale view of the broker that answered: the shim asks for itself.
        """
        # Whoever asks may be cancelled: it is a client that goes away. The ports that are being opened are everybody's.
        await asyncio.shield(self._learn(seen, whole))

    async def _learn(self, seen: Mapping[int, HostPort], whole: bool) -> None:
        # All under the lock: what others learn meanwhile is kept, and a node that they brought has its port by the end.
        async with self._change:
            new = {node_id: address for node_id, address in seen.items() if node_id not in self._brokers}
            moved = any(self._brokers.get(node_id, address) != address for node_id, address in seen.items())
            if new or moved or (whole and len(seen) < len(self._brokers)):
                self._refresh_wanted.set()
            if new:
                await self._replace({**self._brokers, **new})

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        try:
            while True:
                known = await self._refresh()
                interval = self._settings.topology_refresh_interval_ms / 1000 if known else RETRY_SECONDS
                try:
                    async with asyncio.timeout(interval):
                        await self._refresh_wanted.wait()
                except TimeoutError:
                    continue
                self._refresh_wanted.clear()
        finally:
            self._disconnect()

    async def _refresh(self) -> bool:
        failures = []
        candidates = self.any_address()
        if self._connection is not None:
            candidates = (self._connection.address, *candidates)
        for address in dict.fromkeys(candidates):
            try:
                if self._connection is None or self._connection.address != address:
                    self._disconnect()
                    self._connection = BrokerConnection(address, self._settings)
                    await self._connection.open()
                answer = await self._connection.ask(metadata.API, metadata.MetadataRequest(topics=()))
            except UpstreamError as error:
                self._disconnect()
                failures.append(str(error))
                continue
            if answer.brokers:
                self._note_reachable(True, str(address))
                self.looked_up, self.cluster_id = True, answer.cluster_id
                async with self._change:
                    await self._replace({b.node_id: HostPort(b.host, b.port) for b in answer.brokers})
                return True
            failures.append(f"{address}: knows no broker yet")
        self._note_reachable(False, "; ".join(failures))
        return False

    async def _replace(self, brokers: dict[int, HostPort]) -> None:
        """To be called under the lock."""
        if brokers != self._brokers:
            log.info("cluster brokers: %s", ", ".join(f"{i} at {brokers[i]}" for i in sorted(brokers)))
            self._brokers = brokers
        for watcher in self._watchers:
            await watcher(MappingProxyType(brokers))

    def _note_reachable(self, reachable: bool, detail: str) -> None:
        if reachable != self._reachable:
            if reachable:
                log.warning("cluster reached again, at %s", detail)
            else:
                log.warning("no broker can be reached, trying again every %s s: %s", RETRY_SECONDS, detail)
        self._reachable = reachable

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
