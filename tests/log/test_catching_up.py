"""A cleaner that falls behind: what is superseded is not read twice, and its turns get longer."""

from __future__ import annotations

import random
from pathlib import Path
from threading import Event

import pytest

from protocol.records.batches import BatchHeader, Record, records_of
from shim.log.cleaner.cleaner import Cleaner
from shim.log.cleaner.cleaning import CleanerSettings
from shim.log.cleaner.offset_map import OffsetMap
from shim.log.cleaner.throttler import Throttler
from shim.log.disk.files import Files
from shim.log.disk.layout import segment_name
from shim.log.segments.closed import ClosedSegments
from shim.log.segments.segment import Segment
from shim.log.segments.swap import cleaned_path, swap
from tests.log.cleaner.folder import NOW, Folder, clean, put
from tests.log.faulty_files import FaultyFiles


def test_a_batch_that_is_superseded_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Folder(tmp_path)
    for number in range(50):
        folder.append(put("a", str(number)), put("b", str(number)))
    folder.append(put("c"))
    folder.begin_segment()
    read: list[int] = []

    def noted(buf: bytes, pos: int, header: BatchHeader, max_size: int = 0) -> list[Record]:
        read.append(header.base_offset)
        return records_of(buf, pos, header, max_size)

    monkeypatch.setattr("shim.log.segments.segment.records_of", noted)
    assert clean(folder).records_read == 101
    assert read == [*range(0, 101, 2), 98, 100]
    monkeypatch.undo()
    assert [record.offset for record in folder.records()] == [98, 99, 100]


@pytest.mark.parametrize("seed", range(30))
def test_what_is_not_read_would_not_have_stayed(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In rounds over a log that is clean in part, with tombstones, and with maps that are full inside a segment."""

    def cleaned(name: str) -> dict[str, bytes]:
        rng = random.Random(seed)
        (tmp_path / name).mkdir()
        folder = Folder(tmp_path / name)
        settings = CleanerSettings(
            min_cleanable_ratio=0.0, dedupe_buffer_size=rng.choice((400, 1 << 20)), delete_retention_ms=1_000
        )
        for round_number in range(4):
            for _ in range(rng.randrange(1, 30)):
                keys = rng.choices("abcdefgh", k=rng.randrange(1, 4))
                folder.append(*(put(key, None if rng.random() < 0.3 else "v") for key in keys))
                if rng.random() < 0.2:
                    folder.begin_segment()
            Cleaner(tmp_path / name, [folder], settings).step(NOW + 600 * round_number)
        return {path.name: path.read_bytes() for path in folder.folder.iterdir()}

    found = cleaned("with")
    monkeypatch.setattr(OffsetMap, "supersedes", lambda newest, header: False)
    assert cleaned("without") == found


@pytest.mark.parametrize(("behind", "turn_ms"), [(0.0, 0.5), (1.0, 2.0), (2.0, 8.0), (3.0, 32.0), (1e9, 32.0)])
def test_turns_are_longer_the_further_it_is_behind(behind: float, turn_ms: float) -> None:
    now = 0.0
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(now)

    throttler = Throttler(1e12, Event(), lambda: now, wait)
    throttler.hurry(behind)
    for step in range(1, 40_001):
        now = step * 2.5e-5
        throttler.spend(1)
    assert len(waits) == pytest.approx(1_000 / turn_ms, rel=0.1)


def test_how_far_behind_is_what_waits_beside_what_should(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[float] = []
    monkeypatch.setattr(Throttler, "hurry", lambda throttler, behind: told.append(behind))
    folder = Folder(tmp_path)
    for _ in range(10):
        folder.append(put("a"))
        folder.begin_segment()
    dirty = sum(segment.size for segment in folder.closed_segments())
    settings = CleanerSettings(min_cleanable_ratio=0.0, segment_bytes=dirty // 5)
    assert Cleaner(tmp_path, [folder], settings).step(NOW) is not None
    assert told == [dirty / (dirty // 5)]


def test_a_swap_looks_at_its_own_segments_only(tmp_path: Path) -> None:
    files = FaultyFiles()
    segments = [Segment(tmp_path / segment_name(base), base, base + 10, 1) for base in range(0, 1_000, 10)]
    for segment in segments:
        segment.path.write_bytes(b"x")
    closed = ClosedSegments(files, tmp_path)
    closed.know(segments)
    closed.finish_swap()
    cleaned_path(tmp_path, 500).write_bytes(b"both")
    files.calls.clear()
    assert closed.swap(segments[50:52], lambda: swap(Files(), tmp_path, [500, 510]))
    assert {path for _, path in files.calls} <= {segments[50].path}
    both = Segment(segments[50].path, 500, 520, 4)
    assert list(closed.listed()) == [*segments[:50], both, *segments[52:]]
