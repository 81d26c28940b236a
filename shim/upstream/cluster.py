"""What the shim knows of the cluster behind it: its brokers, looked up again and again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType

from protocol.messages import metadata
from shim.config import HostPort, Settings
from shim.upstream.errors import AuthenticationFailed, UpstreamError
from shim.upstream.first_answer import NEXT_AFTER_SECONDS, NoneAnswers, first_answer
from shim.upstream.kept_connection import KeptConnections

log = logging.getLogger(__name__)

RETRY_SECONDS = 0.5

PATIENCE_SECONDS = 3.0
"""The longest that a client is kept waiting for a look-up of the shim's own."""

Watcher = Callable[[Mapping[int, HostPort]], Awaitable[None]]


class Cluster:
    """The brokers by node id, as the newest Metadata response to the shim itself named them.

    What a client's connection brings is never believed: the shim connects to these addresses with its own credentials.

    Whoever needs to follow them (the listeners do) registers with :meth:`watch` and is awaited with every view, changed
    or not, so that by the time :meth:`hear` returns a broker's port is open, and what failed is tried again.
    """

    def __init__(
        self, bootstrap: Sequence[HostPort], settings: Settings, patience_seconds: float = PATIENCE_SECONDS
    ) -> None:
        self._patience_seconds = patience_seconds
        self._bootstrap = tuple(bootstrap)
        self._settings = settings
        self._brokers: dict[int, HostPort] = {}
        self._watchers: list[Watcher] = []
        self._connections = KeptConnections(settings)
        self._answered: HostPort | None = None  # who is asked first the next time
        self._refresh_wanted = asyncio.Event()
        self._next_look = asyncio.Event()  # set when the next look-up to begin is over
        self._change = asyncio.Lock()
        self._reachable = True
        self.trouble = ""
        """Why no broker could be reached when they were looked for last; "" where one was."""
        self.looked_up = False
        """Whether the shim's own look-up has succeeded once."""
        self.cluster_id: str | None = None
        """As the newest look-up named it; None from a broker that is too old to say (before 0.10.1)."""

    def take_settings(self, settings: Settings) -> None:
        """A look-up is made at once, and from then on at the new interval."""
        self._settings = settings
        self._refresh_wanted.set()

    @property
    def brokers(self) -> Mapping[int, HostPort]:
        return MappingProxyType(self._brokers)

    @property
    def reachable(self) -> bool:
        """Whether the shim's own newest look-up has succeeded."""
        return self.looked_up and self._reachable

    def address_of(self, node_id: int) -> Sequence[HostPort]:
        """Where to connect for a node's port; empty once the node has left the cluster."""
        return (self._brokers[node_id],) if node_id in self._brokers else ()

    def any_address(self) -> Sequence[HostPort]:
        """Where to connect for the bootstrap port, best first: the brokers in the newest view, then the ones given."""
        return tuple(dict.fromkeys((*self._brokers.values(), *self._bootstrap)))

    def watch(self, watcher: Watcher) -> None:
        self._watchers.append(watcher)

    async def hear(self, seen: Mapping[int, HostPort], *, whole: bool) -> None:
        """A response on a client's connection named these; ``whole`` when it named all there are.

        A node that is new, at another address or missing has the shim look for itself; for a new one that is waited
        for, as the client is about to ask for its port. Whether it is known then is another matter.
        """
        brokers = self._brokers
        new = any(node_id not in brokers for node_id in seen)
        moved = any(brokers.get(node_id, address) != address for node_id, address in seen.items())
        if new or moved or (whole and len(seen) < len(brokers)):
            self._refresh_wanted.set()
        if new:
            looked = self._next_look
            with suppress(TimeoutError):
                async with asyncio.timeout(self._patience_seconds):
                    await looked.wait()
        elif self._change.locked():
            # A node that is known may not have its port yet. Whoever waits here may go away: nothing is done for him.
            async with self._change:
                pass

    async def take(self, brokers: Mapping[int, HostPort]) -> None:
        """These there are: the shim was told so itself."""
        async with self._change:
            await self._replace(dict(brokers))

    async def run(self) -> None:
        """Follow the cluster until cancelled.

        Raises :class:`AuthenticationFailed` where the brokers refuse the shim's credentials before it has ever seen the
        cluster; later it is a failure like any other.
        """
        try:
            while True:
                self._refresh_wanted.clear()
                looked, self._next_look = self._next_look, asyncio.Event()
                try:
                    known = await self._refresh()
                finally:
                    looked.set()
                interval = self._settings.topology_refresh_interval_ms / 1000 if known else RETRY_SECONDS
                try:
                    async with asyncio.timeout(interval):
                        await self._refresh_wanted.wait()
                except TimeoutError:
                    continue
        finally:
            self._connections.close()

    async def _refresh(self) -> bool:
        candidates = self.any_address()
        if self._answered is not None:
            candidates = (self._answered, *candidates)
        try:
            address, answer = await first_answer(candidates, self._ask, NEXT_AFTER_SECONDS)
        except NoneAnswers as error:
            self._connections.close_others(())
            refused = [each for each in error.failures if isinstance(each, AuthenticationFailed)]
            if refused and not self.looked_up:
                raise refused[0] from error
            self._note_reachable(False, str(error))
            return False
        self._answered = address
        self._connections.close_others((address,))
        self._note_reachable(True, str(address))
        self.looked_up, self.cluster_id = True, answer.cluster_id
        await self.take({b.node_id: HostPort(b.host, b.port) for b in answer.brokers})
        return True

    async def _ask(self, address: HostPort) -> tuple[HostPort, metadata.MetadataResponse]:
        answer = await self._connections.to(address).ask(metadata.API, metadata.MetadataRequest(topics=()))
        if not answer.brokers:
            raise UpstreamError(f"{address}: knows no broker yet")
        return address, answer

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
                log.info("cluster reached again, at %s", detail)
            else:
                log.warning("no broker can be reached, trying again every %s s: %s", RETRY_SECONDS, detail)
        self._reachable = reachable
        self.trouble = "" if reachable else detail
