"""Rolling: when a segment ends, what is there then, and what happens when the roll fails."""

from __future__ import annotations

import dataclasses
import errno
import logging
import random
from contextlib import suppress
from pathlib import Path

import pytest

from protocol.records.batches import batches
from shim.config import INT64_MAX, Settings
from shim.log.disk.checkpoint import RECOVERY_POINT_CHECKPOINT
from shim.log.disk.files import Files
from shim.log.disk.layout import index_name, segment_base_offsets
from shim.log.errors import LogError
from shim.log.offsets_log import OffsetsLog, PartitionWrite
from shim.log.segments import active
from shim.log.settings import LogSettings
from tests.log.faulty_files import FaultyFiles, FillingFiles
from tests.log.lost_files import LostFiles, PowerFailure
from tests.log.rolled import NOW, SMALL, Record, append, closed, fill, folder_of, opened, records_of, segment_of

DATA_DIR = Path("/data")


def bases(data_dir: Path) -> list[int]:
    return segment_base_offsets(Files(), folder_of(data_dir))


def test_a_segment_ends_before_it_would_be_too_large(tmp_path: Path) -> None:
    log = opened(tmp_path)
    written = fill(log, 40)
    segments = closed(log)
    assert len(segments) > 5
    for segment, after in zip(segments, [*segments[1:], None], strict=True):
        data = segment.path.read_bytes()
        found = list(batches(data))
        assert segment.size == len(data) <= SMALL.segment_bytes
        assert found[0][1].base_offset == segment.base_offset
        assert found[-1][1].next_offset == segment.next_offset
        if after is not None:
            (_, first), *_ = batches(after.path.read_bytes())
            assert segment.next_offset == after.base_offset
            assert len(data) + first.size > SMALL.segment_bytes
    assert [s.base_offset for s in segments] == bases(tmp_path)[:-1]
    assert records_of(log) == written
    assert closed(log) == segments
    log.close()
    log = opened(tmp_path)
    assert closed(log) == segments
    assert records_of(log) == written
    assert fill(log, 3)
    log.close()


def test_a_batch_larger_than_a_segment_is_alone_in_one(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for size in (10, 1000, 1000, 10):
        append(log, (b"k", bytes(size)))
    assert bases(tmp_path) == [0, 1, 2, 3]
    log.close()


def test_a_segment_ends_by_the_age_of_its_first_batch(tmp_path: Path) -> None:
    settings = LogSettings(roll_ms=1000)
    log = opened(tmp_path, settings)
    for timestamp in (NOW, NOW + 1000, NOW - 5000, NOW + 1001, NOW + 2001):
        append(log, (b"k", b"v"), timestamp_ms=timestamp)
    assert bases(tmp_path) == [0, 3]
    log.close()
    # The age is that of the batches, whoever wrote them: it is known again after a restart.
    log = opened(tmp_path, settings)
    append(log, (b"k", b"v"), timestamp_ms=NOW + 2001)
    assert bases(tmp_path) == [0, 3]
    append(log, (b"k", b"v"), timestamp_ms=NOW + 2002)
    assert bases(tmp_path) == [0, 3, 6]
    log.close()


def test_a_segment_ends_before_its_offsets_are_too_far_from_its_base(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(active, "_MAX_RELATIVE_OFFSET", 4)
    log = opened(tmp_path, LogSettings())
    for count in (3, 2, 1, 4, 1):
        append(log, *[(b"k", b"v")] * count)
    assert bases(tmp_path) == [0, 5, 10]
    log.close()


def test_an_empty_segment_is_never_rolled(tmp_path: Path) -> None:
    log = opened(tmp_path, LogSettings(segment_bytes=1, roll_ms=1))
    append(log, (b"k", b"v"))
    assert bases(tmp_path) == [0]
    log.close()
    log = opened(tmp_path, LogSettings(segment_bytes=1, roll_ms=1))
    append(log, (b"k", b"v"), timestamp_ms=NOW + 10_000)
    assert bases(tmp_path) == [0, 1]
    log.close()


def test_the_order_of_a_roll(tmp_path: Path) -> None:
    files = FaultyFiles()
    log = opened(tmp_path, dataclasses.replace(SMALL, flush_interval_messages=1000), files=files)
    append(log, (b"k", bytes(200)))
    files.calls.clear()
    append(log, (b"k", bytes(200)))
    old, new = segment_of(tmp_path, 0), segment_of(tmp_path, 1)
    note = tmp_path / RECOVERY_POINT_CHECKPOINT
    unfinished = note.with_name(f"{note.name}.tmp")
    assert [call for call in files.calls if call[1].suffix != ".index"] == [
        ("fdatasync", old),
        ("create", new),
        ("sync_directory", folder_of(tmp_path)),
        ("pwrite", new),
        ("create", unfinished),
        ("pwrite", unfinished),
        ("fdatasync", unfinished),
        ("rename", note),
        ("sync_directory", tmp_path),
    ]
    log.close()
    assert files.open_files == {}


@pytest.mark.parametrize("method", ["create", "sync_directory", "pwrite", "fdatasync"])
@pytest.mark.parametrize("loose", [False, True])
def test_a_roll_that_fails_is_taken_back(tmp_path: Path, method: str, loose: bool) -> None:
    files = FaultyFiles()
    settings = dataclasses.replace(SMALL, flush_interval_messages=1000 if loose else 1)
    log = opened(tmp_path, settings, files=files)
    append(log, (b"a", bytes(200)))
    files.fail(method, errno.EIO)
    failed = log.write([PartitionWrite(0, [[(b"b", bytes(200))]], NOW)])
    assert failed[0].errno == errno.EIO
    assert closed(log) == []
    files.heal()
    found = [key for key, _ in records_of(log)]
    # A failed sync under a loose policy takes with it what it should have made durable.
    assert found == ([] if loose and method == "fdatasync" else [b"a"])
    assert bases(tmp_path) == [0]
    append(log, (b"c", bytes(200)))
    assert [key for key, _ in records_of(log)] == [*found, b"c"]
    assert bases(tmp_path) == [0, 1][: len(found) + 1]
    log.close()
    assert files.open_files == {}


def test_several_rolls_in_one_write_are_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shim.log.segments.batching.MAX_BATCH_BYTES", 300)
    files = FaultyFiles()
    log = opened(tmp_path, files=files)
    written = fill(log, 1)
    record_sets = [[(b"%d" % i, bytes(250))] for i in range(5)]

    def fourth(path: Path) -> None:
        if path == segment_of(tmp_path, 4):
            raise OSError(errno.ENOSPC, "full")

    files.faults["pwrite"] = fourth
    assert log.write([PartitionWrite(0, record_sets, NOW)])[0].errno == errno.ENOSPC
    assert bases(tmp_path) == [0, 1, 2, 3, 4]
    assert closed(log) == []
    files.heal()
    assert records_of(log) == written
    assert bases(tmp_path) == [0]
    assert [path.name for path in folder_of(tmp_path).iterdir() if path.name != index_name(0)] == [f"{0:020d}.log"]
    log.close()


@pytest.mark.parametrize("seed", range(60))
def test_a_segment_that_is_taken_back_stays_away_where_the_folder_could_not_be_synced_at_first(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another sync of it may find nothing to write, and succeed."""
    monkeypatch.setattr("shim.log.segments.batching.MAX_BATCH_BYTES", 300)
    files = LostFiles(rng=random.Random(seed))
    log, written = with_rolls_that_failed(files)
    files.error_in, files.errors = frozenset({"sync_directory"}), {files.calls + seed % 4: errno.EIO}
    with pytest.raises(OSError, match="Input/output"):
        records_of(log)
    assert records_of(log) == written
    append(log, (b"more", b""))
    log = opened(DATA_DIR, files=files.after_power_failure())
    assert records_of(log) == [*written, (b"more", b"")]
    log.close()


def with_rolls_that_failed(files: LostFiles) -> tuple[OffsetsLog, list[Record]]:
    """A log that a failed write has begun three segments of, and what was acknowledged."""
    log = opened(DATA_DIR, files=files)
    written = fill(log, 1)
    files.error_in, files.errors = frozenset({"pwrite"}), dict.fromkeys(range(files.calls + 12, 99), errno.EIO)
    assert list(log.write([PartitionWrite(0, [[(b"%d" % i, bytes(250))] for i in range(3)], NOW)])) == [0]
    assert len(segment_base_offsets(files, folder_of(DATA_DIR))) == 4
    return log, written


@pytest.mark.parametrize("seed", range(60))
def test_it_stays_away_also_where_the_process_died_before_it_could(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the process dies right after the sync that failed, or a little later."""
    monkeypatch.setattr("shim.log.segments.batching.MAX_BATCH_BYTES", 300)
    files = LostFiles(rng=random.Random(seed))
    log, written = with_rolls_that_failed(files)
    failing = files.calls + seed % 10
    files.error_in, files.errors = frozenset({"sync_directory"}), {failing: errno.EIO}
    files.crash_at = failing + 1 + seed % 7
    with pytest.raises((OSError, PowerFailure)):
        records_of(log)
    with suppress(PowerFailure):
        records_of(log)
    files = files.after_kill()
    log = opened(DATA_DIR, files=files)
    found = records_of(log)
    assert found[: len(written)] == written
    append(log, (b"more", b""))
    log = opened(DATA_DIR, files=files.after_power_failure())
    assert records_of(log) == [*found, (b"more", b"")]
    log.close()


def test_rolls_that_a_failed_write_made_are_no_closed_segments(tmp_path: Path) -> None:
    """A cleaner that took one for closed would compact what becomes the active segment again."""
    files = FaultyFiles()
    log = opened(tmp_path, files=files)
    append(log, (b"a", bytes(200)))
    listed: list[object] = []
    files.faults["pwrite"] = lambda path: listed.append(closed(log))
    append(log, (b"b", bytes(200)))
    assert [] in listed
    files.heal()
    assert [s.base_offset for s in closed(log)] == [0]
    log.close()


def test_a_full_disk_at_a_roll(tmp_path: Path) -> None:
    files = FillingFiles()
    log = opened(tmp_path, files=files)
    append(log, (b"a", bytes(200)))
    files.room = 100
    assert log.write([PartitionWrite(0, [[(b"b", bytes(200))]], NOW)])[0].errno == errno.ENOSPC
    assert [key for key, _ in records_of(log)] == [b"a"]
    files.room = 10_000
    append(log, (b"b", bytes(200)))
    assert [key for key, _ in records_of(log)] == [b"a", b"b"]
    log.close()


def test_an_index_that_cannot_be_written_fails_no_append(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = FaultyFiles()
    log = opened(tmp_path, files=files)
    files.fail("create", errno.ENOSPC, ".index")
    with caplog.at_level(logging.WARNING):
        written = fill(log, 10)
    assert "index: not written" in caplog.text
    assert records_of(log) == written
    log.close()
    assert files.open_files == {}


def test_segments_are_not_listed_while_they_are_not_known(tmp_path: Path) -> None:
    log = opened(tmp_path)
    written = fill(log, 10)
    recovery = log.recover(0)
    next(recovery)
    with pytest.raises(LogError, match="not known before it is recovered"):
        closed(log)
    with pytest.raises(LogError, match="not known before it is recovered"):
        next(log.partition_log(0).read())
    assert len(list(recovery)) == len(written) - 1
    assert closed(log)
    log.close()


def test_settings_come_from_those_of_the_shim() -> None:
    assert LogSettings.of(Settings()) == LogSettings()
    loose = Settings(log_flush_interval_messages=10, log_flush_interval_ms=50, log_roll_ms=7)
    assert LogSettings.of(loose) == LogSettings(flush_interval_messages=10, flush_interval_ms=50, roll_ms=7)
    assert LogSettings().flushes_first
    assert not LogSettings.of(loose).flushes_first
    assert LogSettings().flush_interval_ms == INT64_MAX
