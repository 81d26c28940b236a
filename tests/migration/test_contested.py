"""What others have committed in the cluster while a group could not be written, turn by turn."""

from __future__ import annotations

import pytest

from protocol.offsets_log import CommittedOffset
from protocol.topic_partition import TopicPartition
from shim.migration.mirror.contested import Contested
from shim.offsets.cluster.groups import Committed


def _offsets(*offsets: int | None) -> Committed:
    """By partition."""
    numbered = ((TopicPartition("t", number), each) for number, each in enumerate(offsets))
    return {at: CommittedOffset(each, -1, "", 0) for at, each in numbered if each is not None}


@pytest.fixture
def contested() -> Contested:
    found = Contested()
    found.failed("g", _offsets(5, 5, None, 9), {}, in_use=True)
    return found


def _saw(contested: Contested, own: Committed, there: Committed) -> None:
    contested.saw("g", own, there, own.keys() | there.keys())


def test_what_is_further_on_there_or_there_alone_is_members(contested: Contested) -> None:
    own, there = _offsets(7, 7, None, 3), _offsets(77, 6, 1, 9)
    _saw(contested, own, there)
    assert contested.in_use == {"g"}
    assert contested.written("g", own) == _offsets(77, None, 1)  # the last one the shim has written itself
    assert (contested.in_use, contested.written("g", own)) == (set(), {})


def test_what_was_seen_last_counts_and_outlasts_what_is_there_by_then(contested: Contested) -> None:
    own = _offsets(7)
    for there in (77, 78, 7):  # written by a turn that was not answered
        _saw(contested, own, _offsets(there))
    contested.failed("g", None, {}, in_use=True)
    assert contested.written("g", own) == _offsets(78)


def test_what_is_taken_over_here_is_not_written_over(contested: Contested) -> None:
    _saw(contested, _offsets(7), _offsets(77))
    assert contested.written("g", _offsets(77)) == {}


def test_who_is_cut_off_tells_others_commits_from_what_it_has_sent() -> None:
    contested = Contested()
    contested.failed("g", _offsets(5, 5, 5), _offsets(9, 9))
    assert ("g" in contested, contested.in_use) == (True, set())
    own = _offsets(6, 6, 6)
    _saw(contested, own, _offsets(9, 8, 7))  # the first write has arrived
    for later in range(20, 40):
        contested.failed("g", None, _offsets(later))
    _saw(contested, own, _offsets(9, 8, 7))
    assert contested.written("g", own) == _offsets(None, 8, 7)
    assert "g" not in contested


def test_what_a_transaction_may_have_put_in_force_is_the_shims() -> None:
    contested = Contested()
    contested.failed("g", _offsets(5, 5), _offsets(9))
    for had in (5, 7, 5, 3):
        contested.had("g", _offsets(had, had))
    for later in range(20, 40):
        contested.had("h", _offsets(later))
    _saw(contested, _offsets(3, 3), _offsets(7, 8))
    assert contested.written("g", _offsets(3, 3)) == _offsets(None, 8)


def test_what_the_shim_has_had_pushes_out_nothing_that_it_has_sent() -> None:
    contested = Contested()
    contested.failed("g", _offsets(5), _offsets(9))
    for later in range(20, 40):
        contested.had("g", _offsets(later))
    _saw(contested, _offsets(6), _offsets(9))
    assert contested.written("g", _offsets(6)) == {}


def test_while_a_transaction_is_open_nobody_is_blamed_but_for_what_was_seen_before() -> None:
    contested = Contested()
    contested.failed("g", _offsets(5, 5), {})
    _saw(contested, _offsets(6, 6), _offsets(8))
    contested.had("g", None)
    _saw(contested, _offsets(6, 6), _offsets(8, 9))
    assert contested.written("g", _offsets(6, 6)) == _offsets(8)


def test_where_a_transaction_is_open_and_members_are_there_what_the_shim_has_written_stays_its_own(
    contested: Contested,
) -> None:
    contested.had("g", None)
    _saw(contested, _offsets(3, 3), _offsets(5, 9))
    assert contested.written("g", _offsets(3, 3)) == _offsets(None, 9)


def test_of_what_was_there_before_and_is_not_known_nobody_is_blamed() -> None:
    contested = Contested()
    contested.failed("g", None, _offsets(9))
    _saw(contested, _offsets(6), _offsets(8))
    assert ("g" in contested, contested.written("g", _offsets(6))) == (False, {})


def test_without_a_turn_that_has_failed_nothing_is_remembered(contested: Contested) -> None:
    contested.forget("g")
    _saw(contested, _offsets(7), _offsets(77))
    assert (list(contested), contested.written("g", _offsets(7))) == ([], {})
