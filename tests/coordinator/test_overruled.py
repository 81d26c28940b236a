"""Which offsets transactions had pending, that later records have overtaken or deleted, until the cluster has that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from protocol.own.state_log import Hands
from shim.coordinator.state.overruled import OverruledOffsets

from .transacting import Transacting

AT: Final = ("orders", 0)
PENDING: Final = 9

_Records = Callable[[Transacting], None]


def _commits(d: Transacting) -> None:
    d.commit(offsets=[("orders", 0, 4)])


def _deletes(d: Transacting) -> None:
    d.delete_offsets(("orders", [0]))


def _deletes_the_group(d: Transacting) -> None:
    d.delete_group("g")


def _begun() -> Transacting:
    """With a transaction that has an offset of the group pending."""
    d = Transacting()
    d.commit(offsets=[("orders", 1, 1)])
    ticket, sent_on = d.ask_txn_commit([(*AT, PENDING)])
    assert sent_on is not None
    d.read(10, sent_on)
    d.tell(ticket, sent_on)
    return d


def _offsets(d: Transacting) -> dict[tuple[str, int], set[int]]:
    return {at: set(each.offsets) for at, each in d.coordinator.overruled("g").items()}


@pytest.mark.parametrize("does", [_commits, _deletes, _deletes_the_group])
def test_what_has_come_behind_it(does: _Records) -> None:
    d = _begun()
    assert _offsets(d) == {}
    does(d)
    assert _offsets(d) == {AT: {PENDING}}
    d.restart()
    assert _offsets(d) == {AT: {PENDING}}, "its transaction is open"
    d.read(11, (1, 0, True))
    assert _offsets(d) == {AT: {PENDING}}, "it may be in force there"
    d.restart()
    assert _offsets(d) == {}


def test_what_was_overtaken_and_deleted_then() -> None:
    d = _begun()
    _commits(d)
    told = d.coordinator.overruled("g")
    _deletes(d)
    d.coordinator.overruled_there("g", told)
    assert _offsets(d) == {AT: {PENDING}}, "the deletion has come since"
    d.coordinator.overruled_there("g", d.coordinator.overruled("g"))
    assert _offsets(d) == {}


def test_a_commit_before_it_overrules_nothing() -> None:
    d = Transacting()
    _commits(d)
    _, sent_on = d.ask_txn_commit([(*AT, PENDING)])
    assert sent_on is not None
    d.read(10, sent_on)
    d.read(11, (1, 0, True))
    assert _offsets(d) == {}


def test_of_a_group_that_is_the_clusters_nothing_is_kept_in_mind() -> None:
    d = _begun()
    _deletes(d)
    d.take(d.coordinator.take_in_hand(d.now, "g", Hands.PASSED_THROUGH, "a test", d.ticket()))
    d.take(d.coordinator.abandon(d.now, "g", d.ticket()))
    assert _offsets(d) == {}


def test_it_has_a_bound() -> None:
    overruled = OverruledOffsets(most=2)
    for number in range(3):
        overruled.note("g", ("t", number), frozenset({number}))
    overruled.note("g", ("t", 1), frozenset({7}))
    assert {at: set(each.offsets) for at, each in overruled.of("g").items()} == {("t", 0): {0}, ("t", 1): {1, 7}}
    overruled.brought("g", overruled.of("g"))
    overruled.note("g", ("t", 2), frozenset())
    assert list(overruled.of("g")) == [("t", 2)], "what is brought makes room"
