"""One connection's part of the budget for requests that the shim answers itself."""

from __future__ import annotations

from collections.abc import Callable

from shim.net.budget import SMALL, RequestBudget
from shim.net.order import Slot


class Room:
    """Of the request that was admitted last and has not come, and of all that came and are unanswered."""

    __slots__ = ("_admitted", "_budget", "_held", "_wait", "_wait_is_over", "_waits")

    def __init__(self, budget: RequestBudget, wait: Callable[[], None], wait_is_over: Callable[[], None]) -> None:
        """``wait``: no request can be taken for now."""
        self._budget = budget
        self._wait = wait
        self._wait_is_over = wait_is_over
        self._waits = False
        self._admitted = 0
        self._held = 0

    def admit(self, size: int) -> bool:
        """Whether there is room for a request of so many bytes; asked again for the same one, it takes no more."""
        if not self._admitted:
            self._admitted = size
            if not self._budget.take(size, self):
                self._waits = True
                self._wait()
        return not self._waits

    def has_room(self) -> None:
        """The budget has taken what was asked for."""
        self._waits = False
        self._wait_is_over()

    def came(self, slot: Slot) -> None:
        """The request that was admitted, if one was, has come, and ``slot`` is its answer's."""
        if self._admitted:
            self._hold(slot, self._admitted)
            self._admitted = 0

    def passed(self) -> None:
        """It has come, and is not kept."""
        admitted, self._admitted = self._admitted, 0
        if admitted:
            self._budget.give_back(admitted)

    def several_came(self, slot: Slot | None, size: int, count: int) -> None:
        """So many came at once, with so many bytes, and ``slot`` is of them all; None where they are answered.

        Those behind the first one nobody asked about; where they are large they count all the same.
        """
        if slot is None:
            self.passed()
        elif self._admitted or size > SMALL * count:
            self._budget.take_anyway(size - self._admitted)
            self._hold(slot, size)
            self._admitted = 0

    def let_go(self, slot: Slot) -> None:
        """``slot`` is filled, or what it answers is not kept."""
        size, slot.held = slot.held, 0
        if size:
            self._held -= size
            self._budget.give_back(size)

    def move(self, budget: RequestBudget) -> None:
        """To another budget, with what it holds; not while a request is admitted that has not come."""
        if budget is not self._budget:
            before, self._budget = self._budget, budget
            budget.take_anyway(self._held)
            before.give_back(self._held)

    def close(self) -> None:
        self._budget.withdraw(self)
        held = self._held + (0 if self._waits else self._admitted)
        self._held = self._admitted = 0
        if held:
            self._budget.give_back(held)

    def _hold(self, slot: Slot, size: int) -> None:
        slot.held = size
        self._held += size
