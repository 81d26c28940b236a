"""A commit that comes back to what is noted of ZooKeeper changes the note with it: at kafka+dual."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from protocol.own.state_log import NO_OFFSET, About, Hands, Step, WrittenValue
from protocol.topic_partition import TopicPartition
from shim.coordinator import OffsetReset
from shim.migration.own_offsets import own_offsets
from tests.kafka_log.deciding import Deciding

from .driving import CALLER

AT: Final = ("orders", 0)
BOTH_HAD, CARRIED, ELSE, VERSION = 9, 50, 60, 4
NOTED: Final = WrittenValue(BOTH_HAD, VERSION)
ON_ITS_WAY_BACK: Final = WrittenValue(NO_OFFSET, VERSION + 1, about=About.WRITES)

_Commits = Callable[[Deciding, int], None]


def _plainly(d: Deciding, offset: int) -> None:
    d.commit_rows("g", "orders", [0, 1], offset)


def _with_metadata(d: Deciding, offset: int) -> None:
    d.commit(offsets=[(*AT, offset)], metadata="m")


def _reset(d: Deciding, offset: int) -> None:
    before = d.fetch(*AT).committed_offset
    d.take(d.coordinator.reset_offsets(d.now, CALLER, "g", [OffsetReset(*AT, before, offset)], "why", d.ticket()))


def _in_a_transaction(d: Deciding, offset: int) -> None:
    d.begin(1, ("g", *AT), offset=offset)
    d.end(1, committed=True)


def _begun(step: Step = Step.KAFKA_DUAL, noted: WrittenValue = NOTED) -> Deciding:
    d = Deciding()
    d.take(d.coordinator.take_in_hand(d.now, "g", Hands.SERVED, "a test", d.ticket(), step))
    d.commit(offsets=[(*AT, BOTH_HAD)])
    d.take(d.coordinator.note_written(d.now, "g", {AT: noted}, d.ticket()))
    return d


def _noted(d: Deciding) -> WrittenValue:
    """In the log, too."""
    noted = d.coordinator.written("g")[AT]
    assert d.topic.replayed().written("g")[AT] == d.from_local().written("g")[AT] == noted
    return noted


@pytest.mark.parametrize("commit", [_plainly, _with_metadata, _reset, _in_a_transaction])
def test_there_and_back(commit: _Commits) -> None:
    d = _begun()
    commit(d, BOTH_HAD)
    assert _noted(d) == NOTED, "it is the same"
    commit(d, ELSE)
    assert _noted(d) == NOTED, "what differs is there to be seen"
    commit(d, BOTH_HAD)
    assert _noted(d) == ON_ITS_WAY_BACK
    commit(d, ELSE)
    commit(d, BOTH_HAD)
    assert _noted(d) == ON_ITS_WAY_BACK


@pytest.mark.parametrize("commit", [_plainly, _with_metadata, _reset, _in_a_transaction])
def test_there_and_back_of_what_is_noted_to_be_carried(commit: _Commits) -> None:
    """Of what the log had before it is known until then, as it may not have been."""
    d = _begun(noted=WrittenValue(CARRIED, VERSION, BOTH_HAD))
    d.take(d.coordinator.carry(d.now, "g", {AT: CARRIED}, d.ticket()))
    commit(d, ELSE)
    commit(d, CARRIED)
    assert _noted(d) == ON_ITS_WAY_BACK._replace(replaced=BOTH_HAD)
    commit(d, BOTH_HAD)
    assert _noted(d) == ON_ITS_WAY_BACK


def test_so_is_the_very_offset_that_is_to_be_carried() -> None:
    """What somebody wrote behind that is older than this commit, too."""
    d = _begun(noted=WrittenValue(CARRIED, VERSION, BOTH_HAD))
    _plainly(d, CARRIED)
    assert _noted(d) == ON_ITS_WAY_BACK._replace(replaced=BOTH_HAD)


def test_and_what_is_deleted_behind_that_was_there() -> None:
    d = _begun(noted=WrittenValue(CARRIED, VERSION, NO_OFFSET))
    d.take(d.coordinator.carry(d.now, "g", {AT: CARRIED}, d.ticket()))
    _plainly(d, ELSE)
    _plainly(d, CARRIED)
    _deleted(d)
    assert _noted(d) == ON_ITS_WAY_BACK


def _deleted(d: Deciding) -> None:
    d.delete_offsets(("orders", [0]))


def _group_deleted(d: Deciding) -> None:
    d.delete_group("g")


@pytest.mark.parametrize("goes", [_deleted, _group_deleted])
def test_what_is_deleted_behind_the_way_back_is_not_as_noted(goes: Callable[[Deciding], None]) -> None:
    """Otherwise what somebody wrote before that would be carried, as if both had had none; or, where the tombstone is
    not there after a crash, as if the log had not moved."""
    d = _begun()
    _plainly(d, ELSE)
    _plainly(d, BOTH_HAD)
    assert _noted(d) == ON_ITS_WAY_BACK
    goes(d)
    assert _noted(d) == NOTED._replace(about=About.WRITES)


@pytest.mark.parametrize("goes", [_deleted, _group_deleted])
def test_the_first_offset_is_carried_and_deleted(goes: Callable[[Deciding], None]) -> None:
    """It would be carried once more."""
    d = _begun(noted=WrittenValue(ELSE, VERSION, NO_OFFSET))
    d.take(d.coordinator.carry(d.now, "g", {AT: ELSE}, d.ticket()))
    goes(d)
    assert _noted(d) == WrittenValue(ELSE, VERSION)


def test_wherever_the_topic_ends_the_note_is_there_before_what_it_is_of() -> None:
    """One who dies in between leaves the one without the other."""
    d = _begun()
    d.most_bytes = 0
    first = len(d.topic.ends)
    _plainly(d, ELSE)
    _in_a_transaction(d, BOTH_HAD)
    left = [d.topic.replayed(end) for end in d.topic.ends[first:]]
    there = [(dict(own_offsets(each, "g"))[TopicPartition(*AT)].offset, each.written("g")[AT]) for each in left]
    assert (BOTH_HAD, NOTED) not in there
    assert (ELSE, ON_ITS_WAY_BACK) in there
    assert there[-1] == (BOTH_HAD, ON_ITS_WAY_BACK)


def test_an_offset_of_minus_one_is_not_taken_for_the_note() -> None:
    """Clients may commit it."""
    d = _begun()
    _plainly(d, ELSE)
    _plainly(d, BOTH_HAD)
    for _ in range(2):
        _plainly(d, -1)
        assert _noted(d) == ON_ITS_WAY_BACK


def test_of_many_offsets_each_is_noted_once() -> None:
    d = _begun()
    many = {("orders", number): NOTED for number in range(100)}
    d.take(d.coordinator.note_written(d.now, "g", many, d.ticket()))
    noted = len(d.state_records)
    for offset in (ELSE, BOTH_HAD):
        d.commit(offsets=[(*at, offset) for at in many], metadata="m")
    assert len(d.state_records) == noted + len(many)
    assert set(d.coordinator.written("g").values()) == {ON_ITS_WAY_BACK}


def test_back_to_what_the_log_had_before_something_was_carried() -> None:
    """Otherwise that would be carried once more."""
    d = _begun(noted=WrittenValue(ELSE, VERSION, BOTH_HAD))
    d.take(d.coordinator.carry(d.now, "g", {AT: ELSE}, d.ticket()))
    assert _noted(d).replaced == BOTH_HAD
    _plainly(d, BOTH_HAD)
    assert _noted(d) == WrittenValue(ELSE, VERSION)


@pytest.mark.parametrize("step", [Step.KAFKA, Step.ZOOKEEPER_DUAL, Step.UPSTREAM_DUAL])
def test_at_other_steps_nothing_is_noted(step: Step) -> None:
    d = _begun(step)
    _plainly(d, ELSE)
    _plainly(d, BOTH_HAD)
    assert _noted(d) == NOTED
