"""The check of what a register answered finds all that no register can have, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import permutations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.ownership.history import NOTHING, Operation, Told, gone_back, wrong_in, wrong_order


def commit(value: int, begun: float, ended: float = math.inf) -> Operation:
    return Operation(True, value, 0, begun, ended)


def told(value: int, begun: float, ended: float) -> Operation:
    return Operation(False, value, 0, begun, ended)


def explained(order: Sequence[Operation]) -> bool:
    """Whether they can have been done one after the other in this order, by a register."""
    now, latest = NOTHING, -math.inf
    for each in order:
        latest = max(latest, each.begun)
        if latest > each.ended:
            return False
        if each.is_commit:
            now = each.value
        elif each.value != now:
            return False
    return True


def can_be(operations: Sequence[Operation]) -> bool:
    """By trying all orders, with those of which nobody knows what came of them, and without."""
    certain = [each for each in operations if each.ended < math.inf]
    unknown = [each for each in operations if each.ended == math.inf]
    return any(
        explained(order)
        for chosen in range(2 ** len(unknown))
        for order in permutations(certain + [each for number, each in enumerate(unknown) if chosen >> number & 1])
    )


@st.composite
def histories(draw: st.DrawFn) -> list[Operation]:
    """A few operations, no two ends of which are at one time."""
    count = draw(st.integers(1, 5))
    times = draw(st.permutations(range(2 * count)))
    commits = draw(st.integers(0, min(count, 3)))
    values = st.integers(NOTHING, max(commits, 1) - 1)
    found = []
    for number in range(count):
        begun, ended = sorted(times[2 * number : 2 * number + 2])
        if number < commits:
            found.append(commit(number, begun, math.inf if draw(st.booleans()) else ended))
        else:
            found.append(told(draw(values), begun, ended))
    return found


@settings(max_examples=examples(150))
@given(histories())
@example([commit(0, 0, 1), commit(1, 2, 3), told(0, 4, 5)])
@example([commit(0, 0), told(NOTHING, 1, 2), told(0, 3, 4), commit(1, 5, 6), told(0, 7, 8)])
@example([commit(0, 0, 3), commit(1, 1, 2), told(1, 4, 5), told(0, 6, 7)])
def test_it_finds_what_trying_all_orders_does(operations: list[Operation]) -> None:
    assert bool(wrong_in(operations)) == (not can_be(operations)), wrong_in(operations)


@pytest.mark.parametrize(
    ("operations", "reason"),
    [
        ([commit(7, 0, 1), told(NOTHING, 2, 3)], "7 was there at some time"),
        ([commit(7, 0, 1), commit(8, 2, 3), told(8, 4, 5), told(7, 6, 7)], "8 was there at some time|had been there"),
        ([commit(7, 0, 1), told(9, 2, 3)], "nobody had committed it"),
        ([told(7, 0, 1), commit(7, 2, 3)], "nobody had committed it"),
        ([commit(7, 0, 1), commit(7, 2, 3)], "two commits"),
    ],
)
def test_what_it_says(operations: list[Operation], reason: str) -> None:
    (found,) = wrong_in(operations)
    assert any(part in found for part in reason.split("|"))


def test_the_order_in_the_log() -> None:
    one, other, unknown = commit(7, 0, 1), commit(8, 2, 3), commit(9, 1, math.inf)
    assert wrong_order([one, other, unknown], {7: 0, 8: 1}) == []
    assert wrong_order([one, other], {7: 0}) == [f"{other} was acknowledged, and is not in the log"]
    assert wrong_order([one, other], {7: 1, 8: 0}) == [
        f"{other} was asked for after {one} was acknowledged, and is before it in the log"
    ]
    assert wrong_order([commit(7, 0, 3), other], {7: 1, 8: 0}) == [], "both were on their way"


def test_what_is_told_is_never_older_than_what_was_told_before() -> None:
    written = [(3, 4), (5, 6, 5)]
    fetches = [Told((3, NOTHING), 0, 0, 1), Told((3, 5), 1, 0.5, 2), Told((4, 6), 0, 3, 4)]
    assert gone_back(fetches, written) == []
    assert gone_back([*fetches, Told((4, 5), 1, 5, 6)], written) == [], "it was committed once more"
    (found,) = gone_back([*fetches, Told((3, 6), 1, 5, 6)], written)
    assert found.endswith("partition 0, when 4 had been told, then came ()")
    assert gone_back([*fetches, Told((3, 6), 1, 3.5, 6)], written) == [], "it was asked before 4 had been told"
    (found,) = gone_back([*fetches, Told((4, 7), 1, 5, 6)], written)
    assert "partition 1" in found, "nobody has committed that"
    (found,) = gone_back([*fetches, Told((4, 5), 0, 5, 6), Told((4, 6), 1, 7, 8)], written)
    assert found.endswith("when 5 had been told, then came ()")
