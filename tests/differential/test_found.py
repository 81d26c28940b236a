"""Sequences that showed a difference once, each in its shortest form."""

from collections.abc import Callable
from typing import Any

import pytest

from protocol.api import Api
from protocol.messages import delete_groups, describe_groups, find_coordinator, list_groups, offset_delete
from tests.differential.pair import Pair
from tests.differential.running import Same, run
from tests.differential.steps import (
    ABSENT,
    NONE,
    NOWHERE,
    OLD,
    OTHER,
    OWN,
    Actor,
    Advance,
    Delete,
    DeleteOffsets,
    Describe,
    Find,
    Join,
    Leave,
    ListAll,
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


def test_every_version_of_what_is_seldom_asked(usual_pair: Pair) -> None:
    steps: dict[Api[Any, Any], Callable[[int], Step]] = {
        find_coordinator.API: lambda version: Find(version, (OWN, OTHER)),
        describe_groups.API: lambda version: Describe(version, (OWN, ABSENT)),
        list_groups.API: ListAll,
        delete_groups.API: lambda version: Delete(version, (OWN, ABSENT)),
        offset_delete.API: lambda version: DeleteOffsets(version, ((NOWHERE, (1,)),)),
    }
    sequence = [make(version) for api, make in steps.items() for version in usual_pair.versions_of(api)]
    result = run(usual_pair, Sequence("consumer", Timing.NONE, (DYNAMIC,), (Advance(0), Advance(0), *sequence)))
    assert isinstance(result, Same), str(result)
    asked = {(name, version) for name, version, _ in usual_pair.answers}
    assert asked >= {(api.name, version) for api in steps for version in usual_pair.versions_of(api)}
