"""The journal: one flush for many partitions, and what is made of it after crashes, failures and damage."""

from __future__ import annotations

import errno
import logging
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import google_crc32c
import pytest

from protocol.topic_partition import TopicPartition
from shim.log import LogSettings, OffsetsLog, PartitionWrite
from shim.log.directory.handover import CLEAN_SHUTDOWN
from shim.log.disk.checkpoint import RECOVERY_POINT_CHECKPOINT, read_checkpoint
from shim.log.disk.files import Files
from shim.log.errors import CorruptLog, LogError
from shim.log.journal import journal as journal_module
from shim.log.journal.journal import JOURNAL_NAME, Journal, write_entries
from shim.log.journal.journal_records import JournalEntry, read_entries
from tests.log.faulty_files import FaultyFiles
from tests.log.lost_files import LostFiles
from tests.log.test_log import NOW, one, recovered, segment, write

PARTITIONS = 3


def opened(
    data_dir: Path, files: Files | None = None, settings: LogSettings | None = None, partitions: int = PARTITIONS
) -> OffsetsLog:
    log = OffsetsLog.open(data_dir, partitions, files=files, settings=settings)
    for partition in range(partitions):
        recovered(log, partition)
    return log


def keys(log: OffsetsLog, partition: int) -> list[bytes]:
    return [record.key for record in recovered(log, partition)]


def after_a_power_failure(data_dir: Path, target: Path) -> Path:
    """The directory as a crash of the machine leaves it at worst: of the segments nothing that was not synced."""
    shutil.copytree(data_dir, target)
    points = read_checkpoint(Files(), target / RECOVERY_POINT_CHECKPOINT)
    for partition in range(PARTITIONS):
        if not points.get(TopicPartition("__consumer_offsets", partition)):
            segment(target, partition).write_bytes(b"")
    return target


def journal_of(data_dir: Path) -> list[JournalEntry]:
    path = data_dir / JOURNAL_NAME
    return list(read_entries(path, path.read_bytes()))


def has_entries(files: Files, data_dir: Path) -> bool:
    path = data_dir / JOURNAL_NAME
    return files.exists(path) and any(read_entries(path, files.read_file(path)))


@pytest.fixture
def log(tmp_path: Path) -> Iterator[OffsetsLog]:
    log = opened(tmp_path / "data")
    yield log
    log.close()


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


# --- a start ---------------------------------------------------------------------------------------------------------


def test_what_the_segments_have_lost_is_put_back(log: OffsetsLog, data_dir: Path, tmp_path: Path) -> None:
    for number in range(20):
        assert log.write([write(number % 2, one(f"{number}"))]) == {}
    assert log.write([write(p, one("last")) for p in range(PARTITIONS)]) == {}
    lost = after_a_power_failure(data_dir, tmp_path / "lost")
    assert has_entries(Files(), lost)
    again = opened(lost)
    assert keys(again, 0) == [b"%d" % n for n in range(0, 20, 2)] + [b"last"]
    assert keys(again, 1) == [b"%d" % n for n in range(1, 20, 2)] + [b"last"]
    assert keys(again, 2) == [b"last"]
    assert again.partition_log(2).recovery_point == 1
    again.close()
    assert not has_entries(Files(), lost)


def test_a_flight_of_many_partitions_is_one_sound_record(tmp_path: Path) -> None:
    """However many: its checksum goes over a few of them at a time."""
    for many in (7, 8, 9, 16, 17, 30):
        data_dir = tmp_path / f"{many}"
        log = opened(data_dir, partitions=many)
        assert log.write([write(partition, one(f"{partition}")) for partition in range(many)]) == {}
        assert [entry.partition.partition for entry in journal_of(data_dir)] == list(range(many))
        log.close()


def test_damage_to_what_was_not_yet_synced_is_put_right(log: OffsetsLog, data_dir: Path, tmp_path: Path) -> None:
    for key in ("first", "second"):
        assert log.write([write(0, one(key))]) == {}
    whole = segment(data_dir, 0).read_bytes()
    for byte in range(0, len(whole), 7):
        shutil.copytree(data_dir, tmp_path / f"{byte}")
        damaged = bytearray(whole)
        damaged[byte] ^= 1
        segment(tmp_path / f"{byte}", 0).write_bytes(damaged)
        again = opened(tmp_path / f"{byte}")
        assert segment(tmp_path / f"{byte}", 0).read_bytes() == whole
        again.close()


@pytest.mark.parametrize("seed", range(30))
def test_a_power_failure_after_any_number_of_flights_loses_none(seed: int) -> None:
    rng = random.Random(seed)
    files = LostFiles(rng=rng)
    files.mkdir(Path("/disk"))
    files.sync_directory(Path("/"))
    expected: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    for life in range(4):
        log = opened(Path("/disk/data"), files)
        for number in range(rng.randrange(8)):
            key = b"%d/%d" % (life, number)
            chosen = rng.sample(range(PARTITIONS), rng.randrange(1, PARTITIONS + 1))
            assert log.write([PartitionWrite(p, [[(key, bytes(rng.randrange(300)))]], NOW) for p in chosen]) == {}
            for partition in chosen:
                expected[partition].append(key)
            if rng.random() < 0.2:
                log.maintain(NOW * life + 100_000 * number)
        files = files.after_power_failure()
    log = opened(Path("/disk/data"), files)
    assert [keys(log, partition) for partition in range(PARTITIONS)] == expected


def test_a_directory_without_a_journal_is_used_as_it_is(data_dir: Path) -> None:
    log = opened(data_dir)
    assert log.write([write(0, one("a"))]) == {}
    log.close()
    assert not (data_dir / JOURNAL_NAME).exists()
    log = opened(data_dir)
    assert keys(log, 0) == [b"a"]
    assert log.write([write(0, one("b"))]) == {}
    assert [entry.next_offset for entry in journal_of(data_dir)] == [2]
    log.close()


def test_after_an_end_in_good_order_the_journal_counts_for_nothing(data_dir: Path, tmp_path: Path) -> None:
    """Another version may have written to the directory since, that knows no journal."""
    log = opened(data_dir)
    assert log.write([write(0, one("a"))]) == {}
    shutil.copy(data_dir / JOURNAL_NAME, tmp_path / JOURNAL_NAME)
    log.close()
    assert (data_dir / CLEAN_SHUTDOWN).exists()
    (data_dir / RECOVERY_POINT_CHECKPOINT).unlink()
    shutil.copy(tmp_path / JOURNAL_NAME, data_dir / JOURNAL_NAME)
    sound = segment(data_dir, 0).read_bytes()
    segment(data_dir, 0).write_bytes(sound[: len(sound) // 2])
    log = OffsetsLog.open(data_dir, PARTITIONS)
    with pytest.raises(CorruptLog, match="closed in good order"):
        recovered(log, 0)
    log.close()


def test_closed_segments_and_what_is_below_the_recovery_point_are_left_alone(tmp_path: Path) -> None:
    folders = [tmp_path / f"t-{p}" for p in range(4)]
    for folder, bases in zip(folders[:3], ((0, 5), (0,), (0,)), strict=True):
        folder.mkdir()
        for base in bases:
            (folder / f"{base:020d}.log").write_bytes(b"before")
    entries = [JournalEntry(TopicPartition("t", p), 0, 2, 5, b"after") for p in range(4)]
    ends, failed = write_entries(Files(), tmp_path, entries, {TopicPartition("t", 1): 5, TopicPartition("t", 2): 4})
    assert ends == {("t", 2): 5}
    assert [(at, type(error)) for at, error in failed.items()] == [(("t", 3), FileNotFoundError)]
    found = {path.relative_to(tmp_path): path.read_bytes() for path in sorted(tmp_path.rglob("*.log"))}
    assert list(found.values()) == [b"before", b"before", b"before", b"beafter"]


@pytest.mark.parametrize("stays_away", [False, True])
def test_what_cannot_be_put_back_at_a_start_waits_in_the_journal_and_no_other_partition_for_it(
    log: OffsetsLog, data_dir: Path, tmp_path: Path, stays_away: bool
) -> None:
    """The disk cannot read the page that the segment ends in, say. Its partition is not served meanwhile."""
    for key in ("a", "b"):
        assert log.write([write(p, one(key)) for p in range(PARTITIONS)]) == {}
    lost = after_a_power_failure(data_dir, tmp_path / "lost")
    files = FaultyFiles()
    files.fail("pwrite", errno.EIO, "__consumer_offsets-1/")
    again = OffsetsLog.open(lost, PARTITIONS, files=files)
    for partition in (0, 2):
        assert keys(again, partition) == [b"a", b"b"]
    with pytest.raises(OSError, match="Input/output error"):
        recovered(again, 1)
    assert again.write([write(0, one("c"))]) == {}
    assert again.maintain(NOW).failed == {}
    assert again.write([write(2, one("c"))]) == {}
    if stays_away:
        again.close()
        assert not (lost / CLEAN_SHUTDOWN).exists()
        again = OffsetsLog.open(after_a_power_failure(lost, tmp_path / "lost again"), PARTITIONS)
        assert keys(again, 0) == [b"a", b"b", b"c"]
    files.heal()
    assert keys(again, 1) == [b"a", b"b"]
    assert keys(again, 2) == [b"a", b"b", b"c"]
    assert again.write([write(1, one("c"))]) == {}
    assert again.maintain(2 * NOW).failed == {}
    assert again.partition_log(1).recovery_point == 3
    again.close()
    assert keys(opened(lost if not stays_away else tmp_path / "lost again"), 1) == [b"a", b"b", b"c"]


def test_nothing_is_done_with_a_journal_of_another_version(log: OffsetsLog, data_dir: Path, tmp_path: Path) -> None:
    assert log.write([write(0, one("a"))]) == {}
    lost = after_a_power_failure(data_dir, tmp_path / "lost")
    content = bytearray((lost / JOURNAL_NAME).read_bytes())
    content[7] += 1
    content[24:28] = google_crc32c.value(bytes(content[:24])).to_bytes(4, "big")
    (lost / JOURNAL_NAME).write_bytes(content)
    with pytest.raises(LogError, match="another version"):
        OffsetsLog.open(lost, PARTITIONS)
    assert (lost / JOURNAL_NAME).read_bytes() == content
    assert segment(lost, 0).read_bytes() == b""


# --- damage ----------------------------------------------------------------------------------------------------------


def test_damage_in_the_journal_hits_only_the_partition_that_it_is_of(
    log: OffsetsLog, data_dir: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for key in ("first", "second", "third"):
        for partition in range(PARTITIONS):
            assert log.write([write(partition, one(f"{key}-{partition}"))]) == {}
    lost = after_a_power_failure(data_dir, tmp_path / "lost")
    content = bytearray((lost / JOURNAL_NAME).read_bytes())
    second_of_1 = journal_of(data_dir)[4].data
    content[content.index(second_of_1) + 20] ^= 1
    (lost / JOURNAL_NAME).write_bytes(content)
    with caplog.at_level(logging.WARNING):
        again = OffsetsLog.open(lost, PARTITIONS)
    assert "no sound record at byte" in caplog.text
    for partition in (0, 2):
        assert keys(again, partition) == [b"%s-%d" % (key, partition) for key in (b"first", b"second", b"third")]
    with pytest.raises(CorruptLog, match="is damaged at byte"):
        recovered(again, 1)
    again.close()


def test_a_damaged_header_hides_nothing(log: OffsetsLog, data_dir: Path, tmp_path: Path) -> None:
    for key in ("first", "second"):
        assert log.write([write(0, one(key))]) == {}
    for byte in range(28):
        lost = after_a_power_failure(data_dir, tmp_path / f"lost-{byte}")
        content = bytearray((lost / JOURNAL_NAME).read_bytes())
        content[byte] ^= 1
        (lost / JOURNAL_NAME).write_bytes(content)
        again = OffsetsLog.open(lost, PARTITIONS)
        assert keys(again, 0) == [b"first", b"second"]
        again.close()


def test_a_journal_cut_anywhere_gives_the_records_before_the_cut(log: OffsetsLog, data_dir: Path) -> None:
    for key in ("first", "second", "third"):
        assert log.write([write(0, one(key))]) == {}
    content = (data_dir / JOURNAL_NAME).read_bytes()
    entries = journal_of(data_dir)
    ends = [content.index(entry.data) + len(entry.data) for entry in entries]
    content = content[: ends[-1]]
    for size in range(len(content) + 1):
        for tail in (b"", b"\xff" * 50, bytes(5000)):
            left = content[:size] + tail
            whole = sum(left[:end] == content[:end] for end in ends)
            assert list(read_entries(Path(), left)) == entries[:whole]


def test_what_clients_send_is_never_taken_for_a_record(log: OffsetsLog, data_dir: Path, tmp_path: Path) -> None:
    """A whole journal as a record's value: of another filling, so it counts for nothing, also behind damage."""
    assert log.write([write(0, one("mine"))]) == {}
    forged = (data_dir / JOURNAL_NAME).read_bytes().rstrip(b"\0").replace(b"mine", b"evil")
    log.close()
    log = opened(data_dir)
    assert log.write([write(1, [(b"k", forged)])]) == {}
    shutil.copytree(data_dir, tmp_path / "copy")
    log.close()
    content = bytearray((tmp_path / "copy" / JOURNAL_NAME).read_bytes())
    content[4097] ^= 1
    assert list(read_entries(Path(), bytes(content))) == []


# --- its size --------------------------------------------------------------------------------------------------------


def test_it_begins_anew_when_it_is_full_and_nothing_is_lost_by_that(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "FULL_BYTES", 6_000)
    monkeypatch.setattr(journal_module, "_CHUNK_BYTES", 1_000)
    log = opened(data_dir)
    begun = 0
    for number in range(100):
        assert log.write([write(p, one(f"{number}")) for p in range(PARTITIONS)]) == {}
        if log.maintenance_due:
            assert log.maintain(NOW).failed == {}
            assert not has_entries(Files(), data_dir)
            assert all(each.recovery_point == number + 1 for each in log.partition_logs())
            begun += 1
    assert begun > 5
    assert (data_dir / JOURNAL_NAME).stat().st_size < 8_000
    shutil.copytree(data_dir, tmp_path / "killed")
    log.close()
    again = opened(tmp_path / "killed")
    assert all(keys(again, p) == [b"%d" % n for n in range(100)] for p in range(PARTITIONS))
    again.close()


def test_a_write_too_large_for_it_is_synced_where_it_stands(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "_LARGEST_BYTES", 10_000)
    files = FaultyFiles()
    log = opened(data_dir, files)
    files.calls.clear()
    assert log.write([write(0, [(b"k", bytes(9_000))]), write(1, one("a"))]) == {}
    assert sorted(path for call, path in files.calls if call == "fdatasync") == [segment(data_dir, p) for p in (0, 1)]
    log.close()


def test_under_a_loose_flush_policy_nothing_is_in_it(data_dir: Path) -> None:
    log = opened(data_dir, settings=LogSettings(flush_interval_messages=2))
    for _ in range(4):
        assert log.write([write(0, one("a"))]) == {}
    assert not has_entries(Files(), data_dir)
    log.close()


# --- failures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["pwrite", "fdatasync"])
def test_while_it_cannot_be_written_each_partition_is_synced_and_none_fails(
    data_dir: Path, tmp_path: Path, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    files = FaultyFiles()
    log = opened(data_dir, files)
    assert log.write([write(0, one("before"))]) == {}
    files.fail(method, errno.ENOSPC, JOURNAL_NAME)
    for key in ("during", "during, too"):
        assert log.write([write(p, one(key)) for p in range(2)]) == {}
    assert caplog.text.count("each partition is flushed for itself") == 1
    assert all(log.partition_log(p).recovery_point == log.log_end_offset(p) for p in range(2))
    files.heal()
    files.calls.clear()
    assert log.write([write(1, one("after"))]) == {}
    assert {path.name for call, path in files.calls if call == "fdatasync"} == {JOURNAL_NAME}
    lost = after_a_power_failure(data_dir, tmp_path / "lost")
    # What was synced where it stands is not in the journal, so it has to be left where it is.
    for partition in range(2):
        shutil.copy(segment(data_dir, partition), segment(lost, partition))
    log.close()
    again = opened(lost)
    assert keys(again, 0) == [b"before", b"during", b"during, too"]
    assert keys(again, 1) == [b"during", b"during, too", b"after"]
    again.close()


def test_a_segment_that_cannot_be_synced_is_restored_from_the_journal(data_dir: Path) -> None:
    files = FaultyFiles()
    log = opened(data_dir, files)
    for key in ("a", "b"):
        assert log.write([write(p, one(key)) for p in range(PARTITIONS)]) == {}
    files.fail("fdatasync", errno.EIO, "__consumer_offsets-1/")
    files.fail("fsync", errno.EIO, "__consumer_offsets-1/")
    failed, next_ms = log.maintain(NOW)
    assert list(failed) == [1]
    assert next_ms > NOW
    assert has_entries(Files(), data_dir), "it holds what is nowhere else"
    assert log.write([write(0, one("c"))]) == {}
    with pytest.raises(OSError, match="Input/output error"):
        recovered(log, 1)
    segment(data_dir, 1).write_bytes(b"")  # as a failed sync may leave it once the kernel has forgotten its pages
    files.heal()
    assert keys(log, 1) == [b"a", b"b"]
    assert log.write([write(1, one("d"))]) == {}
    assert log.maintain(next_ms).failed == {}
    assert not has_entries(Files(), data_dir)
    assert keys(log, 0) == [b"a", b"b", b"c"]
    assert keys(log, 1) == [b"a", b"b", b"d"]
    log.close()


def test_a_segment_that_cannot_be_synced_while_it_is_restored_is_restored_again(data_dir: Path) -> None:
    """Of a partition that has to be read back for another reason: a write of it has failed."""
    files = FaultyFiles()
    log = opened(data_dir, files)
    assert log.write([write(p, one("a")) for p in range(PARTITIONS)]) == {}
    files.fail("pwrite", errno.EIO, "__consumer_offsets-1/")
    assert list(log.write([write(1, one("b"))])) == [1]
    files.heal()
    files.fail("fsync", errno.EIO, "__consumer_offsets-1/")
    log.maintain(NOW)
    segment(data_dir, 1).write_bytes(b"")  # as above
    files.heal()
    assert keys(log, 1) == [b"a"]
    assert log.write([write(1, one("c"))]) == {}
    assert log.maintain(NOW * 2).failed == {}
    assert keys(log, 1) == [b"a", b"c"]
    log.close()


def test_the_journal_begins_anew_when_it_could_itself_restore_what_could_not_be_synced(data_dir: Path) -> None:
    files = FaultyFiles()
    log = opened(data_dir, files)
    assert log.write([write(p, one("a")) for p in range(PARTITIONS)]) == {}
    files.fail("fdatasync", errno.EIO, "__consumer_offsets-1/")
    assert list(log.maintain(NOW).failed) == [1]
    assert not has_entries(Files(), data_dir)
    files.heal()
    assert keys(log, 1) == [b"a"]
    log.close()
    assert (data_dir / CLEAN_SHUTDOWN).exists()


def test_a_partition_is_not_read_back_before_the_journal_has_forgotten_its_failed_write(
    data_dir: Path, tmp_path: Path
) -> None:
    """Or a crash would bring back what the clients were told has failed, after it was served without that."""
    files = FaultyFiles()
    log = opened(data_dir, files)
    assert log.write([write(p, one("a")) for p in range(PARTITIONS)]) == {}
    files.fail("fdatasync", errno.EIO, JOURNAL_NAME, "__consumer_offsets-1/")
    assert list(log.write([write(p, one("b")) for p in range(PARTITIONS)])) == [1]
    assert len([entry for entry in journal_of(data_dir) if entry.partition.partition == 1]) == 2, "it looks whole"
    files.fail("fdatasync", errno.EIO, JOURNAL_NAME)
    with pytest.raises(OSError, match="Input/output error"):
        recovered(log, 1)
    files.heal()
    assert keys(log, 1) == [b"a"]
    assert len([entry for entry in journal_of(data_dir) if entry.partition.partition == 1]) == 1
    shutil.copytree(data_dir, tmp_path / "killed")
    again = opened(tmp_path / "killed")
    assert [keys(again, p) for p in range(PARTITIONS)] == [[b"a", b"b"], [b"a"], [b"a", b"b"]]
    again.close()
    log.close()


def test_beginning_anew_does_not_make_it_forget_a_failed_write_durably(data_dir: Path) -> None:
    files = FaultyFiles()
    log = opened(data_dir, files)
    assert log.write([write(p, one("a")) for p in range(PARTITIONS)]) == {}
    files.fail("fdatasync", errno.EIO, JOURNAL_NAME, "__consumer_offsets-1/")
    assert list(log.write([write(p, one("b")) for p in range(PARTITIONS)])) == [1]
    assert log.maintain(NOW).failed == {}
    assert not has_entries(Files(), data_dir)
    with pytest.raises(OSError, match="Input/output error"):
        recovered(log, 1)
    files.heal()
    assert keys(log, 1) == [b"a"]
    assert log.write([write(1, one("c"))]) == {}
    log.close()


def test_a_failed_journal_at_the_end_leaves_no_note_of_good_order(data_dir: Path, tmp_path: Path) -> None:
    files = FaultyFiles()
    log = opened(data_dir, files)
    assert log.write([write(0, one("a"))]) == {}
    files.fail("fdatasync", errno.EIO, "__consumer_offsets-0/")
    files.fail("fsync", errno.EIO, "__consumer_offsets-0/")
    log.close()
    assert not (data_dir / CLEAN_SHUTDOWN).exists()
    again = opened(after_a_power_failure(data_dir, tmp_path / "lost"))
    assert keys(again, 0) == [b"a"]
    again.close()


def test_a_journal_says_where_each_partition_is_durable(data_dir: Path) -> None:
    log = opened(data_dir)
    assert log.write([write(0, one("a")), write(2, one("b"), one("c"))]) == {}
    journal = Journal(Files(), data_dir)
    ends, failed = journal.redo_all({})
    journal.close()
    assert ends == {("__consumer_offsets", 0): 1, ("__consumer_offsets", 2): 2}
    assert not failed
    log.close()
