"""The offsets log: what is written comes back, and a failing disk loses nothing that was acknowledged."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.own.record_sets import LoggedRecord
from protocol.records.batches import HEADER_SIZE, batches, decode_records, encode_batch
from shim.log.errors import CorruptLog, LogError, RecoveryNeeded
from shim.log.journal.journal import JOURNAL_NAME
from shim.log.offsets_log import OffsetsLog, PartitionWrite
from shim.log.segments.batching import MAX_BATCH_BYTES
from shim.log.settings import LogSettings
from tests.log.faulty_files import FaultyFiles, FillingFiles, NeverSyncedFiles

NOW = 1_767_225_600_123
PARTITIONS = 6

RecordSet = list[tuple[bytes, bytes | None]]


def segment(data_dir: Path, partition: int) -> Path:
    return data_dir / f"__consumer_offsets-{partition}" / f"{0:020d}.log"


def recovered(log: OffsetsLog, partition: int) -> list[LoggedRecord]:
    return list(log.recover(partition))


def on_disk(data_dir: Path, partition: int) -> list[tuple[int, bytes | None, bytes | None]]:
    """(offset, key, value) of the records in the file, read without the log."""
    data = segment(data_dir, partition).read_bytes()
    return [(r.offset, r.key, r.value) for pos, _ in batches(data) for r in decode_records(data, pos)]


def open_segments(files: FaultyFiles) -> list[Path]:
    return [path for path in files.open_files.values() if path.name != JOURNAL_NAME]


@pytest.fixture
def files() -> FaultyFiles:
    return FaultyFiles()


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def log(data_dir: Path, files: FaultyFiles) -> Iterator[OffsetsLog]:
    log = OffsetsLog.open(data_dir, PARTITIONS, files=files)
    for partition in range(PARTITIONS):
        assert recovered(log, partition) == []
    yield log
    log.close()
    assert files.open_files == {}


def one(key: str, value: str | None = "v") -> RecordSet:
    return [(key.encode(), None if value is None else value.encode())]


def write(partition: int, *record_sets: RecordSet) -> PartitionWrite:
    return PartitionWrite(partition, list(record_sets), NOW)


# --- writing and reading back ----------------------------------------------------------------------------------------


def test_what_is_written_comes_back_after_a_restart(log: OffsetsLog, data_dir: Path) -> None:
    assert log.write([write(0, one("a"), one("b", None)), write(3, [(b"c", b"1"), (b"d", b"")])]) == {}
    assert log.write([write(0, one("a", "w"))]) == {}
    assert (log.log_end_offset(0), log.log_end_offset(1), log.log_end_offset(3)) == (3, 0, 2)
    log.close()
    again = OffsetsLog.open(data_dir, PARTITIONS)
    expected = [LoggedRecord(0, NOW, b"a", b"v"), LoggedRecord(1, NOW, b"b", None), LoggedRecord(2, NOW, b"a", b"w")]
    assert recovered(again, 0) == expected
    assert recovered(again, 3) == [LoggedRecord(0, NOW, b"c", b"1"), LoggedRecord(1, NOW, b"d", b"")]
    assert again.write([write(0, one("e"))]) == {}
    assert again.log_end_offset(0) == 4
    assert recovered(again, 0)[-1] == LoggedRecord(3, NOW, b"e", b"v")
    again.close()


def test_one_write_is_one_batch_a_partition_and_one_sync_for_all(
    log: OffsetsLog, data_dir: Path, files: FaultyFiles
) -> None:
    files.calls.clear()
    assert log.write([write(p, one("a"), one("b"), [(b"c", b"1")] * 3) for p in range(PARTITIONS)]) == {}
    journal = data_dir / JOURNAL_NAME
    assert files.calls == [
        *(("pwrite", segment(data_dir, p)) for p in range(PARTITIONS)),
        ("pwrite", journal),
        ("fdatasync", journal),
    ]
    for partition in range(PARTITIONS):
        ((_, header),) = batches(segment(data_dir, partition).read_bytes())
        assert (header.record_count, header.base_timestamp) == (5, NOW)


@settings(deadline=None)  # it waits for the disk
@given(
    writes=st.lists(
        st.dictionaries(
            st.integers(0, 2),
            st.lists(st.lists(st.tuples(st.binary(max_size=90), st.none() | st.binary(max_size=90)), max_size=5)),
        ),
        max_size=8,
    )
)
def test_round_trip(writes: list[dict[int, list[RecordSet]]], tmp_path_factory: pytest.TempPathFactory) -> None:
    data_dir = tmp_path_factory.mktemp("log")
    expected: dict[int, list[tuple[bytes, bytes | None]]] = {0: [], 1: [], 2: []}
    log = OffsetsLog.open(data_dir, 3, files=NeverSyncedFiles())
    for partition in expected:
        assert recovered(log, partition) == []
    for entry in writes:
        assert log.write([PartitionWrite(p, record_sets, NOW) for p, record_sets in entry.items()]) == {}
        for p, record_sets in entry.items():
            expected[p] += [record for record_set in record_sets for record in record_set]
    for reader in (log, None):
        if reader is None:
            log.close()
            log = OffsetsLog.open(data_dir, 3, files=NeverSyncedFiles())
        for partition, records in expected.items():
            found = recovered(log, partition)
            assert [(r.key, r.value) for r in found] == records
            assert [r.offset for r in found] == list(range(len(records)))
            assert log.log_end_offset(partition) == len(records)
    log.close()


def test_empty_writes_touch_nothing(log: OffsetsLog, data_dir: Path, files: FaultyFiles) -> None:
    files.calls.clear()
    assert log.write([write(0), write(1, []), write(2, [], [])]) == {}
    assert files.calls == []
    assert log.write([]) == {}
    assert log.write([write(1, [], one("a"), [])]) == {}
    assert len(on_disk(data_dir, 1)) == 1


def test_large_writes_are_split_between_record_sets_only(log: OffsetsLog, data_dir: Path, files: FaultyFiles) -> None:
    third: RecordSet = [(b"k%d" % i, b"x" * 1000) for i in range(350)]
    huge: RecordSet = [(b"h%d" % i, b"x" * 1000) for i in range(3000)]
    files.calls.clear()
    assert log.write([write(2, third, third, third, huge, one("last"))]) == {}
    # Each batch is durable before the next is written.
    assert [call for call, _ in files.calls] == ["pwrite", "fdatasync"] * 3 + ["pwrite", "pwrite", "fdatasync"]
    found = [header for _, header in batches(segment(data_dir, 2).read_bytes())]
    assert [header.record_count for header in found] == [700, 350, 3000, 1]
    assert all(header.size < MAX_BATCH_BYTES for header in found[:2])
    assert log.log_end_offset(2) == 4051
    assert [(r.key, r.value) for r in recovered(log, 2)] == third * 3 + huge + one("last")


def test_a_record_set_beyond_all_bounds_fails_alone(
    log: OffsetsLog, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shim.log.segments.batching.MAX_RECORD_SET_BYTES", 3 << 20)
    failed = log.write([write(0, one("a"), [(b"k", bytes(4 << 20))]), write(1, one("b"))])
    assert {p: error.errno for p, error in failed.items()} == {0: errno.EMSGSIZE}
    assert on_disk(data_dir, 0) == []
    assert on_disk(data_dir, 1) == [(0, b"b", b"v")]
    assert log.write([write(0, one("a"))]) == {}


@pytest.mark.parametrize(
    "bad",
    [
        [write(0, one("a")), write(PARTITIONS, one("b"))],
        [write(0, one("a")), write(-1, one("b"))],
        [write(0, one("a")), write(0, one("b"))],
        [write(0, one("a")), PartitionWrite(1, [one("b")], 2**63)],
    ],
    ids=["no such partition", "negative partition", "partition twice", "timestamp"],
)
def test_impossible_writes_write_nothing(log: OffsetsLog, data_dir: Path, bad: list[PartitionWrite]) -> None:
    with pytest.raises(ValueError, match=r"partition|field"):
        log.write(bad)
    assert on_disk(data_dir, 0) == on_disk(data_dir, 1) == []
    assert log.write([write(0, one("a")), write(1, one("b"))]) == {}


def test_nothing_is_written_before_recovery(data_dir: Path) -> None:
    log = OffsetsLog.open(data_dir, 2)
    assert isinstance(log.write([write(0, one("a"))])[0], RecoveryNeeded)
    with pytest.raises(LogError, match="recovered"):
        log.log_end_offset(0)
    unfinished = log.recover(0)
    assert isinstance(log.write([write(0, one("a"))])[0], RecoveryNeeded)
    assert list(unfinished) == []
    assert log.write([write(0, one("a"))]) == {}
    log.close()
    with pytest.raises(LogError, match="closed"):
        log.write([write(0, one("b"))])
    with pytest.raises(LogError, match="closed"):
        log.recover(0)


def test_an_older_recovery_is_given_up(log: OffsetsLog, files: FaultyFiles) -> None:
    assert log.write([write(0, one("a")), write(1, one("b"))]) == {}
    older = log.recover(0)
    assert next(older).key == b"a"
    assert len(recovered(log, 0)) == 1
    with pytest.raises(LogError, match="given up"):
        next(older)
    assert log.write([write(0, one("c"))]) == {}
    abandoned = log.recover(1)
    next(abandoned)
    del abandoned
    assert isinstance(log.write([write(1, one("d"))])[1], RecoveryNeeded)
    assert len(open_segments(files)) == PARTITIONS - 1


# --- failing disks ---------------------------------------------------------------------------------------------------


def test_short_writes_and_reads_are_continued(log: OffsetsLog, files: FaultyFiles) -> None:
    files.longest_write = 7
    files.longest_read = 11
    group: RecordSet = [(b"key%d" % i, b"value") for i in range(20)]
    assert log.write([write(0, group), write(1, one("a"))]) == {}
    assert [(r.key, r.value) for r in recovered(log, 0)] == group


def test_a_write_that_makes_no_progress_fails(log: OffsetsLog, files: FaultyFiles) -> None:
    files.longest_write = 0
    assert log.write([write(0, one("a"))])[0].errno == errno.EIO


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("method", ["pwrite", "fdatasync"])
@pytest.mark.parametrize("touched", [2, PARTITIONS], ids=["in turn", "side by side"])
def test_a_failing_partition_fails_alone(
    log: OffsetsLog, data_dir: Path, files: FaultyFiles, error: int, method: str, touched: int
) -> None:
    assert log.write([write(p, one("before")) for p in range(touched)]) == {}
    files.fail(method, error, "__consumer_offsets-1/", JOURNAL_NAME)
    failed = log.write([write(p, one("during")) for p in range(touched)])
    assert {p: e.errno for p, e in failed.items()} == {1: error}
    for partition in set(range(touched)) - {1}:
        assert [key for _, key, _ in on_disk(data_dir, partition)] == [b"before", b"during"]
        assert log.log_end_offset(partition) == 2
    assert log.log_end_offset(1) == 1

    # The disk is well again, but what it has is not known: no write is believed before the recovery.
    files.heal()
    failed = log.write([write(p, one("after")) for p in range(touched)])
    assert list(failed) == [1]
    assert isinstance(failed[1], RecoveryNeeded)
    assert [r.key for r in recovered(log, 1)] == [b"before"]
    assert log.write([write(1, one("again"))]) == {}
    assert [(offset, key) for offset, key, _ in on_disk(data_dir, 1)] == [(0, b"before"), (1, b"again")]
    assert [r.key for r in recovered(log, 0)] == [b"before", b"during", b"after"]


def test_the_bytes_of_a_failed_sync_are_cut_before_anything_is_read(
    log: OffsetsLog, data_dir: Path, files: FaultyFiles
) -> None:
    assert log.write([write(0, one("a"))]) == {}
    acknowledged = segment(data_dir, 0).read_bytes()
    files.fail("fdatasync", errno.EIO)
    assert list(log.write([write(0, one("b"))])) == [0]
    assert segment(data_dir, 0).read_bytes() != acknowledged  # whole and sound as it looks
    files.heal()
    files.calls.clear()
    assert [r.key for r in recovered(log, 0)] == [b"a"]
    assert segment(data_dir, 0).read_bytes() == acknowledged
    calls = [call for call, path in files.calls if path == segment(data_dir, 0)]
    assert calls[-4:] == ["truncate", "fsync", "drop_cache", "pread"]
    assert "pread" not in calls[:-4]
    assert [path.name for path in segment(data_dir, 0).parent.iterdir()] == [f"{0:020d}.log"]


@pytest.mark.parametrize("method", ["open", "truncate", "fsync", "pread"])
def test_a_recovery_that_fails_can_be_repeated(log: OffsetsLog, files: FaultyFiles, method: str) -> None:
    assert log.write([write(0, one("a"))]) == {}
    files.fail("fdatasync", errno.EIO)
    assert list(log.write([write(0, one("b"))])) == [0]
    files.heal()
    for _ in range(2):
        files.fail(method, errno.EIO)
        with pytest.raises(OSError, match="Input/output error"):
            recovered(log, 0)
        assert len(open_segments(files)) == PARTITIONS - 1
        files.heal()
        assert isinstance(log.write([write(0, one("c"))])[0], RecoveryNeeded)
    assert [r.key for r in recovered(log, 0)] == [b"a"]
    assert log.write([write(0, one("d"))]) == {}


@pytest.mark.parametrize("room", [0, 1, HEADER_SIZE, HEADER_SIZE + 40])
def test_a_full_disk(data_dir: Path, room: int) -> None:
    files = FillingFiles()
    log = OffsetsLog.open(data_dir, 2, files=files)
    assert recovered(log, 0) == recovered(log, 1) == []
    assert log.write([write(0, one("a")), write(1, one("b"))]) == {}
    files.room = room
    failed = log.write([write(0, [(b"big", b"x" * 100)])])
    assert failed[0].errno == errno.ENOSPC
    # There is nothing to gain room for: cutting back works on a full disk too.
    assert [r.key for r in recovered(log, 0)] == [b"a"]
    assert log.write([write(0, [(b"big", b"x" * 100)])])[0].errno == errno.ENOSPC
    files.room = 1000
    assert recovered(log, 0)
    assert log.write([write(0, [(b"big", b"x" * 100)])]) == {}
    assert [r.key for r in recovered(log, 0)] == [b"a", b"big"]
    log.close()
    assert files.open_files == {}


def test_a_later_batch_of_one_write_fails(log: OffsetsLog, data_dir: Path, files: FaultyFiles) -> None:
    assert log.write([write(0, one("a"))]) == {}
    syncs: list[Path] = []

    def second_sync_fails(path: Path) -> None:
        syncs.append(path)
        if len(syncs) == 2:
            raise OSError(errno.EIO, "second sync")

    files.faults["fdatasync"] = second_sync_fails
    half: RecordSet = [(b"k", b"x" * (MAX_BATCH_BYTES - 100))]
    assert list(log.write([write(0, half, half, half)])) == [0]
    files.heal()
    assert [r.key for r in recovered(log, 0)] == [b"a"]
    assert log.log_end_offset(0) == 1


def test_whatever_interrupts_a_write_leaves_the_partition_refusing(log: OffsetsLog, files: FaultyFiles) -> None:
    def interrupted(path: Path) -> None:
        raise KeyboardInterrupt

    faults: list[tuple[str, Callable[[Path], None]]] = [("pwrite", interrupted), ("fdatasync", interrupted)]
    for method, fault in faults:
        assert log.write([write(0, one("a"))]) == {}
        count = log.log_end_offset(0)
        files.faults[method] = fault
        with pytest.raises(KeyboardInterrupt):
            log.write([write(0, one("b"))])
        files.heal()
        assert isinstance(log.write([write(0, one("c"))])[0], RecoveryNeeded)
        assert [r.key for r in recovered(log, 0)] == [b"a"] * count


def test_acknowledged_records_that_vanish_are_noticed(log: OffsetsLog, data_dir: Path) -> None:
    assert log.write([write(0, one("a"))]) == {}
    assert log.write([write(0, one("b"))]) == {}
    path = segment(data_dir, 0)
    whole = path.read_bytes()
    for damaged in (whole[:-1], whole[: len(whole) // 2], whole[:-3] + b"xxx", b""):
        path.write_bytes(damaged)
        with pytest.raises(LogError, match="damaged"):
            recovered(log, 0)
        assert path.read_bytes() == damaged
    path.write_bytes(whole)
    assert len(recovered(log, 0)) == 2


def test_other_records_in_the_place_of_acknowledged_ones_are_noticed(log: OffsetsLog, data_dir: Path) -> None:
    assert log.write([write(0, one("a") + one("b"))]) == {}
    path = segment(data_dir, 0)
    size = path.stat().st_size
    least = len(encode_batch(0, [(b"k", b"")], NOW))
    path.write_bytes(encode_batch(0, [(b"k", bytes(size - least))], NOW))
    assert path.stat().st_size == size
    with pytest.raises(CorruptLog, match="ends here at offset 1, acknowledged are 2"):
        recovered(log, 0)


def test_after_a_recovery_a_failed_flush_is_over(data_dir: Path) -> None:
    """What was acknowledged since then was not in it, and a write that fails takes nothing with it."""
    files = FaultyFiles()
    loose = LogSettings(flush_interval_messages=1_000, flush_interval_ms=0)
    log = OffsetsLog.open(data_dir, 1, settings=loose, files=files)
    assert recovered(log, 0) == []
    assert log.write([write(0, one("in doubt"))]) == {}
    files.fail("fdatasync", errno.EIO)
    assert list(log.maintain(NOW).failed) == [0]
    files.heal()
    assert recovered(log, 0) == []
    assert log.write([write(0, one("later"))]) == {}
    files.fail("pwrite", errno.EIO)
    assert list(log.write([write(0, one("failed"))])) == [0]
    files.heal()
    assert [record.key for record in recovered(log, 0)] == [b"later"]
    log.close()


def test_no_recovery_begins_while_a_flush_is_under_way(data_dir: Path) -> None:
    """It would close the file that is being flushed, and cut it back to what was durable before."""
    files = FaultyFiles()
    log = OffsetsLog.open(data_dir, 1, settings=LogSettings(flush_interval_messages=1_000), files=files)
    assert recovered(log, 0) == []
    assert log.write([write(0, one("a"))]) == {}
    flushing, go_on = threading.Event(), threading.Event()

    def slow(_: Path) -> None:
        flushing.set()
        assert go_on.wait(10)

    files.faults["fdatasync"] = slow
    flush = threading.Thread(target=log.partition_log(0).flush)
    recover = threading.Thread(target=log.recover, args=(0,))
    flush.start()
    try:
        assert flushing.wait(10)
        recover.start()
        recover.join(0.2)
        assert recover.is_alive()
    finally:
        go_on.set()
        flush.join()
        recover.join()
    files.heal()
    assert [record.key for record in recovered(log, 0)] == [b"a"]
    log.close()
