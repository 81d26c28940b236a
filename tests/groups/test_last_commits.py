"""Who committed last: looked for in the history once, and then only in what is new."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from protocol.own.history_log import HISTORY_TOPIC, OffsetHistoryKey, OffsetHistoryValue, encode_history
from shim.groups import last_commits
from shim.groups.history import History
from shim.groups.last_commits import LastCommits
from shim.groups.words import Moved, Refused
from shim.log import OFFSETS_TOPIC, OffsetsLog
from shim.log.offsets_log import PartitionWrite
from shim.log.settings import LogSettings

NOW: Final = 1_767_225_600_123


class Watched(History):
    """Remembers from where it was read."""

    def __init__(self, log: OffsetsLog) -> None:
        super().__init__(log)
        self.reads: list[int] = []

    async def last_commit(self, group: str, since: int = 0) -> Moved | None:
        self.reads.append(since)
        return await super().last_commit(group, since)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[OffsetsLog]:
    """Of one partition, whose segments are small."""
    topics = (OFFSETS_TOPIC, HISTORY_TOPIC)
    log = OffsetsLog.open(tmp_path / "data", 1, topics=topics, settings=LogSettings(segment_bytes=400))
    try:
        for topic in topics:
            assert list(log.recover(0, topic=topic)) == []
        yield log
    finally:
        log.close()


@pytest.fixture
def history(log: OffsetsLog) -> Iterator[Watched]:
    history = Watched(log)
    yield history
    history.close()


def commit(log: OffsetsLog, group: str, offset: int) -> None:
    key = OffsetHistoryKey(group, "orders", 0, NOW + offset)
    value = OffsetHistoryValue(offset, -1, "", NOW, -1, "", None, "etl", "/127.0.0.1")
    records = [encode_history((key, value))]
    assert log.write([PartitionWrite(0, [records], NOW, topic=HISTORY_TOPIC)]) == {}


async def offset(commits: LastCommits, group: str) -> int | None:
    found = await commits.of(group)
    return None if found is None else found.offset


async def test_only_what_is_new_is_read(log: OffsetsLog, history: Watched) -> None:
    commits = LastCommits(history)
    assert await offset(commits, "g") is None
    for number in range(20):
        commit(log, "g", number)
    assert await offset(commits, "g") == 19
    assert await offset(commits, "g") == 19
    assert history.reads == [0, 0], "where nothing is new, nothing is read"
    for number in range(20):
        commit(log, "other", 100 + number)
    assert await offset(commits, "g") == 19
    assert history.reads == [0, 0, 20]
    commit(log, "g", 7)
    assert await offset(commits, "g") == 7
    assert history.reads == [0, 0, 20, 40]
    assert await offset(commits, "other") == 119


async def test_each_part_of_the_log_is_looked_into(log: OffsetsLog, history: Watched) -> None:
    """Whatever segments lie between: the newest there is at or after that offset, and none before it."""
    groups = [f"g{number % 3}" for number in range(30)]
    for number, group in enumerate(groups):
        commit(log, group, number)
    assert len(log.partition_log(0, topic=HISTORY_TOPIC).closed_segments()) > 3
    for since in range(31):
        for group in {*groups, "nobody"}:
            expected = max((at for at in range(since, 30) if groups[at] == group), default=None)
            found = await history.last_commit(group, since)
            assert (None if found is None else found.offset) == expected


async def test_a_look_that_takes_too_long_is_not_made_at_each_poll(
    log: OffsetsLog, history: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits = LastCommits(history)
    commit(log, "g", 1)
    monkeypatch.setattr(last_commits, "_READ_SECONDS", 0.0)
    assert await commits.of("g") is None
    monkeypatch.setattr(last_commits, "_READ_SECONDS", 30.0)
    assert await commits.of("g") is None
    assert history.reads == [0]
    commit(log, "g", 2)
    assert await offset(commits, "g") == 2
    assert history.reads == [0, 1]
    monkeypatch.setattr(last_commits, "_READ_SECONDS", 0.0)
    monkeypatch.setattr(last_commits, "_AGAIN_SECONDS", 0.0)
    assert await commits.of("h") is None
    monkeypatch.setattr(last_commits, "_READ_SECONDS", 30.0)
    assert await commits.of("h") is None
    assert history.reads == [0, 1, 0, 0]


async def test_what_is_known_outlasts_a_look_that_takes_too_long(
    log: OffsetsLog, history: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The history is read by one thread: somebody else may keep it busy."""
    commits = LastCommits(history)
    commit(log, "g", 1)
    assert await offset(commits, "g") == 1
    commit(log, "other", 2)
    monkeypatch.setattr(last_commits, "_READ_SECONDS", 0.0)
    assert await offset(commits, "g") == 1
    monkeypatch.setattr(last_commits, "_READ_SECONDS", 30.0)
    commit(log, "g", 3)
    assert await offset(commits, "g") == 3
    assert history.reads == [0, 1, 1], "it is read on from where the last look ended"


async def test_groups_beyond_those_that_are_kept(
    log: OffsetsLog, history: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(last_commits, "MOST_KEPT", 2)
    commits = LastCommits(history)
    for number, group in enumerate("abc"):
        commit(log, group, number)
    for group in "abacab":
        assert await offset(commits, group) == "abc".index(group)
    assert len(history.reads) == 4, "of b, which was looked at longest ago, it was read again"


async def test_without_a_history(tmp_path: Path) -> None:
    log = OffsetsLog.open(tmp_path / "data", 1)
    history = History(log)
    try:
        with pytest.raises(Refused, match="no history is kept"):
            await LastCommits(history).of("g")
    finally:
        history.close()
        log.close()
