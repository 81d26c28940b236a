"""Room for requests: in the order of arrival, one that is too large for all of it alone, and none of it ever lost."""

from __future__ import annotations

import random

from shim.net.budget import RequestBudget


class Connection:
    def __init__(self) -> None:
        self.told = 0

    def has_room(self) -> None:
        self.told += 1


def test_who_finds_no_room_waits_and_nobody_overtakes() -> None:
    budget = RequestBudget(100)
    first, second, third = Connection(), Connection(), Connection()
    assert budget.take(60, first)
    assert not budget.take(50, second)
    assert not budget.take(1, third), "there would be room, but the second was first"
    budget.give_back(60)
    assert (second.told, third.told, budget.taken, len(budget)) == (1, 1, 51, 0)


def test_one_larger_than_everything_waits_until_it_is_alone() -> None:
    budget = RequestBudget(100)
    large, after = Connection(), Connection()
    assert budget.take(1, Connection())
    assert not budget.take(500, large)
    assert not budget.take(1, after)
    budget.give_back(1)
    assert (large.told, after.told, budget.taken) == (1, 0, 500)
    budget.give_back(500)
    assert (after.told, budget.taken) == (1, 1)


def test_who_leaves_makes_way_for_those_behind_it() -> None:
    budget = RequestBudget(100)
    gone, after = Connection(), Connection()
    assert budget.take(60, Connection())
    assert not budget.take(90, gone)
    assert not budget.take(40, after)
    budget.withdraw(gone)
    budget.withdraw(gone)
    assert (gone.told, after.told, budget.taken) == (0, 1, 100)


def test_without_a_bound_nobody_waits() -> None:
    budget = RequestBudget(-1)
    assert all(budget.take(1 << 40, Connection()) for _ in range(10))


def test_any_order_of_events_ends_with_everybody_served_and_nothing_taken() -> None:
    rng = random.Random(3)
    for _ in range(300):
        most = rng.randint(1, 50)
        budget = RequestBudget(most)
        holding: list[int] = []

        class Waiting(Connection):
            def __init__(self, size: int) -> None:
                super().__init__()
                self.size = size

            def has_room(self) -> None:
                super().has_room()
                holding.append(self.size)  # noqa: B023

        waiting = []
        for _ in range(40):
            one = Waiting(rng.randint(1, 80))
            if budget.take(one.size, one):
                holding.append(one.size)
            else:
                waiting.append(one)
            assert sum(holding) == budget.taken
            assert len(holding) <= 1 or sum(holding) <= most
            if holding and rng.random() < 0.5:
                budget.give_back(holding.pop(rng.randrange(len(holding))))
        while holding:
            budget.give_back(holding.pop())
        assert (budget.taken, len(budget)) == (0, 0)
        assert all(one.told == 1 for one in waiting)


def test_strangers_have_an_eighth_beside_it_and_without_a_bound_none() -> None:
    budget = RequestBudget(800)
    theirs = budget.for_strangers()
    assert theirs.take(60, Connection())
    assert theirs.take(40, Connection())
    assert not theirs.take(1, Connection())
    assert budget.take(800, Connection())
    assert RequestBudget(-1).for_strangers().take(1 << 40, Connection())
    smallest = RequestBudget(1).for_strangers()
    assert smallest.take(10, Connection())
    assert not smallest.take(10, Connection()), "none is not no bound"
