"""The checker of the crash tests sees what it is there to see."""

from __future__ import annotations

import pytest

from tests.crash.acknowledged import Committed, GroupHistory, Offsets, WrongOffsets


def commit(number: int, *partitions: int) -> Offsets:
    return {partition: Committed(number, -1, f"{number}") for partition in partitions}


def history(*sent: Offsets, acknowledged: int) -> GroupHistory:
    made = GroupHistory("g")
    for offsets in sent:
        made.sending(offsets)
    for _ in range(acknowledged):
        made.acknowledge()
    return made


SENT = (commit(1, 0, 1), commit(2, 1), commit(3, 0, 1, 2))


@pytest.mark.parametrize("survived", [2, 3])
def test_acknowledged_commits_and_later_ones_may_be_served(survived: int) -> None:
    served: dict[int, Committed] = {}
    for offsets in SENT[:survived]:
        served.update(offsets)
    history(*SENT, acknowledged=2).check(served)


@pytest.mark.parametrize(
    ("served", "reason"),
    [
        ({}, "served is commit 0, 2 were acknowledged"),
        (commit(1, 0, 1), "served is commit 1, 2 were acknowledged"),
        ({**commit(1, 0), **commit(3, 1, 2)}, "never stood together"),
        ({**commit(1, 0), 1: Committed(2, -1, "another")}, "never stood together"),
        ({**commit(1, 0), 1: Committed(2, 5, "2")}, "never stood together"),
        ({**commit(1, 0), **commit(2, 1), **commit(2, 7)}, "never stood together"),
        (commit(4, 0, 1, 2), "never stood together"),
    ],
    ids=["all lost", "one lost", "half a commit", "metadata", "leader epoch", "a partition too many", "never sent"],
)
def test_anything_else_may_not(served: Offsets, reason: str) -> None:
    with pytest.raises(WrongOffsets, match=reason):
        history(*SENT, acknowledged=2).check(served)


def test_what_was_served_once_may_not_go_backwards() -> None:
    made = history(*SENT, acknowledged=0)
    made.check(commit(3, 0, 1, 2))
    with pytest.raises(WrongOffsets):
        made.check({**commit(1, 0), **commit(2, 1)})


def test_what_was_not_served_may_not_come_back() -> None:
    made = history(*SENT, acknowledged=0)
    made.check(commit(1, 0, 1))
    with pytest.raises(WrongOffsets):
        made.check(commit(3, 0, 1, 2))


def test_an_answer_too_many_is_seen() -> None:
    with pytest.raises(WrongOffsets):
        history(*SENT, acknowledged=4)
