"""One offsets partition as the runtime sees it: whether it is served, and who waits for its coordinator."""

from __future__ import annotations

import asyncio

from protocol.errors import ErrorCode
from shim.coordinator import GroupCoordinator
from shim.runtime.failing import Failing
from shim.runtime.flight import Ticket


class Partition:
    """Of one number: its coordinator while there is one, and who waits for that."""

    __slots__ = (
        "_rebalances", "coordinator", "due", "failing", "is_admitted", "is_held", "is_ours", "last", "number", "served",
        "timer", "unavailable", "waiting", "was_forgotten",
    )  # fmt: skip

    def __init__(self, number: int) -> None:
        self.number = number
        # Whether this process is to serve it, and whether it may have it in the log, and has to give it up there.
        self.is_ours = self.is_held = self.was_forgotten = False
        # The one that was loaded, and the same for requests: they reach it from admit on.
        self.coordinator: GroupCoordinator | None = None
        self.served: GroupCoordinator | None = None
        self.is_admitted = False
        # The one that was there at the stop, as long as all that it has decided is in the log or on its way there.
        self.last: GroupCoordinator | None = None
        # What a request gets while it is not served; COORDINATOR_LOAD_IN_PROGRESS, too, between load and admit.
        self.unavailable = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        # Whom the coordinator has been asked for and has not answered: parked requests, and the one being decided.
        self.waiting: dict[object, Ticket] = {}
        self.timer: asyncio.TimerHandle | None = None
        self.due: int | None = None
        self.failing = Failing()
        self._rebalances = 0

    @property
    def why_not(self) -> ErrorCode:
        """NONE where it is served; otherwise what a request gets."""
        return self.unavailable if self.served is None else ErrorCode.NONE

    @property
    def is_to_be_loaded(self) -> bool:
        """Not where it is damaged, or another process has it: then somebody has to say that it is to be tried again."""
        its = self.coordinator, self.unavailable
        return self.is_ours and its == (None, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    @property
    def is_to_be_released(self) -> bool:
        return self.is_held and not self.is_ours

    @property
    def rebalances(self) -> int:
        """Of all coordinators that it has had."""
        return self._rebalances + (self.coordinator.rebalances if self.coordinator is not None else 0)

    def begin(self, coordinator: GroupCoordinator) -> None:
        """It was loaded."""
        self.coordinator = coordinator
        self.served = coordinator if self.is_admitted else None

    def admit(self) -> None:
        """Let requests reach the coordinator, and those that come after it."""
        self.is_admitted = True
        self.served = self.coordinator

    def retire(self, unavailable: ErrorCode) -> list[Ticket]:
        """Have no coordinator any more. Gives those who wait for it, for the caller to fail."""
        if self.coordinator is not None:
            self._rebalances += self.coordinator.rebalances
            self.coordinator.released()
        self.coordinator = self.served = None
        self.unavailable = unavailable
        if self.timer is not None:
            self.timer.cancel()
            self.timer = self.due = None
        waiting, self.waiting = self.waiting, {}
        return list(waiting.values())
