"""Which offsets transactions had pending, that later records have overtaken or deleted, until the cluster has that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from protocol.errors import DecodeError
from protocol.own.record_sets import LoggedRecord
from protocol.own.state_log import Hands
from protocol.own.topic_log import is_own
from shim.coordinator.state.overruled import OverruledOffsets
from tests.kafka_log.deciding import Deciding

from .driving import Driven, new_coordinator
from .transacting import Transacting

AT: Final = ("orders", 0)
PENDING: Final = 9

_Records = Callable[[Transacting], None]


def _commits(d: Driven) -> None:
    d.commit(offsets=[("orders", 0, 4)])


def _deletes(d: Driven) -> None:
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


def _start_from_a_snapshot(d: Transacting) -> None:
    coordinator = new_coordinator()
    coordinator.restore(d.coordinator.dump())
    coordinator.loaded(d.now)
    d.coordinator = coordinator


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
    assert _offsets(d) == {AT: set()}, "what is in force there by now may be anybody's"


@pytest.mark.parametrize("does", [_commits, _deletes, _deletes_the_group])
def test_whoever_starts_from_a_snapshot_knows_it(does: _Records) -> None:
    d = _begun()
    does(d)
    _start_from_a_snapshot(d)
    assert _offsets(d) == {AT: {PENDING}}
    d.coordinator.overruled_there("g", d.coordinator.overruled("g"))
    _start_from_a_snapshot(d)
    assert _offsets(d) == {}, "the cluster has it"


@pytest.mark.parametrize("starts", [Transacting.restart, _start_from_a_snapshot])
def test_a_start_that_ends_the_transaction_here_does_not_end_it_in_the_cluster(starts: _Records) -> None:
    d = _begun()
    _deletes(d)
    starts(d)
    for producer in d.coordinator.left_open():
        d.take(d.coordinator.end_left_open(d.now, producer))
    starts(d)
    assert _offsets(d).keys() == {AT}


@pytest.mark.parametrize("goes", [lambda _: False, lambda record: not is_own(record.key)], ids=["none", "offsets'"])
def test_whoever_reads_it_on_a_topic_knows_it(goes: Callable[[LoggedRecord], bool]) -> None:
    """Compacted or not, and also where another offset has come behind the deletion."""
    for does in ([_commits], [_deletes], [_deletes, _commits]):
        d = Deciding()
        d.commit(offsets=[("orders", 1, 1)])
        d.begin(1, ("g", *AT), offset=PENDING)
        for each in does:
            each(d)
        assert d.topic.replayed().overruled("g").keys() == {AT}
        d.topic.compact(d.topic.ends[-1], goes)
        assert d.topic.replayed().overruled("g").keys() == {AT}


def test_on_a_topic_what_a_transaction_brings_in_force_overrules_nothing() -> None:
    """As it has the same records as a commit, and what was pending is no more."""
    d = Deciding()
    for offset in range(3):
        d.begin(1, ("g", *AT), offset=offset)
        d.begin(2, ("g", *AT), offset=offset + 10)  # behind it, so it is pending yet
        d.end(1, committed=True)
        assert d.topic.replayed().overruled("g") == {}
        d.end(2, committed=offset == 1)
        assert d.topic.replayed().overruled("g") == {}
    d.begin(1, ("g", *AT), offset=PENDING)
    _commits(d)
    d.begin(2, ("g", *AT), offset=PENDING + 1)
    d.end(2, committed=True)
    d.end(1, committed=True)
    (its,) = d.topic.replayed().overruled("g").values()
    assert its.offsets == {PENDING}


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
    for number in range(2):
        overruled.note("g", ("t", number), frozenset({number}))
    assert overruled.take_left_out() is None
    for group in ("g", "h"):
        overruled.note(group, ("t", 2), frozenset({2}))
    assert overruled.take_left_out() == (2, "h")
    assert overruled.take_left_out() is None, "that is said once"
    overruled.note("g", ("t", 1), frozenset({7}))
    assert {at: set(each.offsets) for at, each in overruled.of("g").items()} == {("t", 0): {0}, ("t", 1): {1, 7}}
    overruled.brought("g", overruled.of("g"))
    overruled.note("g", ("t", 2), frozenset())
    assert list(overruled.of("g")) == [("t", 2)], "what is brought makes room"


def test_of_many_offsets_of_one_partition_the_first_are_forgotten() -> None:
    overruled = OverruledOffsets()
    for offset in range(20):
        overruled.note("g", AT, frozenset({offset}))
    (its,) = overruled.of("g").values()
    assert 19 in its.offsets
    assert len(its.offsets) < 20


def test_its_dump() -> None:
    overruled = OverruledOffsets()
    overruled.note("g", AT, frozenset({3, 4}))
    overruled.note("g", ("orders", 1), frozenset())
    overruled.note("h", AT, frozenset({5}))
    dump = overruled.dump()
    again = OverruledOffsets.restore(dump)
    assert again.dump() == dump
    assert [again.of(group) for group in ("g", "h")] == [overruled.of(group) for group in ("g", "h")]
    for wrong in (dump[:-1], dump + b"\0", dump.replace(b"\0\1\0\1g", b"\0\7\0\1g")):
        with pytest.raises(DecodeError):
            OverruledOffsets.restore(wrong)
