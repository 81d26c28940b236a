"""What one connection takes of the budget, and that it gives all of it back, whatever it was doing."""

from __future__ import annotations

import pytest

from shim.net.budget import SMALL, RequestBudget
from shim.net.order import Slot
from shim.net.room import Room

SIZE = 10_000


class Told:
    """A connection's room, and what it has been told, in order."""

    def __init__(self, budget: RequestBudget) -> None:
        self.words: list[str] = []
        self.room = Room(budget, lambda: self.words.append("wait"), lambda: self.words.append("go on"))


def slot(count: int = 1) -> Slot:
    return Slot(count, stream=False)


def test_a_request_takes_its_size_until_it_is_answered() -> None:
    budget, answer = RequestBudget(2 * SIZE), slot()
    room = Told(budget).room
    assert room.admit(SIZE)
    assert room.admit(SIZE), "asked again for the same one"
    room.came(answer)
    assert (budget.taken, answer.held) == (SIZE, SIZE)
    room.let_go(answer)
    room.let_go(answer)
    assert (budget.taken, answer.held) == (0, 0)


def test_who_waits_goes_on_when_another_has_given_back() -> None:
    budget, answer = RequestBudget(SIZE), slot()
    first, second = Told(budget), Told(budget)
    assert first.room.admit(SIZE)
    first.room.came(answer)
    assert not second.room.admit(SIZE)
    assert not second.room.admit(SIZE), "it waits once"
    assert second.words == ["wait"]
    first.room.let_go(answer)
    assert second.words == ["wait", "go on"]
    assert second.room.admit(SIZE)
    second.room.passed()
    assert budget.taken == 0


def test_several_that_came_at_once_count_where_they_are_large() -> None:
    budget = RequestBudget(-1)
    room = Told(budget).room
    small, large = slot(2), slot(2)
    room.several_came(small, 2 * SMALL, 2)
    assert (budget.taken, small.held) == (0, 0)
    assert room.admit(SIZE)
    room.several_came(large, SIZE + 100, 2)
    assert (budget.taken, large.held) == (SIZE + 100, SIZE + 100)
    assert room.admit(SIZE)
    room.several_came(None, SIZE + 100, 0)
    assert budget.taken == SIZE + 100, "those were answered already"
    room.let_go(large)
    assert budget.taken == 0


@pytest.mark.parametrize("what", ["nothing", "admitted", "waiting", "held"])
def test_who_leaves_gives_back_all(what: str) -> None:
    budget = RequestBudget(SIZE)
    other, answer = slot(), slot()
    neighbour, leaving = Told(budget).room, Told(budget).room
    if what == "waiting":
        assert neighbour.admit(SIZE)
        neighbour.came(other)
    if what != "nothing":
        assert leaving.admit(SIZE) == (what != "waiting")
    if what == "held":
        leaving.came(answer)
    leaving.close()
    assert budget.taken == (SIZE if what == "waiting" else 0)
    assert not len(budget)
