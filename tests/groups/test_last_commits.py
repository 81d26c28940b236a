"""Who committed last: looked for in the history once, and then only in what is new."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

from protocol.own.history_log import OffsetHistoryKey, OffsetHistoryValue
from shim.disk_log.history import DiskHistoryLog
from shim.groups import last_commits
from shim.groups.history import History
from shim.groups.last_commits import LastCommits
from shim.groups.words import Moved, Refused
from shim.log import OffsetsLog
from shim.runtime import history_log
from shim.runtime.history_log import HistoryBatch, HistoryLog
from tests.groups.kept import Kept

NOW: Final = 1_767_225_600_123


class Watched(History):
    """Remembers from where it was read."""

    def __init__(self, log: HistoryLog) -> None:
        super().__init__(log)
        self.reads: list[int] = []

    async def last_commit(self, group: str, since: int = 0) -> Moved | None:
        self.reads.append(since)
        return await super().last_commit(group, since)


@pytest.fixture
def history(kept: Kept) -> Watched:
    return Watched(kept.log)


async def commit(kept: Kept, group: str, offset: int) -> None:
    key = OffsetHistoryKey(group, "orders", 0, NOW + offset)
    await kept.write((key, OffsetHistoryValue(offset, -1, "", NOW, -1, "", None, "etl", "/127.0.0.1")))


async def offset(commits: LastCommits, group: str) -> int | None:
    found = await commits.of(group)
    return None if found is None else found.offset


async def test_only_what_is_new_is_read(kept: Kept, history: Watched) -> None:
    commits = LastCommits(history)
    assert await offset(commits, "g") is None
    for number in range(20):
        await commit(kept, "g", number)
    assert await offset(commits, "g") == 19
    assert await offset(commits, "g") == 19
    assert history.reads == [0, 0], "where nothing is new, nothing is read"
    for number in range(20):
        await commit(kept, "other", 100 + number)
    assert await offset(commits, "g") == 19
    assert history.reads == [0, 0, 20]
    await commit(kept, "g", 7)
    assert await offset(commits, "g") == 7
    assert history.reads == [0, 0, 20, 40]
    assert await offset(commits, "other") == 119


async def test_each_part_of_the_log_is_looked_into(
    kept: Kept, history: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever lies between: the newest there is at or after that offset, and none before it."""
    monkeypatch.setattr(history_log, "_NEWEST_OFFSETS", 2)
    groups = [f"g{number % 3}" for number in range(30)]
    for number, group in enumerate(groups):
        await commit(kept, group, number)
    assert len(await kept.log.parts(0)) > 3
    for since in range(31):
        for group in {*groups, "nobody"}:
            expected = max((at for at in range(since, 30) if groups[at] == group), default=None)
            found = await history.last_commit(group, since)
            assert (None if found is None else found.offset) == expected


async def test_no_part_of_the_log_is_read_twice(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_log, "_NEWEST_OFFSETS", 2)
    for number in range(30):
        await commit(kept, "g", number)
    found: list[int] = []

    def take(batches: Iterable[HistoryBatch]) -> None:
        found.extend(record.offset for batch in batches for record in batch.records)

    for since in (0, 7, 29, 30):
        for part in reversed(await kept.log.parts(0, since)):
            await kept.log.read(0, part, take)
        assert found == [*range(since, 30)]
        found.clear()


async def test_a_look_that_takes_too_long_is_not_made_at_each_poll(
    kept: Kept, history: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits = LastCommits(history)
    await commit(kept, "g", 1)
    monkeypatch.setattr(last_commits, "_READ_SECONDS", 0.0)
    assert await commits.of("g") is None
    monkeypatch.setattr(last_commits, "_READ_SECONDS", 30.0)
    assert await commits.of("g") is None
    assert history.reads == [0]
    await commit(kept, "g", 2)
    assert await offset(commits, "g") == 2
    assert history.reads == [0, 1]
    monkeypatch.setattr(last_commits, "_READ_SECONDS", 0.0)
    monkeypatch.setattr(last_commits, "_AGAIN_SECONDS", 0.0)
    assert await commits.of("h") is None
    monkeypatch.setattr(last_commits, "_READ_SECONDS", 30.0)
    assert await commits.of("h") is None
    assert history.reads == [0, 1, 0, 0]


async def test_what_is_known_outlasts_a_look_that_takes_too_long(
    kept: Kept, history: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The history is read by one thread: somebody else may keep it busy."""
    commits = LastCommits(history)
    await commit(kept, "g", 1)
    assert await offset(commits, "g") == 1
    await commit(kept, "other", 2)
    monkeypatch.setattr(last_commits, "_READ_SECONDS", 0.0)
    assert await offset(commits, "g") == 1
    monkeypatch.setattr(last_commits, "_READ_SECONDS", 30.0)
    await commit(kept, "g", 3)
    assert await offset(commits, "g") == 3
    assert history.reads == [0, 1, 2], "what could not be read in time is not tried again at once"


async def test_what_was_passed_over_is_read_later(
    kept: Kept, history: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits = LastCommits(history)
    await commit(kept, "g", 1)
    assert await offset(commits, "g") == 1
    await commit(kept, "g", 2)
    monkeypatch.setattr(last_commits, "_READ_SECONDS", 0.0)
    monkeypatch.setattr(last_commits, "_AGAIN_SECONDS", 0.0)
    assert await offset(commits, "g") == 1
    monkeypatch.setattr(last_commits, "_READ_SECONDS", 30.0)
    assert await offset(commits, "g") == 2
    assert history.reads == [0, 1, 0]


async def test_groups_beyond_those_that_are_kept(kept: Kept, history: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last_commits, "MOST_KEPT", 2)
    commits = LastCommits(history)
    for number, group in enumerate("abc"):
        await commit(kept, group, number)
    for group in "abacab":
        assert await offset(commits, group) == "abc".index(group)
    assert len(history.reads) == 4, "of b, which was looked at longest ago, it was read again"


async def test_without_a_history(tmp_path: Path) -> None:
    log = OffsetsLog.open(tmp_path / "data", 1)
    history = History(DiskHistoryLog(log, _nothing_waits))
    try:
        with pytest.raises(Refused, match="no history is kept"):
            await LastCommits(history).of("g")
    finally:
        history.close()
        log.close()


async def _nothing_waits(_number: int) -> None:
    pass
