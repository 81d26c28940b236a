"""Which of a group's commits are told as moves, and which of them are the newest."""

from __future__ import annotations

from typing import Final

import pytest

from protocol.own.history_log import (
    ADOPTED,
    DELETED,
    NO_OFFSET,
    NOT_TOLD,
    TAKEN_AWAY,
    OffsetHistoryKey,
    OffsetHistoryValue,
)
from shim.groups.history import History, Then
from shim.groups.words import Refused, Window
from tests.groups.kept import Kept

NOW: Final = 1_767_225_600_123
GROUP: Final = "g"
RESET: Final = "groups reset --to-current"

Told = tuple[str, int, int | None, int]


class Group:
    """With a history of one partition. Each commit is a millisecond after the one before."""

    def __init__(self, kept: Kept) -> None:
        self._kept = kept
        self._now = NOW
        self.history = History(kept.log)

    async def commit(self, offset: int, topic: str = "orders", partition: int = 0, group: str = GROUP) -> None:
        value = OffsetHistoryValue(offset, -1, "", NOW, -1, "", None, "etl", "/10.0.0.4")
        await self._write(group, topic, partition, value)

    async def set_for(self, cause: str, before: int, offset: int, partition: int = 0, *, later_ms: int = 1) -> None:
        value = OffsetHistoryValue(offset, -1, "", NOW, -1, "", None, "s", "/", cause=cause, replaced=before)
        await self._write(GROUP, "orders", partition, value, later_ms)

    async def delete(self, before: int, partition: int = 0, *, deleted: int = DELETED, later_ms: int = 1) -> None:
        who = (-1, "", None, "ops", "/10.0.0.5")
        value = OffsetHistoryValue(NO_OFFSET, -1, "", NOW, *who, cause=RESET, replaced=before, deleted=deleted)
        await self._write(GROUP, "orders", partition, value, later_ms)

    async def put(self, key: bytes, value: bytes) -> None:
        await self._kept.put((key, value), self._now)

    async def _write(
        self, group: str, topic: str, partition: int, value: OffsetHistoryValue, later_ms: int = 1
    ) -> None:
        self._now += later_ms
        await self._kept.write((OffsetHistoryKey(group, topic, partition, self._now), value))

    async def told(self, window: Window) -> list[Told]:
        moves = await self.history.moves(GROUP, window)
        assert moves is not None
        return [(each.topic, each.partition, each.before, each.offset) for each in moves]


@pytest.fixture
def group(kept: Kept) -> Group:
    return Group(kept)


async def test_commits_that_moved_nothing_are_left_out_before_the_newest_are_counted(group: Group) -> None:
    for offset in (3, 5, 500):
        await group.commit(offset)
        await group.commit(offset)
    for _ in range(50):
        await group.commit(500)
    assert await group.told(Window(last=2)) == [("orders", 0, 3, 5), ("orders", 0, 5, 500)]
    assert await group.told(Window()) == [("orders", 0, None, 3), ("orders", 0, 3, 5), ("orders", 0, 5, 500)]
    assert await group.told(Window(last=2, all_commits=True)) == [("orders", 0, 500, 500)] * 2
    assert len(await group.told(Window(all_commits=True))) == 56


async def test_what_was_before_is_known_from_what_is_left_out(group: Group) -> None:
    """A move back and forth is two; the window's beginning hides nothing of what came before it."""
    for offset in (7, 7, 3, 3, 7):
        await group.commit(offset)
    assert await group.told(Window(since_ms=NOW + 2)) == [("orders", 0, 7, 3), ("orders", 0, 3, 7)]
    assert await group.told(Window(since_ms=NOW + 4)) == [("orders", 0, 3, 7)]


async def test_partitions_move_each_by_itself(group: Group) -> None:
    for topic, partition in (("orders", 0), ("orders", 1), ("bills", 1), ("orders", 0)):
        await group.commit(7, topic, partition)
    every = [("orders", 0, None, 7), ("orders", 1, None, 7), ("bills", 1, None, 7)]
    assert await group.told(Window()) == every
    assert await group.told(Window(partitions={("orders", 1)})) == every[1:2]
    assert await group.told(Window(topics=["bills"], partitions={("orders", 1)})) == every[1:]
    assert await group.told(Window(topics=["bills"], last=9)) == every[2:]
    assert await group.told(Window(partitions={("bills", 0)})) == []


async def test_what_was_set_for_a_cause_is_told_though_it_moved_nothing(group: Group) -> None:
    await group.commit(7)
    await group.set_for(RESET, 7, 7)
    await group.commit(7)
    assert await group.told(Window()) == [("orders", 0, None, 7), ("orders", 0, 7, 7)]


async def test_a_group_of_which_there_is_nothing(group: Group) -> None:
    await group.commit(7)
    await group.commit(7)
    assert await group.history.moves("nosuch", Window()) is None
    assert await group.told(Window(since_ms=NOW + 2)) == [], "it has a history, and no move since then"


async def test_what_was_last_committed_by_then(group: Group) -> None:
    for offset, partition in ((7, 0), (8, 1), (9, 0)):
        await group.commit(offset, partition=partition)
    await group.set_for(ADOPTED, NOT_TOLD, 20, 1)
    assert await group.history.at(GROUP, NOW) == Then({}, set(), set(), begins=NOW + 1)
    assert await group.history.at(GROUP, NOW + 2) == Then(
        {("orders", 0): 7, ("orders", 1): 8}, {("orders", 1)}, set(), begins=NOW + 1
    )
    assert await group.history.at(GROUP, NOW + 4) == Then(
        {("orders", 0): 9, ("orders", 1): 20}, set(), set(), begins=NOW + 1
    )


async def test_what_had_been_deleted_by_then_and_what_was_deleted_since(group: Group) -> None:
    first, second = ("orders", 0), ("orders", 1)
    await group.commit(7)
    await group.commit(8, partition=1)
    await group.delete(7)
    await group.commit(9)
    await group.delete(8, partition=1)
    assert await group.history.at(GROUP, NOW + 2) == Then({first: 7, second: 8}, set(), {first, second}, begins=NOW + 1)
    assert await group.history.at(GROUP, NOW + 3) == Then(
        {first: NO_OFFSET, second: 8}, set(), {second}, begins=NOW + 1
    )
    assert await group.history.at(GROUP, NOW + 5) == Then({first: 9, second: NO_OFFSET}, set(), set(), begins=NOW + 1)
    moves = await group.history.moves(GROUP, Window(partitions={first}))
    assert moves is not None
    assert [(each.before, each.offset, each.deleted) for each in moves] == [
        (None, 7, False),
        (7, NO_OFFSET, True),
        (NO_OFFSET, 9, False),
    ]


async def test_who_has_deleted_has_not_committed_last(group: Group) -> None:
    await group.commit(7)
    await group.delete(7)
    last = await group.history.last_commit(GROUP)
    assert last is not None
    assert (last.offset, last.client_id) == (7, "etl")


async def test_what_a_reset_has_taken_away_is_a_part_of_it_and_what_somebody_deletes_is_not(group: Group) -> None:
    await group.commit(7)
    await group.set_for(RESET, 7, 5)
    await group.delete(8, 1, deleted=TAKEN_AWAY, later_ms=0)
    await group.delete(5)
    last = (await group.history.last_reset(GROUP)).moves
    assert [(each.partition, each.before, each.offset, each.deleted) for each in last] == [
        (0, 7, 5, False),
        (1, 8, NO_OFFSET, True),
    ]


async def test_what_the_last_reset_has_set(group: Group) -> None:
    async def set_last() -> list[tuple[int, int | None, int]]:
        return [(each.partition, each.before, each.offset) for each in (await group.history.last_reset(GROUP)).moves]

    await group.commit(7)
    assert await set_last() == []
    await group.set_for(RESET, 7, 5)
    await group.set_for(RESET, 5, 3)
    await group.set_for(RESET, 6, 4, 1, later_ms=0)
    await group.commit(4)
    assert await set_last() == [(0, 5, 3), (1, 6, 4)]
    await group.set_for(ADOPTED, NOT_TOLD, 9)
    assert await set_last() == []


@pytest.mark.parametrize(
    ("key", "told"),
    [
        (b"\0\x09" + GROUP.encode(), "another version of the shim"),
        (b"\0\x00" + GROUP.encode(), "is damaged"),
    ],
)
async def test_what_cannot_be_read_is_not_passed_over_where_offsets_are_set_by_it(
    group: Group, key: bytes, told: str
) -> None:
    """It may be of a later commit: an older offset would be set, and read twice."""
    await group.commit(7)
    await group.put(key, b"\0\0")
    with pytest.raises(Refused, match=told):
        await group.history.at(GROUP, NOW + 9)
    with pytest.raises(Refused, match=told):
        await group.history.last_reset(GROUP)
    assert await group.told(Window()) == [("orders", 0, None, 7)], "it can be looked at"
    await group.commit(5, group="another")
    assert (await group.history.at("another", NOW + 9)).offsets == {("orders", 0): 5}, "it is not of that one"
