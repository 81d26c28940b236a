"""Which of a group's commits are told as moves, and which of them are the newest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from protocol.own.history_log import HISTORY_TOPIC, OffsetHistoryKey, OffsetHistoryValue, encode_history
from shim.groups.history import History
from shim.groups.words import Window
from shim.log import OFFSETS_TOPIC, OffsetsLog
from shim.log.offsets_log import PartitionWrite

NOW: Final = 1_767_225_600_123
GROUP: Final = "g"
RESET: Final = "groups reset --to-current"

Told = tuple[str, int, int | None, int]


class Group:
    """With a history in a log of one partition. Each commit is a millisecond after the one before."""

    def __init__(self, log: OffsetsLog) -> None:
        self._log = log
        self._now = NOW
        self.history = History(log)

    def commit(self, offset: int, topic: str = "orders", partition: int = 0, group: str = GROUP) -> None:
        self._write(group, topic, partition, OffsetHistoryValue(offset, -1, "", NOW, -1, "", None, "etl", "/10.0.0.4"))

    def reset(self, before: int, offset: int) -> None:
        value = OffsetHistoryValue(offset, -1, "", NOW, -1, "", None, "s", "/", cause=RESET, replaced=before)
        self._write(GROUP, "orders", 0, value)

    def _write(self, group: str, topic: str, partition: int, value: OffsetHistoryValue) -> None:
        self._now += 1
        records = [encode_history((OffsetHistoryKey(group, topic, partition, self._now), value))]
        assert self._log.write([PartitionWrite(0, [records], NOW, topic=HISTORY_TOPIC)]) == {}

    async def told(self, window: Window) -> list[Told]:
        moves = await self.history.moves(GROUP, window)
        assert moves is not None
        return [(each.topic, each.partition, each.before, each.offset) for each in moves]


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Group]:
    topics = (OFFSETS_TOPIC, HISTORY_TOPIC)
    log = OffsetsLog.open(tmp_path / "data", 1, topics=topics)
    for topic in topics:
        assert list(log.recover(0, topic=topic)) == []
    group = Group(log)
    try:
        yield group
    finally:
        group.history.close()
        log.close()


async def test_commits_that_moved_nothing_are_left_out_before_the_newest_are_counted(group: Group) -> None:
    for offset in (3, 5, 500):
        group.commit(offset)
        group.commit(offset)
    for _ in range(50):
        group.commit(500)
    assert await group.told(Window(last=2)) == [("orders", 0, 3, 5), ("orders", 0, 5, 500)]
    assert await group.told(Window()) == [("orders", 0, None, 3), ("orders", 0, 3, 5), ("orders", 0, 5, 500)]
    assert await group.told(Window(last=2, all_commits=True)) == [("orders", 0, 500, 500)] * 2
    assert len(await group.told(Window(all_commits=True))) == 56


async def test_what_was_before_is_known_from_what_is_left_out(group: Group) -> None:
    """A move back and forth is two; the window's beginning hides nothing of what came before it."""
    for offset in (7, 7, 3, 3, 7):
        group.commit(offset)
    assert await group.told(Window(since_ms=NOW + 2)) == [("orders", 0, 7, 3), ("orders", 0, 3, 7)]
    assert await group.told(Window(since_ms=NOW + 4)) == [("orders", 0, 3, 7)]


async def test_partitions_move_each_by_itself(group: Group) -> None:
    for topic, partition in (("orders", 0), ("orders", 1), ("bills", 1), ("orders", 0)):
        group.commit(7, topic, partition)
    every = [("orders", 0, None, 7), ("orders", 1, None, 7), ("bills", 1, None, 7)]
    assert await group.told(Window()) == every
    assert await group.told(Window(partitions={("orders", 1)})) == every[1:2]
    assert await group.told(Window(topics=["bills"], partitions={("orders", 1)})) == every[1:]
    assert await group.told(Window(topics=["bills"], last=9)) == every[2:]
    assert await group.told(Window(partitions={("bills", 0)})) == []


async def test_what_was_set_for_a_cause_is_told_though_it_moved_nothing(group: Group) -> None:
    group.commit(7)
    group.reset(7, 7)
    group.commit(7)
    assert await group.told(Window()) == [("orders", 0, None, 7), ("orders", 0, 7, 7)]


async def test_a_group_of_which_there_is_nothing(group: Group) -> None:
    group.commit(7)
    group.commit(7)
    assert await group.history.moves("nosuch", Window()) is None
    assert await group.told(Window(since_ms=NOW + 2)) == [], "it has a history, and no move since then"
