"""Snapshots: only believed while they go with the log, whatever happened to either; never an error."""

from __future__ import annotations

import errno
import random
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from protocol.partition import OFFSETS_TOPIC
from protocol.records.batches import batches, encode_batch
from protocol.topic_partition import TopicPartition
from shim.log import CorruptLog, LogSettings, OffsetsLog, PartitionWrite, RecoveryNeeded
from shim.log.cleaner.cleaner import Cleaner
from shim.log.cleaner.cleaning import CleanerSettings
from shim.log.disk.files import Files
from shim.log.partition.snapshot import PartitionSnapshots, Snapshot, snapshot_name
from shim.log.segments.active import LastBatch
from tests.log.faulty_files import FaultyFiles
from tests.log.lost_files import LostFiles, PowerFailure
from tests.log.rolled import NOW, SMALL, append, closed, crashed, fill, folder_of, opened, segment_of

FILES = Files()
LARGE = LogSettings()
PAYLOAD = (b"what the records ", b"have made")


def taken(log: OffsetsLog, files: Files = FILES) -> Snapshot:
    """A snapshot of all that is in the log."""
    snapshots = PartitionSnapshots(files, log.partition_log(0).folder)
    assert snapshots.take(last_batch(log), PAYLOAD)
    found = snapshots.newest()
    assert found is not None
    return found


def last_batch(log: OffsetsLog) -> LastBatch:
    batch = log.partition_log(0).last_batch
    assert batch is not None
    return batch


def newest(data_dir: Path, files: Files = FILES) -> Snapshot | None:
    return PartitionSnapshots(files, folder_of(data_dir)).newest()


def stands(data_dir: Path, snapshot: Snapshot) -> bool:
    return PartitionSnapshots(FILES, folder_of(data_dir)).stands(snapshot)


def read_on(log: OffsetsLog, snapshot: Snapshot) -> list[bytes]:
    """Keys of the records behind the snapshot."""
    return [record.key for record in log.recover(0, start_offset=snapshot.offset, anchor=snapshot.anchor.position)]


def names(data_dir: Path) -> list[str]:
    return [name for name in FILES.names(folder_of(data_dir)) if "snapshot" in name]


def test_what_is_written_is_read_and_the_log_goes_on_behind_it(tmp_path: Path) -> None:
    log = opened(tmp_path, LARGE)
    fill(log, 5)
    snapshot = taken(log)
    assert bytes(snapshot.payload) == b"".join(PAYLOAD)
    assert snapshot.offset == log.log_end_offset(0)
    later = fill(log, 2)
    log.close()
    log = OffsetsLog.open(tmp_path, 1)
    assert read_on(log, snapshot) == [key for key, _ in later]
    append(log, (b"goes on", b""))
    log.close()


@pytest.mark.parametrize("harm", ["cut", "gone", "index gone, and cut"])
def test_closed_segments_below_a_snapshot_end_where_the_next_begins(tmp_path: Path, harm: str) -> None:
    log = opened(tmp_path)
    fill(log, 20)
    assert len(closed(log)) > 3
    snapshot = taken(log)
    below = closed(log)[1]
    assert below.next_offset < snapshot.anchor.segment
    log.close()
    log = OffsetsLog.open(tmp_path, 1, settings=SMALL)
    assert read_on(log, snapshot) == []
    log.close()
    if harm == "gone":
        below.path.unlink()
    else:
        below.path.write_bytes(below.path.read_bytes()[:-90])
    if harm.startswith("index"):
        below.path.with_suffix(".index").unlink()
    log = OffsetsLog.open(tmp_path, 1, settings=SMALL)
    with pytest.raises(CorruptLog):
        read_on(log, snapshot)
    log.close()


class CountingFiles(Files):
    def __init__(self) -> None:
        self.bytes_read = 0

    def pread(self, fd: int, size: int, position: int) -> bytes:
        data = super().pread(fd, size, position)
        self.bytes_read += len(data)
        return data


def test_with_a_snapshot_only_what_is_behind_it_is_read(tmp_path: Path) -> None:
    log = opened(tmp_path, LARGE)
    for number in range(160):
        append(log, (b"%d" % number, bytes(50_000)))
    snapshot = taken(log)
    append(log, (b"behind", b""))
    log.close()
    files = CountingFiles()
    log = OffsetsLog.open(tmp_path, 1, files=files)
    assert read_on(log, snapshot) == [b"behind"]
    assert files.bytes_read < snapshot.anchor.position / 2
    log.close()


def in_the_file(data_dir: Path) -> LastBatch:
    segment = max(folder_of(data_dir).glob("*.log"))
    *_, (position, header) = batches(segment.read_bytes())
    return LastBatch.of(int(segment.stem), position, header)


def test_the_log_knows_its_last_batch(tmp_path: Path) -> None:
    files = FaultyFiles()
    log = OffsetsLog.open(tmp_path, 1, settings=SMALL, files=files)
    with pytest.raises(RecoveryNeeded):
        last_batch(log)
    list(log.recover(0))
    assert log.partition_log(0).last_batch is None
    for _ in range(12):
        fill(log, 2)
        assert last_batch(log) == in_the_file(tmp_path)
    assert closed(log)
    snapshot = taken(log)
    assert snapshot.anchor == in_the_file(tmp_path)
    for start, anchor in ((0, None), (snapshot.offset, None), (snapshot.offset, snapshot.anchor.position)):
        list(log.recover(0, start_offset=start, anchor=anchor))
        assert last_batch(log) == snapshot.anchor
    files.fail("fdatasync", errno.EIO)
    assert log.write([PartitionWrite(0, [[(b"never", b"there")]], NOW)])
    files.heal()
    with pytest.raises(RecoveryNeeded):
        last_batch(log)
    list(log.recover(0))
    assert last_batch(log) == in_the_file(tmp_path) == snapshot.anchor
    log.close()
    with pytest.raises(RecoveryNeeded):
        log._partitions[TopicPartition(OFFSETS_TOPIC, 0)].last_batch  # noqa: B018
    crashed(tmp_path)
    with segment_of(tmp_path, snapshot.anchor.segment).open("ab") as segment:
        segment.write(b"torn")
    log = opened(tmp_path)
    assert last_batch(log) == snapshot.anchor
    log.close()


def test_the_newer_takes_the_place_of_the_older(tmp_path: Path) -> None:
    log = opened(tmp_path, LARGE)
    fill(log, 2)
    older = taken(log)
    fill(log, 2)
    newer = taken(log)
    assert newer.offset > older.offset
    assert names(tmp_path) == [newer.path.name]
    log.close()


Harm = Callable[[OffsetsLog, Snapshot], None]


def flip(at: int) -> Harm:
    def harm(_: OffsetsLog, snapshot: Snapshot) -> None:
        raw = bytearray(snapshot.path.read_bytes())
        raw[at] ^= 1
        snapshot.path.write_bytes(raw)

    return harm


def cut_to(size: int) -> Harm:
    def harm(_: OffsetsLog, snapshot: Snapshot) -> None:
        snapshot.path.write_bytes(snapshot.path.read_bytes()[:size])

    return harm


def renamed(_: OffsetsLog, snapshot: Snapshot) -> None:
    snapshot.path.rename(snapshot.path.with_name(snapshot_name(snapshot.offset + 1)))


def kafkas(_: OffsetsLog, snapshot: Snapshot) -> None:
    """A broker has files of this name, too."""
    snapshot.path.write_bytes(b"\x00\x01\x23\x45\x67\x89\x00\x00\x00\x00")


def older_log(log: OffsetsLog, snapshot: Snapshot) -> None:
    segment = log.partition_log(0).folder / f"{snapshot.anchor.segment:020d}.log"
    segment.write_bytes(segment.read_bytes()[: snapshot.anchor.position])


def other_log(log: OffsetsLog, snapshot: Snapshot) -> None:
    """Restored from an older copy, and written on: other records of the same size at the same place."""
    segment = log.partition_log(0).folder / f"{snapshot.anchor.segment:020d}.log"
    other = encode_batch(snapshot.anchor.base_offset, [(b"key-0", b"value 9"), (b"key-1", b"value 9")], NOW)
    raw = bytearray(segment.read_bytes())
    assert len(other) == snapshot.anchor.size
    raw[snapshot.anchor.position :] = other
    segment.write_bytes(raw)


def segment_gone(log: OffsetsLog, snapshot: Snapshot) -> None:
    (log.partition_log(0).folder / f"{snapshot.anchor.segment:020d}.log").unlink()


HARM: dict[str, Harm] = {
    "magic": flip(0),
    "version": flip(5),
    "checksum": flip(6),
    "offset": flip(17),
    "anchor": flip(30),
    "payload": flip(-1),
    "empty": cut_to(0),
    "half a head": cut_to(30),
    "half a payload": cut_to(-4),
    "another name": renamed,
    "of a broker": kafkas,
    "log restored from an older copy": older_log,
    "log restored and written on": other_log,
    "segment gone": segment_gone,
}


@pytest.mark.parametrize("harm", HARM.values(), ids=HARM.keys())
def test_one_that_is_not_whole_or_does_not_go_with_the_log_is_not_used_and_goes(
    tmp_path: Path, harm: Harm, caplog: pytest.LogCaptureFixture
) -> None:
    log = opened(tmp_path, LARGE)
    fill(log, 2)
    snapshot = taken(log)
    harm(log, snapshot)
    assert newest(tmp_path) is None
    assert names(tmp_path) == []
    (line,) = caplog.messages
    assert "is not used" in line
    log.close()


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.soak)])
def test_every_bit_counts(tmp_path: Path, every: int) -> None:
    log = opened(tmp_path, LARGE)
    fill(log, 2)
    path = taken(log).path
    sound = path.read_bytes()
    for bit in range(0, 8 * len(sound), every):
        raw = bytearray(sound)
        raw[bit // 8] ^= 1 << bit % 8
        path.write_bytes(raw)
        assert newest(tmp_path) is None, f"bit {bit}"
    path.write_bytes(sound)
    assert newest(tmp_path) is not None
    log.close()


def test_one_that_cannot_be_read_for_now_stays(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = opened(tmp_path, LARGE)
    fill(log, 2)
    path = taken(log).path
    files = FaultyFiles()
    files.fail("open", errno.EIO, ".snapshot")
    assert PartitionSnapshots(files, path.parent).newest() is None
    (line,) = caplog.messages
    assert line.startswith(f"{path} is not used: ")
    files.heal()
    found = PartitionSnapshots(files, path.parent).newest()
    assert found is not None
    assert found.path == path
    log.close()


def test_an_older_one_is_used_where_the_newer_cannot_be(tmp_path: Path) -> None:
    log = opened(tmp_path, LARGE)
    fill(log, 2)
    older = taken(log)
    kept = older.path.read_bytes()
    fill(log, 2)
    newer = taken(log)
    older.path.write_bytes(kept)
    flip(-1)(log, newer)
    found = newest(tmp_path)
    assert found is not None
    assert found.offset == older.offset
    assert names(tmp_path) == [older.path.name]
    log.close()


def test_a_compaction_that_moves_the_anchor_takes_the_snapshot_with_it(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for number in range(20):
        append(log, (b"the same", b"value %d" % number))
    in_closed = taken(log)
    for number in range(20):
        append(log, (b"the same", b"value %d" % number))
    assert closed(log)[-1].base_offset >= in_closed.anchor.segment
    cleaner = Cleaner(tmp_path, log.partition_logs(), CleanerSettings(min_cleanable_ratio=0.0))
    assert cleaner.step(NOW) is not None
    assert newest(tmp_path) is None
    before = len(closed(log))
    while len(closed(log)) == before:
        append(log, (b"the same", b"until a segment begins"))
    in_active = taken(log)
    append(log, (b"behind", b""))
    cleaner = Cleaner(tmp_path, log.partition_logs(), CleanerSettings(min_cleanable_ratio=0.0))
    assert cleaner.step(NOW) is not None
    log.close()
    log = OffsetsLog.open(tmp_path, 1, settings=SMALL)
    found = newest(tmp_path)
    assert found is not None
    assert found.offset == in_active.offset
    assert read_on(log, found) == [b"behind"]
    log.close()


@pytest.mark.parametrize("method", ["create", "pwrite", "fdatasync", "rename", "sync_directory"])
def test_one_that_cannot_be_written_leaves_the_older(tmp_path: Path, method: str) -> None:
    log = opened(tmp_path, LARGE)
    fill(log, 2)
    older = taken(log)
    fill(log, 2)
    files = FaultyFiles()
    files.fail(method, errno.ENOSPC)
    with pytest.raises(OSError, match="No space"):
        taken(log, files)
    assert older.path.exists()
    assert not [name for name in names(tmp_path) if name.endswith(".tmp")], "it would fill a disk that is full already"
    files.heal()
    assert not files.open_files
    assert taken(log, files).offset > older.offset
    assert len(names(tmp_path)) == 1, "what was begun is gone"
    log.close()


def test_unfinished_ones_go_when_another_is_written(tmp_path: Path) -> None:
    log = opened(tmp_path, LARGE)
    fill(log, 2)
    (folder_of(tmp_path) / f"{snapshot_name(7)}.tmp").write_bytes(b"half, of a process that was killed")
    taken(log)
    assert names(tmp_path) == [snapshot_name(log.log_end_offset(0))]
    log.close()


class Peaks(Files):
    def __init__(self) -> None:
        self.largest = 0

    def pwrite(self, fd: int, data: bytes | memoryview, position: int) -> int:
        self.largest = max(self.largest, len(data))
        return super().pwrite(fd, data, position)


@pytest.mark.parametrize("pieces", [(b"x" * (48 << 20),), (b"x" * 1_000,) * 40_000, (b"x" * 1_500_000,) * 25])
def test_a_large_one_is_written_and_read_a_little_at_a_time(tmp_path: Path, pieces: tuple[bytes, ...]) -> None:
    """What is done in one go keeps everybody else from the interpreter, and takes its size in memory once more."""
    log = opened(tmp_path, LARGE)
    fill(log, 2)
    files = Peaks()
    snapshots = PartitionSnapshots(files, folder_of(tmp_path))
    tracemalloc.start()
    try:
        snapshots.take(last_batch(log), pieces)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert files.largest <= 1 << 20
    assert peak < 8 << 20
    found = newest(tmp_path)
    assert found is not None
    assert bytes(found.payload) == b"".join(pieces)
    log.close()


def test_an_unfinished_one_is_none_and_stays_for_whoever_is_making_it(tmp_path: Path) -> None:
    log = opened(tmp_path)
    unfinished = f"{snapshot_name(7)}.tmp"
    (folder_of(tmp_path) / unfinished).write_bytes(b"half")
    assert newest(tmp_path) is None
    assert names(tmp_path) == [unfinished]
    log.close()


DATA_DIR = Path("/disk/data")


class SlowLearner(LostFiles):
    """Two snapshots, one after the other, on a disk that crashes at any call."""

    def life(self) -> list[int]:
        """The offsets of the snapshots that were written to their end."""
        done: list[int] = []
        try:
            log = OffsetsLog.open(DATA_DIR, 1, files=self)
            list(log.recover(0))
            for number in range(2):
                records = [(b"key %d" % number, b"x" * 100)]
                assert log.write([PartitionWrite(0, [records], NOW)]) == {}
                offset = log.log_end_offset(0)
                log.partition_log(0).snapshots.take(last_batch(log), (b"payload of ", b"%d" % offset * 30))
                done.append(offset)
            log.close()
        except PowerFailure:
            pass
        return done


@pytest.mark.parametrize("killed", [True, False], ids=["killed", "power failure"])
def test_a_crash_at_any_call_leaves_the_older_or_the_newer_one(killed: bool) -> None:
    crashes = 0
    for crash_at in range(400):
        for seed in range(6):
            files = SlowLearner(rng=random.Random(seed))
            files.mkdir(Path("/disk"))
            files.sync_directory(Path("/"))
            files.crash_at = crash_at
            done = files.life()
            if files.calls < crash_at:
                assert len(done) == 2
                assert crashes > 100
                return
            crashes += 1
            after = files.after_kill() if killed else files.after_power_failure()
            folder = DATA_DIR / "__consumer_offsets-0"
            if not after.exists(folder / f"{0:020d}.log"):
                assert not done
                continue
            log = OffsetsLog.open(DATA_DIR, 1, files=after)  # which has the segments whole again
            found = newest(DATA_DIR, after)
            if found is None:
                assert not done, "a snapshot that was durable is lost"
                log.close()
                continue
            assert found.offset >= max(done, default=0)
            assert bytes(found.payload) == b"payload of " + b"%d" % found.offset * 30
            behind = [record.offset for record in log.recover(0, start_offset=found.offset)]
            assert log.log_end_offset(0) >= found.offset
            assert behind == list(range(found.offset, log.log_end_offset(0)))
            log.close()
    raise AssertionError("it never came to its end")


def test_an_anchor_beyond_the_file_is_none(tmp_path: Path) -> None:
    log = opened(tmp_path, LARGE)
    fill(log, 2)
    snapshot = taken(log)
    for anchor in (
        snapshot.anchor._replace(position=1 << 60),
        snapshot.anchor._replace(size=1 << 40),
        snapshot.anchor._replace(size=0),
        snapshot.anchor._replace(segment=1 << 50),
    ):
        assert not stands(tmp_path, snapshot._replace(anchor=anchor))
    log.close()


def test_what_a_crash_may_have_torn_is_read_though_a_snapshot_is_beyond_it(tmp_path: Path) -> None:
    log = opened(tmp_path, LARGE)
    fill(log, 2)
    synced = log.log_end_offset(0)
    end = segment_of(tmp_path, 0).stat().st_size
    fill(log, 3)
    snapshot = taken(log)
    log.close()
    raw = bytearray(segment_of(tmp_path, 0).read_bytes())
    raw[end + 70] ^= 1
    segment_of(tmp_path, 0).write_bytes(raw)
    crashed(tmp_path, snapshot.offset)
    log = OffsetsLog.open(tmp_path, 1)
    assert read_on(log, snapshot) == [], "all that was synced once need not be read"
    log.close()
    crashed(tmp_path, synced)
    log = OffsetsLog.open(tmp_path, 1)
    with pytest.raises(CorruptLog):
        read_on(log, snapshot)
    log.close()


def test_one_that_compaction_has_overtaken_does_not_stand_though_its_anchor_does(tmp_path: Path) -> None:
    log = opened(tmp_path, LARGE)
    fill(log, 2)
    snapshot = taken(log)
    snapshots = log.partition_log(0).snapshots
    assert snapshots.stands(snapshot)
    snapshots.outdate(snapshot.offset)
    assert not snapshots.stands(snapshot)
    assert stands(tmp_path, snapshot), "by that alone it would be believed"
    log.close()


def test_a_large_one_is_synced_a_little_at_a_time(tmp_path: Path) -> None:
    """Nobody can break off a sync, and a stop waits for it."""
    log = opened(tmp_path, LARGE)
    fill(log, 2)
    files = FaultyFiles()
    snapshots = PartitionSnapshots(files, folder_of(tmp_path))
    assert snapshots.take(last_batch(log), [bytes(1 << 20)] * 20)
    calls = [method for method, _ in files.calls if method in ("pwrite", "fdatasync")]
    unsynced = [len(writes) for writes in " ".join(calls).split("fdatasync")]
    assert len(unsynced) == 7
    assert max(unsynced) <= len(" pwrite" * 5)
    log.close()


class Over(Exception):
    pass


@pytest.mark.parametrize("pieces", [0, 1, 3])
def test_one_that_is_given_up_leaves_nothing(tmp_path: Path, pieces: int) -> None:
    log = opened(tmp_path, LARGE)
    fill(log, 2)
    older = taken(log)
    fill(log, 2)

    def until_it_is_over() -> Iterator[bytes]:
        for _ in range(pieces):
            yield bytes(1 << 20)
        raise Over

    files = FaultyFiles()
    snapshots = PartitionSnapshots(files, folder_of(tmp_path))
    with pytest.raises(Over):
        snapshots.take(last_batch(log), until_it_is_over())
    assert names(tmp_path) == [older.path.name]
    assert not files.open_files
    looks = 0

    def look() -> None:
        nonlocal looks
        looks += 1
        raise Over

    with pytest.raises(Over):
        snapshots.newest(look)
    assert looks == 1
    assert names(tmp_path) == [older.path.name]
    assert not files.open_files
    log.close()
