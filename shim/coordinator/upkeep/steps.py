"""Long work on the state in steps, between which requests are decided: each a millisecond or two.

It is a generator that gives after each bit of work what that cost, as many times as looking at one offset does.
"""

from collections.abc import Iterator
from typing import Final

DELETED: Final = 8
"""The cost of deleting an offset or a group."""

AT_ONCE: Final = 250
"""So many offsets are a bit of work."""

_STEP: Final = 2_000


def step(costs: Iterator[int]) -> bool:
    """Do some more of it. Whether there is more to do."""
    left = _STEP
    for cost in costs:
        left -= cost
        if left <= 0:
            return True
    return False
