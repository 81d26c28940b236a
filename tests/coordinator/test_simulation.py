"""Whole worlds in simulated time: consumers, producers and tools; a network, a disk and processes that fail; and a
witness who knows what must hold (`simulation.witness`). Then calm, in which every group comes to work again, and
silence, in which all that is left behind goes away.
"""

from __future__ import annotations

from collections import Counter

import pytest

from .simulation.world import MINUTE_MS, run

SHORT = 6
PARTS = 20
A_PART = 100

# What a world, or in many worlds each of them on average, must have seen at the least, so that it shows something.
SEEN = {
    "generations": 10,
    "assignments": 20,
    "commits": 30,
    "conditional commits": 5,
    "commits in transactions": 5,
    "fetches": 50,
    "expired offsets": 10,
    "groups deleted": 3,
    "topics deleted": 1,
    "loads": 2,
}


@pytest.mark.parametrize("seed", range(SHORT))
def test_what_must_hold_holds_whatever_happens(seed: int) -> None:
    assert Counter(run(seed, 4 * MINUTE_MS).counts) >= Counter(SEEN)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(PARTS))
def test_it_holds_in_many_worlds(part: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(1_000 + part * A_PART, 1_000 + (part + 1) * A_PART):
        seen.update(run(seed, 10 * MINUTE_MS).counts)
    assert seen >= Counter({what: A_PART * least for what, least in SEEN.items()})
