"""Reading while others append and compact; the index that it begins with; loading from an offset on."""

from __future__ import annotations

import errno
import logging
import random
import struct
import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from protocol.records.batches import batches
from shim.demo.parts.tools import DUMP_LOG_SEGMENTS, java_tool
from shim.log.disk.layout import index_name
from shim.log.errors import CorruptLog, LogError
from shim.log.offsets_log import OffsetsLog
from shim.log.segments import index
from shim.log.segments.active import LogEnd
from shim.log.segments.segment import Segment
from shim.log.settings import LogSettings
from tests.log.faulty_files import FaultyFiles
from tests.log.rolled import (
    NOW,
    Record,
    append,
    closed,
    crashed,
    fill,
    folder_of,
    opened,
    records_of,
    segment_of,
)

LARGER = LogSettings(segment_bytes=2000)


@pytest.fixture(autouse=True)
def _close_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "INTERVAL_BYTES", 200)


@pytest.fixture
def files() -> FaultyFiles:
    return FaultyFiles()


@pytest.fixture
def log(tmp_path: Path, files: FaultyFiles) -> Iterator[OffsetsLog]:
    log = opened(tmp_path, LARGER, files=files)
    yield log
    log.close()
    assert files.open_files == {}


def read(log: OffsetsLog, offset: int = 0) -> list[Record]:
    found = [record for batch in log.partition_log(0).read(offset) for record in batch.records]
    found = [record for record in found if record.offset >= offset]
    assert [record.offset for record in found] == list(range(offset, offset + len(found)))
    return [(record.key or b"", record.value) for record in found]


def index_of(segment: Segment) -> Path:
    return segment.path.with_name(index_name(segment.base_offset))


# --- the index -------------------------------------------------------------------------------------------------------


def test_an_index_points_to_batches(log: OffsetsLog) -> None:
    fill(log, 100)
    assert len(closed(log)) > 3
    for segment in closed(log):
        found = dict(batches(segment.path.read_bytes()))
        entries = list(struct.iter_unpack(">ii", index_of(segment).read_bytes()))
        assert len(entries) > 4
        assert [found[position].last_offset - segment.base_offset for _, position in entries] == [e for e, _ in entries]
        gaps = [b - a for (_, a), (_, b) in pairwise(entries)]
        assert all(200 < gap < 400 for gap in gaps)


def test_kafka_finds_nothing_wrong_with_an_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "INTERVAL_BYTES", 4096)
    log = opened(tmp_path, LogSettings(segment_bytes=100_000))
    while len(closed(log)) < 3:
        append(log, *[(b"key", bytes(random.Random(1).randrange(2000)))] * 3)
    indexes = [index_of(segment) for segment in closed(log)]
    assert all(path.stat().st_size > 100 for path in indexes)
    told = java_tool(DUMP_LOG_SEGMENTS, "--index-sanity-check", "--files", ",".join(map(str, indexes))).stdout
    assert told.count("passed sanity check") == len(indexes)
    told = java_tool(DUMP_LOG_SEGMENTS, "--verify-index-only", "--files", ",".join(map(str, indexes))).stdout
    assert "mismatch" not in told.lower()
    log.close()


def damage(path: Path, rng: random.Random) -> str:
    data = path.read_bytes()
    kind = rng.choice(("missing", "empty", "short", "torn", "zeros", "bit", "shuffled", "garbage", "long"))
    if kind == "missing":
        path.unlink()
        return kind
    if kind == "bit":
        changed = bytearray(data)
        changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        data = bytes(changed)
    entries = [data[i : i + 8] for i in range(0, len(data), 8)]
    rng.shuffle(entries)
    data = {
        "empty": b"",
        "short": data[: len(data) // 16 * 8],
        "torn": data[: rng.randrange(len(data))],
        "zeros": bytes(len(data)),
        "shuffled": b"".join(entries),
        "garbage": rng.randbytes(len(data)),
        "long": data + struct.pack(">ii", 2**31 - 1, 2**31 - 1),
    }.get(kind, data)
    path.write_bytes(data)
    return kind


def test_a_damaged_index_misleads_nobody(log: OffsetsLog) -> None:
    written = fill(log, 120)
    rng = random.Random(7)
    segments = closed(log)
    whole = {segment: index_of(segment).read_bytes() for segment in segments}
    kinds = set()
    for _ in range(300):
        segment = rng.choice(segments)
        kinds.add(damage(index_of(segment), rng))
        start = rng.randrange(segment.base_offset + 1, segment.next_offset)
        assert read(log, start) == written[start:]
        index_of(segment).write_bytes(whole[segment])
    assert len(kinds) == 9


@pytest.mark.parametrize("content", [None, b"", b"\0" * 64, b"x" * 33])
def test_an_index_is_made_anew_once(log: OffsetsLog, files: FaultyFiles, content: bytes | None) -> None:
    written = fill(log, 60)
    segment = closed(log)[0]
    whole = index_of(segment).read_bytes()
    index_of(segment).unlink()
    if content is not None:
        index_of(segment).write_bytes(content)
    for made in (1, 0):
        files.calls.clear()
        assert read(log, segment.next_offset - 1) == written[segment.next_offset - 1 :]
        assert files.calls.count(("create", index_of(segment))) == made
    assert index_of(segment).read_bytes() == whole


def test_an_index_that_cannot_be_read_is_as_good_as_none(
    log: OffsetsLog, files: FaultyFiles, caplog: pytest.LogCaptureFixture
) -> None:
    """Bad sectors in what is of no worth keep nobody from what is there, and go with it."""
    written = fill(log, 60)
    segment = closed(log)[0]
    files.fail("pread", errno.EIO, ".index")
    with caplog.at_level(logging.WARNING):
        assert read(log, segment.next_offset - 1) == written[segment.next_offset - 1 :]
    assert f"{index_of(segment)}: not read, and made anew: " in caplog.text
    files.heal()
    files.calls.clear()
    assert read(log, segment.next_offset - 1) == written[segment.next_offset - 1 :]
    assert ("create", index_of(segment)) not in files.calls


def test_with_an_index_only_the_end_of_a_segment_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shim.log.segments.segment._READ_SIZE", 100)
    files = FaultyFiles()
    log = opened(tmp_path, LogSettings(segment_bytes=50_000), files=files)
    while not closed(log):
        fill(log, 30)
    (segment,) = closed(log)
    files.calls.clear()
    assert read(log, segment.next_offset - 1)
    assert files.calls.count(("pread", segment.path)) < 30
    index_of(segment).write_bytes(b"")
    files.calls.clear()
    assert read(log, segment.next_offset - 1)
    assert files.calls.count(("pread", segment.path)) > 100
    log.close()


def test_of_the_active_segment_only_the_end_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shim.log.segments.segment._READ_SIZE", 100)
    files = FaultyFiles()
    log = opened(tmp_path, LogSettings(), files=files)
    written = fill(log, 300)
    for again in (False, True):
        files.calls.clear()
        assert read(log, len(written) - 1) == written[-1:]
        assert files.calls.count(("pread", segment_of(tmp_path, 0))) < 10
        if not again:
            records_of(log)
    log.close()


# --- reading on ------------------------------------------------------------------------------------------------------


def test_from_any_offset_on(log: OffsetsLog) -> None:
    assert read(log) == []
    written = fill(log, 60)
    for offset in range(len(written) + 3):
        assert read(log, offset) == written[offset:]


def test_only_what_is_acknowledged_is_read(log: OffsetsLog, files: FaultyFiles) -> None:
    written = fill(log, 30)
    seen: list[int] = []
    files.faults["fdatasync"] = lambda path: seen.append(len(read(log)))
    more = fill(log, 10)
    assert seen[0] == len(written)
    assert max(seen) < len(written) + len(more)
    files.heal()
    assert read(log) == written + more


def test_what_is_being_written_is_not_begun_with(log: OffsetsLog, files: FaultyFiles) -> None:
    written = fill(log, 3)
    seen: list[list[Record]] = []
    files.faults["fdatasync"] = lambda path: seen.extend(read(log, len(written) + back) for back in (-1, 0, 1, 50))
    append(log, *[(b"key", bytes(300))] * 3)
    files.heal()
    assert seen[:4] == [written[-1:], [], [], []]


def test_reading_meets_damage(log: OffsetsLog) -> None:
    fill(log, 60)
    segment = closed(log)[1]
    data = bytearray(segment.path.read_bytes())
    data[100] ^= 1
    segment.path.write_bytes(data)
    with pytest.raises(CorruptLog) as corrupt:
        read(log)
    assert (corrupt.value.path, corrupt.value.position) == (segment.path, 0)


def test_a_recovery_ends_a_reading(log: OffsetsLog) -> None:
    fill(log, 60)
    reading = log.partition_log(0).read()
    next(reading)
    records_of(log)
    with pytest.raises(LogError, match="given up"):
        list(reading)


def replace(log: OffsetsLog, old: list[Segment]) -> bool:
    """As a cleaner does that finds nothing to drop: the old ones' bytes in one file, in the first one's place."""
    first, *others = old
    merged = first.path.with_suffix(".merged")
    merged.write_bytes(b"".join(segment.path.read_bytes() for segment in old))

    def swap() -> None:
        for segment in others:
            segment.path.unlink()
        merged.rename(first.path)

    return log.partition_log(0).swap_segments(old, swap)


def test_closed_segments_are_replaced(log: OffsetsLog) -> None:
    written = fill(log, 120)
    before = closed(log)
    assert replace(log, before[1:4])
    size = sum(segment.size for segment in before[1:4])
    merged = Segment(before[1].path, before[1].base_offset, before[3].next_offset, size)
    assert closed(log) == [before[0], merged, *before[4:]]
    assert read(log) == written
    for offset in range(before[1].base_offset, before[4].next_offset, 3):
        assert read(log, offset) == written[offset:]
    # By now they are not there any more, nor neighbours, nor closed.
    for gone in (before[1:4], before[2:4], [before[0], before[4]], []):
        assert not log.partition_log(0).swap_segments(gone, lambda: pytest.fail("swapped"))
    assert records_of(log) == written
    assert closed(log) == [before[0], merged, *before[4:]]


def test_nothing_is_replaced_during_a_recovery(log: OffsetsLog) -> None:
    fill(log, 60)
    old = closed(log)[:2]
    recovery = log.recover(0)
    next(recovery)
    assert not log.partition_log(0).swap_segments(old, lambda: pytest.fail("swapped"))
    list(recovery)
    assert replace(log, old)


def test_a_failed_replacement_is_put_in_order_first(log: OffsetsLog, monkeypatch: pytest.MonkeyPatch) -> None:
    written = fill(log, 60)
    finished: list[Path] = []
    monkeypatch.setattr("shim.log.segments.closed.finish_swap", lambda files, folder: finished.append(folder))

    def broken() -> None:
        raise OSError("broken")

    for then in (lambda: read(log), lambda: records_of(log), lambda: replace(log, closed(log)[:1])):
        with pytest.raises(OSError, match="broken"):
            log.partition_log(0).swap_segments(closed(log)[:1], broken)
        finished.clear()
        then()
        assert len(finished) == 1
    assert read(log) == written


def test_appends_readings_and_swaps_at_once(log: OffsetsLog) -> None:
    fill(log, 40)
    stop = threading.Event()
    problems: list[BaseException] = []
    read_up_to = [0]

    def reads() -> None:
        rng = random.Random(3)
        try:
            while not stop.is_set():
                offset = rng.randrange(log.log_end_offset(0))
                found = read(log, offset)
                assert all(key == b"key-%d" % (offset + i) for i, (key, _) in enumerate(found))
                read_up_to.append(offset + len(found))
        except BaseException as problem:
            problems.append(problem)

    def swaps() -> None:
        rng = random.Random(4)
        try:
            while not stop.is_set():
                segments = closed(log)
                at = rng.randrange(len(segments))
                assert replace(log, segments[at : at + rng.randrange(1, 4)])
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=reads), threading.Thread(target=reads), threading.Thread(target=swaps)]
    for thread in threads:
        thread.start()
    for _ in range(40):
        fill(log, 8)
    stop.set()
    for thread in threads:
        thread.join()
    assert problems == []
    assert max(read_up_to) > 500
    assert len(records_of(log)) == log.log_end_offset(0)


# --- loading from an offset on ---------------------------------------------------------------------------------------


def positions(data_dir: Path, base_offset: int) -> dict[int, int]:
    """Offset that a batch of the segment ends at, to the position of that batch."""
    return {h.next_offset: at for at, h in batches(segment_of(data_dir, base_offset).read_bytes())}


def test_loading_from_an_offset_on(log: OffsetsLog) -> None:
    written = fill(log, 60)
    for offset in range(len(written) + 2):
        found = list(log.recover(0, start_offset=offset))
        assert [record.offset for record in found] == list(range(offset, len(written)))
        assert [(record.key, record.value) for record in found] == written[offset:]
        assert log.log_end_offset(0) == len(written)


@pytest.mark.parametrize("clean", [True, False])
def test_what_is_below_the_anchor_is_not_read(tmp_path: Path, clean: bool) -> None:
    log = opened(tmp_path, LARGER)
    written = fill(log, 66)
    base_offset = closed(log)[-1].next_offset
    log.close()
    ends = positions(tmp_path, base_offset)
    assert len(ends) > 3
    start, anchor = sorted(ends.items())[2]
    whole = segment_of(tmp_path, base_offset).read_bytes()
    damaged = bytearray(whole)
    damaged[anchor - 10] ^= 1
    segment_of(tmp_path, base_offset).write_bytes(damaged)
    if not clean:
        crashed(tmp_path, recovery_point=start)
    log = OffsetsLog.open(tmp_path, 1, settings=LARGER)
    with pytest.raises(CorruptLog):
        list(log.recover(0, start_offset=start))
    found = list(log.recover(0, start_offset=start, anchor=anchor))
    assert [(record.key, record.value) for record in found] == written[start:]
    # It goes on as if all had been read.
    segment_of(tmp_path, base_offset).write_bytes(whole)
    written += fill(log, 30)
    assert read(log) == written
    assert len(closed(log)) > 1
    log.close()
    log = opened(tmp_path, LARGER)
    assert records_of(log) == written
    log.close()


def test_behind_the_anchor_a_reading_begins_near(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it nobody knows where anything is: that begins where the segment does."""
    written = fill(log := opened(tmp_path, LogSettings(segment_bytes=20_000)), 300)
    base_offset = closed(log)[-1].next_offset
    log.close()
    ends = sorted(positions(tmp_path, base_offset).items())
    monkeypatch.setattr("shim.log.segments.segment._READ_SIZE", 100)
    for start, anchor in (ends[0], ends[len(ends) // 2], ends[-1]):
        files = FaultyFiles()
        log = OffsetsLog.open(tmp_path, 1, settings=LogSettings(segment_bytes=20_000), files=files)
        found = list(log.recover(0, start_offset=start, anchor=anchor))
        assert [record.offset for record in found] == list(range(start, len(written)))
        written += fill(log, 20)
        for offset in range(len(written)):
            near = log.partition_log(0).seekable(offset)
            assert near == (base_offset if anchor and base_offset < offset < start - 1 else offset)
        for edge in (3, base_offset, start, len(written) - 3):
            for offset in range(edge - 3, edge + 3):
                assert read(log, offset) == written[offset:]
        files.calls.clear()
        assert read(log, len(written) - 1)
        assert files.calls.count(("pread", segment_of(tmp_path, base_offset))) < 10
        log.close()


def test_an_anchor_that_is_not_there_counts_for_nothing(tmp_path: Path) -> None:
    log = opened(tmp_path, LARGER)
    written = fill(log, 60)
    base_offset = closed(log)[-1].next_offset
    ends = positions(tmp_path, base_offset)
    start = sorted(ends)[2]
    size = segment_of(tmp_path, base_offset).stat().st_size
    for anchor in {*range(-5, size + 5)} - {ends[start]}:
        found = list(log.recover(0, start_offset=start, anchor=anchor))
        assert [(record.key, record.value) for record in found] == written[start:]
        assert log.log_end_offset(0) == len(written)
    log.close()


def test_above_the_recovery_point_everything_is_checked(tmp_path: Path) -> None:
    log = opened(tmp_path, LogSettings())
    fill(log, 20)
    log.close()
    ends = sorted(positions(tmp_path, 0).items())
    start, anchor = ends[5]
    data = bytearray(segment_of(tmp_path, 0).read_bytes())
    data[anchor - 10] ^= 1
    segment_of(tmp_path, 0).write_bytes(data)
    crashed(tmp_path, recovery_point=ends[3][0])
    log = OffsetsLog.open(tmp_path, 1)
    with pytest.raises(CorruptLog, match="sound batch follows"):
        list(log.recover(0, start_offset=start, anchor=anchor))
    log.close()


def test_an_age_is_known_after_loading_from_an_anchor(tmp_path: Path) -> None:
    settings = LogSettings(roll_ms=1000)
    log = opened(tmp_path, settings)
    for late in range(5):
        append(log, (b"key", b"v"), timestamp_ms=NOW + 100 * late)
    log.close()
    log = OffsetsLog.open(tmp_path, 1, settings=settings)
    assert len(list(log.recover(0, start_offset=4, anchor=positions(tmp_path, 0)[4]))) == 1
    append(log, (b"key", b"v"), timestamp_ms=NOW + 1000)
    assert closed(log) == []
    append(log, (b"key", b"v"), timestamp_ms=NOW + 1001)
    assert [segment.next_offset for segment in closed(log)] == [6]
    assert not (folder_of(tmp_path) / index_name(0)).exists()
    log.close()


def test_a_segment_that_is_rolled_just_now_is_found(log: OffsetsLog, files: FaultyFiles) -> None:
    """Whoever looks up an offset of the active segment meets a roll: by then it is in a closed one."""
    fill(log, 60)
    partition = log.partition_log(0)
    offset = log.log_end_offset(0)
    append(log, (b"looked up", b""))
    count = len(closed(log))

    def end() -> LogEnd:
        while len(closed(log)) == count:
            fill(log, 1)
        return partition._ends.acknowledged

    segment, is_last, fd = partition._closed.open_at(offset, end)
    files.close(fd)
    assert not is_last
    assert segment.base_offset <= offset < segment.next_offset
