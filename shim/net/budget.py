"""``queued.max.request.bytes``: room for the requests that the shim collects and answers itself, of all connections.

Pure. Kafka's broker has such a pool, unbounded unless it is set, and takes memory of it once a request's size is known
(KIP-72). So here: who announces more than ``SMALL`` bytes waits for room before the first of them is kept, in the order
of arrival. Smaller ones do not wait, so that heartbeats and plain commits go on while others have all the room.
"""

from __future__ import annotations

from typing import Final, Protocol

STRANGERS_SHARE: Final = 8
"""Clients that have not authenticated, where they have to, have an eighth of such room to themselves, beside it: nobody
keeps out those whom the brokers know by announcing what never comes."""

SMALL: Final = 4096
"""Bytes of a request that needs no room. A connection has at most so many of them unanswered as it may have at all."""


class Waiter(Protocol):
    """A connection that waits for room."""

    def has_room(self) -> None:
        """It has now, for what it asked for."""


class RequestBudget:
    """A request larger than all of it is taken when no other is there."""

    def __init__(self, most: int) -> None:
        """``most``: bytes; none or less: no bound, as in Kafka."""
        self.taken = 0
        self._most = most
        self._waiting: dict[Waiter, int] = {}

    def for_strangers(self) -> RequestBudget:
        """A new one, beside this one."""
        return RequestBudget(max(1, self._most // STRANGERS_SHARE) if self._most > 0 else self._most)

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def take(self, size: int, waiter: Waiter) -> bool:
        """Take room. False: there is none, or others were first; ``waiter`` is told when it has been taken for it."""
        if self._waiting or not self._has(size):
            self._waiting[waiter] = size
            return False
        self.taken += size
        return True

    def take_anyway(self, size: int) -> None:
        """For what is there already."""
        self.taken += size

    def give_back(self, size: int) -> None:
        self.taken -= size
        self._grant()

    def withdraw(self, waiter: Waiter) -> None:
        """It does not wait any more, if it did."""
        if self._waiting.pop(waiter, None) is not None:
            self._grant()

    def _has(self, size: int) -> bool:
        return self._most <= 0 or not self.taken or self.taken + size <= self._most

    def _grant(self) -> None:
        while self._waiting:
            waiter, size = next(iter(self._waiting.items()))
            if not self._has(size):
                return
            del self._waiting[waiter]
            self.taken += size
            waiter.has_room()
