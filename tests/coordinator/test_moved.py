"""Which offsets have become others since somebody last asked, of some groups."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

import pytest

from protocol.commit_rows import CommitRows
from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue
from protocol.own.position import Producer
from shim.coordinator import GroupCoordinator
from shim.coordinator.state.offsets import Moved, Offsets

PRODUCER: Final = Producer(7, 1)
AT: Final = ("t", 0)
NOW: Final = 1_767_225_600_000

_Commits = Callable[[Offsets, int], None]


def _key(group: str = "g") -> OffsetCommitKey:
    return OffsetCommitKey(group, *AT)


def _alone(offsets: Offsets, offset: int) -> None:
    offsets.commit(_key(), OffsetCommitValue(offset))


def _rows(offsets: Offsets, offset: int) -> None:
    offsets.commit_rows("g", "t", CommitRows(struct.pack(">iqi", 0, offset, -1), 16, 1, ""), NOW)


def _in_a_transaction(offsets: Offsets, offset: int) -> None:
    before = set(offsets.moved.of("g"))
    offsets.add_pending(PRODUCER, None, _key(), OffsetCommitValue(offset))
    assert offsets.moved.of("g") == before, "it is not committed yet"
    offsets.end(PRODUCER, None, committed=True)


@pytest.fixture
def offsets() -> Offsets:
    offsets = Offsets()
    _alone(offsets, 5)
    offsets.moved = Moved()
    offsets.moved.add("g")
    return offsets


@pytest.mark.parametrize("commit", [_alone, _rows, _in_a_transaction])
def test_there_and_back(commit: _Commits, offsets: Offsets) -> None:
    commit(offsets, 5)
    assert not offsets.moved.take("g"), "it is the same"
    commit(offsets, 6)
    commit(offsets, 5)
    assert offsets.moved.of("g") == offsets.moved.take("g") == {AT}
    assert not offsets.moved.take("g")


def test_deleted_and_back(offsets: Offsets) -> None:
    offsets.delete(_key())
    assert not offsets.moved.of("g")
    _alone(offsets, 5)
    assert offsets.moved.take("g") == {AT}


def test_deleted_where_a_transaction_alone_had_one(offsets: Offsets) -> None:
    """Nothing else tells that somebody has deleted it after what stood there before."""
    offsets.delete(_key())
    offsets.add_pending(PRODUCER, None, _key(), OffsetCommitValue(6))
    assert not offsets.moved.of("g")
    offsets.touched.clear()
    offsets.delete(_key())
    assert offsets.moved.take("g") == {AT}
    assert "g" in offsets.touched, "it is looked for now"
    offsets.moved.forget("g")
    offsets.delete(_key())
    assert not offsets.moved.groups


def test_only_of_groups_that_are_asked_about(offsets: Offsets) -> None:
    offsets.commit(_key("other"), OffsetCommitValue(5))
    offsets.moved.forget("g")
    _alone(offsets, 6)
    assert not offsets.moved.groups


def test_what_is_carried_from_there_is_none() -> None:
    coordinator, moved = GroupCoordinator(), Moved()
    coordinator.note_moved(moved)
    moved.add("g")
    coordinator.carry(NOW, "g", {AT: 7}, None)
    assert not moved.of("g")
