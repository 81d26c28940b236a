"""What is cleaned, in which order and how fast, what is left alone, and what is remembered of it."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event

import pytest

from protocol.topic_partition import TopicPartition
from shim.log.cleaner.cleaner import Cleaner
from shim.log.cleaner.cleaning import CleanerSettings
from shim.log.cleaner.compaction import Dirtiness, dirtiness, group_segments
from shim.log.cleaner.throttler import CleaningStopped, Throttler
from shim.log.disk.checkpoint import CLEANER_OFFSET_CHECKPOINT, read_checkpoint
from shim.log.disk.files import Files
from shim.log.disk.layout import segment_name
from shim.log.errors import CorruptLog
from shim.log.segments.segment import Segment
from tests.log.cleaner.folder import ALWAYS, NOW, Folder, clean, cleaner, put
from tests.log.faulty_files import FaultyFiles


def segments_of(*sizes: int, offsets: int = 10) -> list[Segment]:
    return [Segment(Path(str(i)), i * offsets, (i + 1) * offsets, size) for i, size in enumerate(sizes)]


@pytest.mark.parametrize(
    ("first_dirty", "expected"),
    [(0, Dirtiness(0, 60)), (9, Dirtiness(0, 60)), (10, Dirtiness(10, 50)), (20, Dirtiness(30, 30)), (30, (60, 0))],
)
def test_dirtiness(first_dirty: int, expected: tuple[int, int]) -> None:
    assert dirtiness(segments_of(10, 20, 30), first_dirty) == expected


def test_the_dirty_ratio() -> None:
    assert dirtiness([], 0).ratio == 0
    assert dirtiness(segments_of(10, 20, 30), 20).ratio == 0.5
    assert dirtiness(segments_of(10, 20, 30), 30).ratio == 0


def test_segments_are_grouped_by_size() -> None:
    sizes = [[segment.size for segment in group] for group in group_segments(segments_of(4, 4, 4, 9, 30, 1), 12, 99)]
    assert sizes == [[4, 4, 4], [9], [30], [1]]


def test_segments_are_grouped_by_index_size() -> None:
    groups = group_segments(segments_of(*[4096 * 3] * 5), 1 << 30, 2 * 3 * 8)
    assert list(map(len, groups)) == [2, 2, 1]


def test_segments_are_grouped_by_offsets() -> None:
    step = 2**30
    groups = group_segments(segments_of(1, 1, 1, 1, 1, offsets=step), 100, 100)
    assert list(map(len, groups)) == [2, 2, 1], "relative offsets up to 2^31 - 1"


def test_a_partition_is_cleaned_when_it_is_dirty_enough_and_the_dirtiest_first(tmp_path: Path) -> None:
    folders = [Folder(tmp_path, partition=i) for i in range(4)]
    for folder in folders:
        for _ in range(4):
            folder.append(put("a"))
            folder.begin_segment()
    clean_up_to = Cleaner(tmp_path, folders, CleanerSettings())
    assert {clean_up_to.step(NOW).partition.partition for _ in folders} == {0, 1, 2, 3}  # type: ignore[union-attr]
    assert clean_up_to.step(NOW) is None
    one_size = folders[0].closed_segments()[0].size
    for folder, segments in zip(folders, (0, 1, 4, 2), strict=True):
        assert folder.closed_segments()[0].size == one_size, "one record is left"
        for _ in range(segments):
            folder.append(put("a"))
            folder.begin_segment()
    cleaned = [clean_up_to.step(NOW) for _ in range(2)]
    assert [(stats.partition.partition, round(stats.ratio, 2)) for stats in cleaned if stats] == [(2, 0.8), (3, 0.67)]
    assert clean_up_to.step(NOW) is None, "one half is not more than 0.5"
    again = Cleaner(tmp_path, folders, CleanerSettings(min_cleanable_ratio=0.49))
    stats = again.step(NOW)
    assert stats is not None
    assert stats.partition.partition == 1
    assert again.step(NOW) is None


def test_the_active_segment_is_left_alone(folder: Folder) -> None:
    folder.append(put("a"))
    folder.append(put("a"))
    assert cleaner(folder).step(NOW) is None
    folder.begin_segment()
    folder.append(put("a"))
    before = folder.active.read_bytes()
    assert clean(folder).end_offset == 2
    assert folder.active.read_bytes() == before
    assert [record.offset for record in folder.records()] == [1, 2], "what is newer in the active one is not looked at"


def test_it_stops_between_batches(folder: Folder) -> None:
    for i in range(100):
        folder.append(put(f"key-{i % 10}"))
    folder.begin_segment()
    before = folder.contents()
    stopping = Cleaner(
        folder.folder.parent,
        [folder],
        CleanerSettings(min_cleanable_ratio=0.0, io_max_bytes_per_second=1000.0),
        clock=lambda: 0.0,
        wait=lambda _: stopping.stop(),
    )
    with pytest.raises(CleaningStopped):
        stopping.step(NOW)
    assert folder.contents() == before
    with pytest.raises(CleaningStopped):
        stopping.step(NOW)
    assert clean(folder).records_written == 10


def test_it_keeps_the_pace(folder: Folder) -> None:
    for i in range(200):
        folder.append(put(f"key-{i}", "x" * 100))
    folder.begin_segment()
    now = 1000.0
    waits = []

    def wait(seconds: float) -> None:
        nonlocal now
        waits.append(seconds)
        now += seconds

    slow = CleanerSettings(min_cleanable_ratio=0.0, io_max_bytes_per_second=10_000.0)
    stats = Cleaner(folder.folder.parent, [folder], slow, clock=lambda: now, wait=wait).step(NOW)
    assert stats is not None
    assert stats.bytes_read == 2 * folder.closed_segments()[0].size
    assert stats.bytes_written == 0, "nothing changed, and what was written is less than a buffer"
    assert stats.seconds == sum(waits) == pytest.approx(stats.bytes_read / 10_000.0)


def test_a_pause_earns_no_burst() -> None:
    now = 0.0
    waits: list[float] = []
    throttler = Throttler(100.0, Event(), lambda: now, waits.append)
    throttler.spend(100)
    now = 50.0
    throttler.spend(100)
    assert waits == [1.0, 1.0]


def test_a_damaged_segment_is_left_and_others_are_cleaned(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    damaged, whole = Folder(tmp_path, partition=0), Folder(tmp_path, partition=1)
    for folder in (damaged, whole):
        for _ in range(5):
            folder.append(put("a"))
            folder.begin_segment()
    path = damaged.folder / segment_name(2)
    log = bytearray(path.read_bytes())
    log[-2] ^= 1
    path.write_bytes(log)
    before = damaged.contents()
    compactor = Cleaner(tmp_path, [damaged, whole], ALWAYS)
    with caplog.at_level(logging.INFO):
        stats = compactor.step(NOW)
    assert stats is not None
    assert stats.partition == whole.topic_partition
    assert len(whole.records()) == 1
    (line,) = caplog.messages
    assert f"{path} is damaged at byte 0" in line
    assert list(compactor.uncleanable) == [damaged.topic_partition]
    assert compactor.step(NOW) is None
    assert damaged.contents() == before


def test_a_swap_that_broke_off_and_is_damaged_is_said(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(5):
        folder.append(put("a"))
        folder.begin_segment()
    compactor = cleaner(folder)
    damage = CorruptLog(folder.folder / "00000000000000000000.log.swap", 7, "CRC mismatch")
    failures: list[Exception] = [OSError(errno.EIO, "write"), damage]

    def swap_segments(old: Sequence[Segment], swap: Callable[[], None]) -> bool:
        raise failures.pop(0)

    monkeypatch.setattr(folder, "swap_segments", swap_segments)
    assert compactor.step(NOW) is None
    assert compactor.uncleanable == {}
    assert compactor.step(NOW) is None
    assert compactor.uncleanable == {folder.topic_partition: damage}
    assert str(damage) in caplog.messages[-1]


def test_a_missing_segment_is_noticed(folder: Folder) -> None:
    for i in range(4):
        folder.append(put(f"key-{i % 2}", str(i)))
        folder.begin_segment()
    clean(folder, CleanerSettings(min_cleanable_ratio=0.0, segment_bytes=1))
    assert len(folder.closed_segments()) == 4
    (folder.folder / segment_name(2)).unlink()
    (folder.folder.parent / CLEANER_OFFSET_CHECKPOINT).unlink()
    before = folder.contents()
    compactor = cleaner(folder)
    assert compactor.step(NOW) is None
    assert "the segment ends here at offset 2, the next one begins at 3" in str(compactor.uncleanable)
    assert folder.contents() == before


def test_the_checkpoint_outlives_the_cleaner_and_other_partitions_stay_in_it(tmp_path: Path) -> None:
    folders = [Folder(tmp_path, partition=i) for i in range(2)]
    for folder in folders:
        folder.append(put("a"), put("a"))
        folder.begin_segment()
        assert cleaner(folder, CleanerSettings()).step(NOW) is not None
    again = Cleaner(tmp_path, folders, ALWAYS)
    assert again.step(NOW) is None
    assert read_checkpoint(Files(), tmp_path / CLEANER_OFFSET_CHECKPOINT) == {
        TopicPartition("topic", 0): 2,
        TopicPartition("topic", 1): 2,
    }


@pytest.mark.parametrize("text", ["0\n1\ntopic 0 99\n", "nonsense"])
def test_a_checkpoint_that_cannot_be_true_is_forgotten(
    folder: Folder, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    folder.append(put("a"), put("a"))
    folder.begin_segment()
    path = folder.folder.parent / CLEANER_OFFSET_CHECKPOINT
    path.write_text(text)
    assert clean(folder).first_dirty_offset == 0
    assert "count as dirty" in caplog.text
    assert read_checkpoint(Files(), path) == {folder.topic_partition: 2}


def test_a_checkpoint_that_cannot_be_read_is_forgotten(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Bad sectors in what only spares work keep nothing from being cleaned for good."""
    files = FaultyFiles()
    folder = Folder(tmp_path, files)
    folder.append(put("a"), put("a"))
    folder.begin_segment()
    assert clean(folder).end_offset == 2
    files.fail("open", errno.EIO, CLEANER_OFFSET_CHECKPOINT)
    assert clean(folder).first_dirty_offset == 0
    assert "count as dirty" in caplog.text
    files.heal()
    assert read_checkpoint(files, tmp_path / CLEANER_OFFSET_CHECKPOINT) == {folder.topic_partition: 2}
