"""What is kept in the cluster as it is, look by look."""

from __future__ import annotations

import logging
import re

import pytest

from protocol.offsets_log import CommittedOffset
from protocol.topic_partition import TopicPartition
from shim.migration.compared import MOST_SHOWN
from shim.migration.mirror.held import Held
from shim.offsets.cluster.groups import Committed


def _at(number: int) -> TopicPartition:
    return TopicPartition("t", number)


def _offsets(*offsets: int | None) -> Committed:
    """By partition."""
    return {_at(number): CommittedOffset(each, -1, "", 0) for number, each in enumerate(offsets) if each is not None}


def _brought(held: Held, own: Committed, there: Committed) -> tuple[dict[int, int], list[int]]:
    held.look("g", own, there)
    changed, gone = held.to_bring("g", own, there)
    return {at.partition: its.offset for at, its in changed.items()}, [at.partition for at in gone]


@pytest.fixture
def held() -> Held:
    found = Held()
    found.loaded(0, ["g"])
    return found


def test_what_is_behind_there_is_brought_with_a_word(held: Held, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing else has the numbers that were there."""
    own, there = [6] * 9, [4] * 9
    assert _brought(held, _offsets(5, *own, 7), _offsets(5, *there)) == (dict.fromkeys(range(1, 10), 6) | {10: 7}, [])
    assert (held.alarm("g"), held.is_open("g")) == ("", False)
    (told,) = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert told.endswith("are brought up: " + ", ".join(f"t-{number} (6 here, 4 there)" for number in range(1, 10)))


@pytest.mark.parametrize("there", [_offsets(9, 2, None), _offsets(5, 2, None, 1)], ids=["further on", "there alone"])
def test_all_that_differs_is_held_but_what_is_not_there(held: Held, there: Committed) -> None:
    assert _brought(held, _offsets(5, 5, 5), there) == ({2: 5}, [])
    assert "t-1 (5 here, 2 there)" in held.alarm("g")
    assert "t-2" not in held.alarm("g")


def test_those_that_are_strangers_for_sure_are_named_first(held: Held) -> None:
    """Seven acknowledged commits that had not been brought there before a sudden end, and one of somebody else."""
    assert _brought(held, _offsets(*[600] * 7), _offsets(*[5] * 7, 77)) == ({}, [])
    line, advice = held.alarm("g").split("; somebody ")
    behind = ", ".join(f"t-{number} (600 here, 5 there)" for number in range(5))
    assert line.endswith(f"keeps them: t-7 (none here, 77 there); only behind there (7): {behind} and 2 more")
    assert re.findall("`(groups reset g .*?)`", advice) == [
        "groups reset g --from-upstream --topic t:7",
        "groups reset g --to-current --all-topics",
        "groups reset g --from-upstream",
    ]
    assert "takes ALL partitions to what the cluster has, also back" in advice


def test_what_is_only_behind_there_stays_with_a_word_when_the_others_are_settled(held: Held) -> None:
    there = _offsets(2, 9)
    assert _brought(held, _offsets(5, 5), there) == ({}, [])
    assert _brought(held, _offsets(5, 9), there) == ({}, [])
    assert "keeps them: only behind there (1): t-0 (5 here, 2 there); " in held.alarm("g")
    assert "--topic" not in held.alarm("g")


def test_where_nothing_is_behind_none_can_be_taken_back(held: Held) -> None:
    """Of two topics, and of so many partitions that not all are named."""
    others = {TopicPartition("s", 3): CommittedOffset(1, -1, "", 0)}
    held.look("g", {}, _offsets(*[9] * (MOST_SHOWN + 1)) | others)
    named = ",".join(map(str, range(MOST_SHOWN - 1)))
    assert f"--from-upstream --topic s:3 --topic t:{named}` takes" in held.alarm("g")
    assert f", the first {MOST_SHOWN} of them, " in held.alarm("g")
    assert "ALL partitions" not in held.alarm("g")


def test_another_offset_is_brought_and_none_is_not(held: Held, caplog: pytest.LogCaptureFixture) -> None:
    there = _offsets(9, 9, 9)
    assert _brought(held, _offsets(5, 5), there) == ({}, [])
    assert _brought(held, _offsets(6, None, 1), there) == ({0: 6, 2: 1}, [])
    (told,) = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert told.endswith(": t-0 (6 here, 9 there), t-2 (1 here, 9 there)")
    assert "(none here, 9 there)" in held.alarm("g")


def test_the_same_offset_again_is_another_commit(held: Held) -> None:
    assert _brought(held, _offsets(5), _offsets(9)) == ({}, [])
    again = {at: its._replace(commit_timestamp=1) for at, its in _offsets(5).items()}
    assert _brought(held, again, _offsets(9)) == ({0: 5}, [])
    assert held.alarm("g") == ""


def test_it_is_over_when_both_have_the_same(held: Held, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    assert _brought(held, _offsets(5), _offsets(9)) == ({}, [])
    assert _brought(held, _offsets(9), _offsets(9)) == ({}, [])
    assert (held.alarm("g"), held.is_open("g"), list(held)) == ("", False, [])
    assert [each.levelname for each in caplog.records] == ["ERROR", "INFO"]


def test_only_the_first_look_at_what_was_loaded_decides(held: Held) -> None:
    assert _brought(held, _offsets(5), _offsets(5)) == ({}, [])
    held.loaded(0, ["g"])  # read back, after a failure
    assert _brought(held, _offsets(5), _offsets(9, 9)) == ({0: 5}, [1])
    held.given_up(0)
    held.loaded(0, ["g"])  # somebody else had it meanwhile
    assert _brought(held, _offsets(5), _offsets(9, 9)) == ({}, [])
    held.loaded(1, ["h"])
    assert held.is_open("h")


@pytest.mark.parametrize("forgotten", [True, False])
def test_what_was_not_loaded_is_not_held(forgotten: bool) -> None:
    held = Held()
    if forgotten:
        held.loaded(0, ["g"])
        held.forget("g")
    assert _brought(held, _offsets(5), _offsets(9, 9)) == ({0: 5}, [1])
    assert held.alarm("g") == ""


def test_where_nothing_may_be_held_it_is_told(held: Held, caplog: pytest.LogCaptureFixture) -> None:
    held.look("g", _offsets(5), _offsets(9), holds=False)
    assert held.to_bring("g", _offsets(5), _offsets(9)) == (_offsets(5), [])
    (told,) = caplog.messages
    assert told.endswith(": t-0 (5 here, 9 there)")


def test_a_group_that_is_given_away_is_forgotten(held: Held) -> None:
    assert list(held) == ["g"]
    assert _brought(held, _offsets(5), _offsets(9)) == ({}, [])
    assert list(held) == ["g"]
    held.forget("g")
    assert (list(held), held.alarm("g")) == ([], "")


def test_a_commit_that_is_gone_again_was_none(held: Held) -> None:
    """The disk has refused it, and the partition was read back: what was loaded is there, and holds as such. Beside it
    one that is durable, and one of a partition that had none."""
    expiring = CommittedOffset(5, -1, "", 0, 99)
    held.due.groups["g"] |= {("t", 0): expiring, ("t", 1): expiring, ("t", 2): None, ("t", 3): None}
    changed, gone = _brought(held, _offsets(5, 6, 7), _offsets(77, 77, 77, 77))
    assert (changed, gone) == ({1: 6, 2: 7}, [])
    assert "keeps them: t-0 (5 here, 77 there), t-3 (none here, 77 there); " in held.alarm("g")
