"""The answers of one client connection, each in its place: how many requests may wait for theirs, and for how long they
have."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial

from shim.net.intake import Intake, Stop
from shim.net.order import ResponseQueue, Slot
from shim.net.room import Room

# Responses that may wait on one connection before the shim takes no more requests from it.
MAX_PENDING = 1024


class Answers:
    """Those of the shim itself, in the queue in which the broker's are, too."""

    __slots__ = ("_closed", "_intake", "_queue", "_room", "_taken", "_went_on", "are_watched", "newest")

    def __init__(self, queue: ResponseQueue, room: Room, intake: Intake, went_on: Callable[[], None]) -> None:
        """``went_on`` is called when one has left for which something may have waited: requests that were not taken, or
        all of it while :attr:`are_watched`."""
        self._queue = queue
        self._room = room
        self._intake = intake
        self._went_on = went_on
        self._closed = False
        self._taken: asyncio.Future[None] | None = None
        self.are_watched = False
        self.newest: Slot | None = None
        """The one that :meth:`place` has made last."""

    def reserve(self, count: int) -> Slot:
        slot = self._queue.reserve(count)
        if self._queue.pending >= MAX_PENDING:
            self._intake.stop(Stop.TOO_MANY)
        return slot

    def place(self, count: int) -> Callable[[bytes], None]:
        """The next place, of so many answers; gives what their frames are to be handed to."""
        self.newest = self.reserve(count)
        return partial(self.fill, self.newest)

    def fill(self, slot: Slot, frame: bytes) -> None:
        if not self._closed:
            if slot.held:
                self._room.let_go(slot)
            if slot.latency is not None:
                measure(slot)
            self._queue.fill(slot, frame)
            if self._intake.stops or self.are_watched:
                self._went_on()

    def look(self) -> None:
        """Whatever waits for answers to leave may go on, if enough have."""
        if self._intake.stops & Stop.TOO_MANY and self._queue.pending <= MAX_PENDING // 2:
            self._intake.resume(Stop.TOO_MANY)
        if self._taken is not None and self._all_taken:
            self._taken.set_result(None)
            self._taken = None

    async def taken(self) -> None:
        """Wait until the client has taken all, but for what its transport may hold."""
        if not self._all_taken:
            self._taken = asyncio.get_running_loop().create_future()
            await self._taken

    @property
    def _all_taken(self) -> bool:
        return not self._queue.pending and not self._intake.stops & Stop.CLIENT_FULL

    def close(self) -> None:
        """What still comes goes nowhere, and nothing is called any more, nor kept that was to be."""
        self._closed = True
        self._went_on = lambda: None


def measure(slot: Slot) -> None:
    """How long its requests have taken, where that counts."""
    if slot.latency is not None:
        slot.latency.observe(time.monotonic() - slot.begun, slot.count)
