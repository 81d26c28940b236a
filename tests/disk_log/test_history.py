"""The history on the disk in parts: what they have, and how much is read by who finds what he looks for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

from protocol.own.history_log import HISTORY_TOPIC, OffsetHistoryKey, OffsetHistoryValue, encode_history
from protocol.partition import OFFSETS_TOPIC
from protocol.records.batches import Record, batches, decode_records
from shim.disk_log.history import DiskHistoryLog
from shim.groups import history
from shim.groups.history import History
from shim.groups.words import Moved
from shim.log import OffsetsLog
from shim.log.disk.files import Files
from shim.log.disk.layout import segment_name
from shim.log.offsets_log import PartitionWrite
from shim.log.segments import index
from shim.log.settings import LogSettings
from shim.runtime import history_log
from shim.runtime.history_log import HistoryBatch, Part

NOW: Final = 1_767_225_600_123
READ_SIZE: Final = 1000
SETTINGS: Final = LogSettings(segment_bytes=60_000)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "INTERVAL_BYTES", 400)
    monkeypatch.setattr("shim.log.segments.segment._READ_SIZE", READ_SIZE)
    monkeypatch.setattr(history_log, "_NEWEST_OFFSETS", 8)


class CountingFiles(Files):
    def __init__(self) -> None:
        self.bytes_read = 0

    def pread(self, fd: int, size: int, position: int) -> bytes:
        data = super().pread(fd, size, position)
        self.bytes_read += len(data)
        return data


class Watched(DiskHistoryLog):
    """Remembers which parts were read."""

    def __init__(self, offsets_log: OffsetsLog) -> None:
        super().__init__(offsets_log, self._settled_here)
        self._offsets_log = offsets_log
        self.read_parts: list[Part] = []

    async def _settled_here(self, number: int) -> None:
        self._offsets_log.settle(number, topic=HISTORY_TOPIC)

    async def read(self, number: int, part: Part, take: history_log.Take) -> None:
        self.read_parts.append(part)
        await super().read(number, part, take)


class OnDisk:
    def __init__(self, log: OffsetsLog, files: CountingFiles) -> None:
        self.log = log
        self.files = files
        self.history_log = Watched(log)
        self.history = History(self.history_log)

    def commit(self, *groups: str) -> None:
        """In one batch, in which the end of the log is the first one's offset."""
        first = self.log.log_end_offset(0, topic=HISTORY_TOPIC)
        records = [
            encode_history(
                (
                    OffsetHistoryKey(group, "orders", 0, NOW + offset),
                    OffsetHistoryValue(offset, -1, "", NOW, -1, "", None, "etl", "/127.0.0.1"),
                )
            )
            for offset, group in enumerate(groups, first)
        ]
        assert self.log.write([PartitionWrite(0, [records], NOW, topic=HISTORY_TOPIC)]) == {}

    async def offsets(self, part: Part) -> list[int]:
        found: list[int] = []

        def take(batches: Iterable[HistoryBatch]) -> None:
            found.extend(record.offset for batch in batches for record in batch.records)

        await self.history_log.read(0, part, take)
        return found

    async def parts(self, since: int = 0) -> Sequence[Part]:
        """From the oldest one on."""
        return (await self.history_log.parts(0, since))[::-1]

    async def last_commit(self, group: str) -> tuple[Moved | None, int, list[Part]]:
        """With the bytes and parts that were read for it."""
        self.files.bytes_read = 0
        self.history_log.read_parts.clear()
        found = await self.history.last_commit(group)
        return found, self.files.bytes_read, list(self.history_log.read_parts)


@asynccontextmanager
async def on_disk(data_dir: Path, start_offset: int = 0, anchor: int | None = None) -> AsyncIterator[OnDisk]:
    files = CountingFiles()
    log = OffsetsLog.open(data_dir, 1, topics=(OFFSETS_TOPIC, HISTORY_TOPIC), settings=SETTINGS, files=files)
    assert list(log.recover(0)) == []
    list(log.recover(0, topic=HISTORY_TOPIC, start_offset=start_offset, anchor=anchor))
    kept = OnDisk(log, files)
    try:
        yield kept
    finally:
        kept.history_log.close()
        log.close()


async def test_parts_of_one_segment_have_each_offset_once(tmp_path: Path) -> None:
    async with on_disk(tmp_path) as kept:
        for _ in range(150):
            kept.commit("g")
        assert kept.log.partition_log(0, topic=HISTORY_TOPIC).closed_segments() == []
        for since in (0, 1, 77, 149):
            parts = await kept.parts(since)
            assert (parts[0].first, parts[-1].end) == (since, 150)
            assert [offset for part in parts for offset in await kept.offsets(part)] == [*range(since, 150)]
        assert [part.end - part.first for part in (await kept.parts())[::-1]] == [8, 16, 32, 64, 30]
        assert await kept.parts(150) == []


async def test_parts_of_many_segments_have_each_offset(tmp_path: Path) -> None:
    """A batch that is in two of them comes with both."""
    async with on_disk(tmp_path) as kept:
        while len(kept.log.partition_log(0, topic=HISTORY_TOPIC).closed_segments()) < 3:
            kept.commit(*["g"] * 5)
        end = await kept.history_log.end(0)
        parts = await kept.parts()
        assert (parts[0].first, parts[-1].end) == (0, end)
        for part, newer in pairwise(parts):
            assert part.end == newer.first
        for part in parts:
            assert await kept.offsets(part) == [*range(part.first // 5 * 5, -(-part.end // 5) * 5)]


async def test_who_is_in_the_newest_part_is_found_by_reading_no_other(tmp_path: Path) -> None:
    async with on_disk(tmp_path) as kept:
        kept.commit("idle")
        for _ in range(300):
            kept.commit("busy")
        size = sum(path.stat().st_size for path in (tmp_path / f"{HISTORY_TOPIC}-0").glob("*.log"))
        found, bytes_read, parts = await kept.last_commit("busy")
        assert found is not None
        assert found.offset == 300
        assert parts == [Part(293, 301)]
        assert bytes_read <= 3 * READ_SIZE < size / 5
        found, bytes_read, parts = await kept.last_commit("idle")
        assert found is not None
        assert found.offset == 0
        assert parts[-1].first == 0
        assert bytes_read >= size


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The batches whose records were asked for."""
    decoded = []

    def noted(raw: bytes) -> list[Record]:
        decoded.append(raw)
        return decode_records(raw)

    monkeypatch.setattr(history_log, "decode_records", noted)
    return decoded


@pytest.mark.parametrize(("held_bytes", "batches"), [(100_000, 1), (250, 4), (1, 8)])
async def test_of_what_is_held_the_newest_is_decoded(
    tmp_path: Path, decoded: list[bytes], monkeypatch: pytest.MonkeyPatch, held_bytes: int, batches: int
) -> None:
    monkeypatch.setattr(history, "_HELD_BYTES", held_bytes)
    async with on_disk(tmp_path) as kept:
        for _ in range(100):
            kept.commit("busy")
        found, _, _ = await kept.last_commit("busy")
        assert found is not None
        assert found.offset == 99
        assert len(decoded) == batches


async def test_of_others_commits_nothing_is_decoded(tmp_path: Path, decoded: list[bytes]) -> None:
    async with on_disk(tmp_path) as kept:
        kept.commit("idle", "idle", "busy")
        for _ in range(100):
            kept.commit("busy")
        found, _, _ = await kept.last_commit("idle")
        assert found is not None
        assert found.offset == 1, "the newest of that batch"
        assert len(decoded) == 1


async def test_where_a_start_has_skipped_the_beginning_that_is_one_part(tmp_path: Path) -> None:
    async with on_disk(tmp_path) as kept:
        for _ in range(150):
            kept.commit("g")
    segment = tmp_path / f"{HISTORY_TOPIC}-0" / segment_name(0)
    anchor = {header.next_offset: position for position, header in batches(segment.read_bytes())}[100]
    async with on_disk(tmp_path, 100, anchor) as kept:
        parts = await kept.parts()
        assert parts == [Part(0, 126), Part(126, 142), Part(142, 150)]
        assert [offset for part in parts for offset in await kept.offsets(part)] == [*range(150)]
        _, bytes_read, parts = await kept.last_commit("g")
        assert parts == [Part(142, 150)]
        assert bytes_read <= 3 * READ_SIZE
