"""What the log has and another store is yet to have: brought there group by group, until it is."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final

from shim.offsets.lane import Lane
from shim.offsets.store import StoreError, StoreUnavailable

log = logging.getLogger(__name__)

_AT_ONCE: Final = 16  # groups that are fed at the same time


class Outbox:
    """Feeds one store. What the log has of a group when its turn begins is what the store has at the end of it, so that
    many changes are one write. Of a group there is never more than one turn at a time; one that fails is taken again
    until none does. Where the log is at is all that has to be known for it, and after a crash too.

    For the event loop. ``feed`` brings the store to what the log has of a group, and raises :class:`StoreError`.
    ``title`` names the store in messages.
    """

    def __init__(self, title: str, feed: Callable[[str], Awaitable[None]]) -> None:
        self._title = title
        self._feed = feed
        self._lanes: dict[str, Lane] = {}
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._failing = Counter[str]()
        self._closed = False

    def touch(self, group: str, since: float | None = None) -> None:
        """Something of the group has changed: it gets a turn. ``since``: when that was, of time.monotonic(); None for
        now. Nothing happens after :meth:`close`."""
        if not self._closed:
            self._lane(group).touch(since)

    async def fed(self, group: str) -> None:
        """Wait until the store has what the log has by now. Raises :class:`StoreError`, of the first turn that begins
        from here on: it is tried again, but nobody is told of that."""
        if self._closed:
            raise StoreUnavailable(f"{self._title}: the shim stops")
        await self._lane(group).fed()

    def __iter__(self) -> Iterator[str]:
        """Groups with turns that are to come, or under way."""
        return iter(self._lanes)

    def hasten(self, group: str) -> None:
        """Somebody waits for what has failed: it is tried again at once."""
        lane = self._lanes.get(group)
        if lane is not None:
            lane.hasten()

    def lag_seconds(self, group: str) -> float | None:
        """Since when the oldest change of the group waits, or is on its way; None where there is none."""
        lane = self._lanes.get(group)
        return None if lane is None or lane.since is None else time.monotonic() - lane.since

    def why(self, group: str) -> str:
        """What the last turn of the group has failed of; "" where it has not."""
        lane = self._lanes.get(group)
        return "" if lane is None else lane.why

    @property
    def lagging(self) -> int:
        """Groups with changes that wait, or are on their way."""
        return sum(lane.since is not None for lane in self._lanes.values())

    @property
    def longest_lag_seconds(self) -> float:
        """Of all groups; 0 where nothing waits."""
        oldest = min((since for lane in self._lanes.values() if (since := lane.since) is not None), default=None)
        return 0.0 if oldest is None else time.monotonic() - oldest

    @asynccontextmanager
    async def alone(self, group: str) -> AsyncIterator[None]:
        """No turn of the group is under way, or begins, meanwhile."""
        async with self._lane(group).alone():
            yield

    def left(self) -> dict[str, list[str]]:
        """Groups with changes that are not there, by what is in the way; "" where nothing has failed."""
        found: dict[str, list[str]] = {}
        for group, lane in self._lanes.items():
            if lane.since is not None:
                found.setdefault(lane.why, []).append(group)
        return found

    def forget(self, group: str) -> None:
        """The store is not to have the group any more. Whoever waits is told :class:`StoreUnavailable`. A turn that is
        under way is broken off, and whether it has written anything nobody knows; :meth:`alone` waits for its end."""
        lane = self._lanes.get(group)
        if lane is not None:
            lane.give_up()

    async def drained(self) -> None:
        """Wait until the store has all that waits for a turn by now; what fails is told as ever, and tried once."""
        waiting = [group for group, lane in self._lanes.items() if lane.since is not None]
        await asyncio.gather(*map(self._fed_or_told, waiting))

    async def _fed_or_told(self, group: str) -> None:
        with suppress(StoreError):  # it is told by the lane
            await self.fed(group)

    def close(self) -> None:
        self._closed = True
        for group in list(self._lanes):
            self.forget(group)

    def _lane(self, group: str) -> Lane:
        lane = self._lanes.get(group)
        if lane is None:
            # It stays until its last turn has ended, whatever comes in between: a second one would not know of that.
            lane = self._lanes[group] = Lane(group, self._take_turn, self._said, partial(self._over, group))
        return lane

    def _over(self, group: str) -> None:
        self._lanes.pop(group, None)

    def _said(self, before: str, now: str | None) -> None:
        """A line for each kind of trouble, however many groups have it, and not again while any of them has. That the
        last one is given up, as at a stop, does not make the store well."""
        if before:
            self._failing[before] -= 1
            if not self._failing[before]:
                del self._failing[before]
                if not self._failing and now == "":
                    log.info("%s are kept up again", self._title)
        if now:
            self._failing[now] += 1
            if self._failing[now] == 1:
                log.warning("%s cannot be kept up for now: %s", self._title, now)

    async def _take_turn(self, group: str) -> None:
        async with self._turns:
            await self._feed(group)
