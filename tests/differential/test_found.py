"""Sequences that showed a difference once, each in its shortest form."""

import pytest

from tests.differential.pair import Pair
from tests.differential.running import Same, run
from tests.differential.steps import (
    NONE,
    NOWHERE,
    OLD,
    OWN,
    Actor,
    Advance,
    DeleteOffsets,
    Describe,
    Join,
    Leave,
    Sequence,
    Step,
    Timing,
    Versions,
)

STATIC = Actor("own", True, ("one",), 60_000, 60_000, Versions(9, 5, 4, 9))
DYNAMIC = STATIC._replace(static=False)

FOUND: dict[str, tuple[tuple[Actor, ...], tuple[Step, ...]]] = {
    "a lone static member comes back before its SyncGroup": (
        (STATIC, DYNAMIC),
        (Advance(0), Join(0, 7, NONE, OWN), Advance(0), Advance(1), Advance(1)),
    ),
    "a static follower comes back to a Stable group": (
        (DYNAMIC, STATIC),
        (*[Advance(n) for _ in range(5) for n in (0, 1)], Join(1, 9, NONE, OWN), Leave(3, ((1, OLD, OWN),))),
    ),
    "offsets of nothing but unknown topics, in an unknown group": (
        (DYNAMIC,),
        (DeleteOffsets(0, ((NOWHERE, (1, 2)),)),),
    ),
    "the last member leaves while another has only been given its id": (
        (DYNAMIC, DYNAMIC),
        (Advance(0), Advance(0), Advance(1), Advance(0), Join(0, 9, OWN, OWN), Leave(5, ((0, OWN, NONE),)), Advance(0)),
    ),
    "what one may do with a group": ((DYNAMIC,), (Describe(5, (OWN,), operations=True),)),
}


@pytest.mark.parametrize("name", FOUND)
def test_no_difference_any_more(name: str, usual_pair: Pair) -> None:
    actors, steps = FOUND[name]
    result = run(usual_pair, Sequence("something else", Timing.NONE, actors, steps))
    assert isinstance(result, Same), str(result)
