"""The client connections of one listener, all together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Protocol

from shim.counted import counted
from shim.logged_once import LoggedOnce
from shim.metrics import Traffic
from shim.net.budget import RequestBudget
from shim.net.complaints import Complaints
from shim.net.outgoing import Departures
from shim.upstream import UnansweredLinks

log = logging.getLogger(__name__)


class Session(Protocol):
    """One of them."""

    @property
    def node_id(self) -> int | None:
        """The broker whose port the client came to; None for bootstrap."""

    def drain(self) -> None:
        """Take no more requests; close when the ones that have begun are answered."""

    def abort(self) -> None:
        """Close at once; what was written to the client and not sent is lost."""

    def close_silent(self, now: float, idle_seconds: float, unfinished_seconds: float) -> None:
        """Close it if it has been idle, or in the middle of a request, for so long."""


class Sessions:
    """Those that are open; one that the shim has closed is, until its last bytes are sent."""

    def __init__(
        self,
        complaints: Complaints | None = None,
        budget: RequestBudget | None = None,
        strangers: RequestBudget | None = None,
        departures: Departures | None = None,
        traffic: Traffic | None = None,
        unanswered: UnansweredLinks | None = None,
    ) -> None:
        """``budget``: that of all listeners together; ``strangers``: that of clients that have not authenticated, where
        they have to. None: no bound. ``departures`` and ``traffic``: of all listeners, too. ``unanswered``: their
        links to brokers.
        """
        self.traffic = traffic or Traffic()
        self.departures = departures or Departures()
        self.complaints = complaints or Complaints(log)
        self.unreachable = LoggedOnce(log)
        """Brokers that clients cannot be taken to: a line for all of them."""
        self.unanswered = unanswered
        # Not by `or`: one for which nobody waits is false.
        self.budget = RequestBudget(-1) if budget is None else budget
        self.strangers = RequestBudget(-1) if strangers is None else strangers
        self.stands_elsewhere: Callable[[int], bool] = lambda node_id: False
        """Whether clients are to find that broker at another shim."""
        self._open: set[Session] = set()
        self._none_left = asyncio.Event()
        self._draining = False

    def __len__(self) -> int:
        return len(self._open)

    def add(self, session: Session) -> None:
        self._open.add(session)
        self._none_left.clear()
        if self._draining:
            session.drain()

    def discard(self, session: Session) -> None:
        self._open.discard(session)
        if not self._open:
            self._none_left.set()

    def close_silent(self, idle_seconds: float, unfinished_seconds: float) -> None:
        """Look at each one, and close those that have been idle, or in the middle of a request, for so long."""
        now = asyncio.get_running_loop().time()
        for session in list(self._open):
            session.close_silent(now, idle_seconds, unfinished_seconds)

    def lead_away(self, node_ids: Collection[int]) -> None:
        """Close those at these brokers' ports, when the requests taken from them are answered."""
        for session in list(self._open):
            if session.node_id in node_ids:
                session.drain()

    async def drain(self, timeout_seconds: float) -> None:
        """Close each one when the requests taken from it are answered, and wait for that; then cut off the others."""
        self._draining = True
        for session in list(self._open):
            session.drain()
        if self._open:
            try:
                async with asyncio.timeout(timeout_seconds):
                    await self._none_left.wait()
            except TimeoutError:
                log.warning(
                    "%s cut off with requests unanswered or answers unread", counted(len(self._open), "connection")
                )
        self.abort()

    def abort(self) -> None:
        """Cut off all of them."""
        self._draining = True
        for session in list(self._open):
            session.abort()
