"""RecordsToWait that wait in the journal for a batch of their own, where they cannot be written to their segment."""

from __future__ import annotations

import errno
import random
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from protocol.records.record_runs import run_of
from protocol.topic_partition import TopicPartition
from shim.log import LogSettings, MayWait, OffsetsLog, PartitionWrite, RecordsToWait
from shim.log.disk.files import Files
from shim.log.disk.layout import segment_name
from shim.log.journal import journal as journal_module
from shim.log.journal import waiting as waiting_module
from shim.log.journal.journal import JOURNAL_NAME, Journal
from shim.log.journal.journal_records import (
    Begun,
    EncodedEntry,
    JournalEntry,
    WaitingEntry,
    encoded_entry,
    encoded_waiting,
    id_of,
    read_entries,
    read_waiting,
    records_of,
)
from shim.log.journal.waiting import WaitedBatch, Waiting, batches_of
from shim.log.segments.active import LogEnd
from shim.log.staging import TopicStaging
from tests.log.faulty_files import FaultyFiles
from tests.log.lost_files import LostFiles, PowerFailure
from tests.log.runs import may_wait

NOW = 1_767_225_600_123
TOPIC = "history"
SEGMENT = "history-0/"


def opened(data_dir: Path, files: Files, settings: LogSettings | None = None) -> OffsetsLog:
    return OffsetsLog.open(data_dir, 1, topics=(TOPIC,), files=files, settings=settings)


def values(log: OffsetsLog) -> list[bytes]:
    found = list(log.recover(0, topic=TOPIC))
    assert [record.offset for record in found] == list(range(len(found)))
    return [record.key for record in found]


def at_once(key: str, partition: int = 0) -> list[PartitionWrite]:
    return [PartitionWrite(partition, [[(key.encode(), bytes(10))]], NOW, TOPIC)]


def waits(key: str, size: int = 10) -> tuple[list[PartitionWrite], MayWait]:
    return [], may_wait(TOPIC, NOW, {0: [[(key.encode(), bytes(size))]]})


def begun(data_dir: Path, files: Files, settings: LogSettings | None = None) -> OffsetsLog:
    """A log in which records can wait."""
    log = opened(data_dir, files, settings)
    assert values(log) == []
    assert log.write(at_once("first")) == {}
    log.maintain(NOW)
    return log


def test_no_more_wait_than_a_start_can_tell_from_what_stands_there(tmp_path: Path) -> None:
    """A batch that has more than the journal is left as it is, so it has to be read whole."""
    files = FaultyFiles()
    log = begun(tmp_path / "data", files)
    files.fail("pwrite", errno.EIO, SEGMENT)
    acknowledged = ["first"]
    for number in range(600):
        if not log.write(*waits(f"{number}", 1000)):
            acknowledged.append(f"{number}")
        else:
            values(log)
    waiting = log.partition_log(0, topic=TOPIC).waiting
    assert waiting is not None
    assert 3 * waiting_module.MOST_BYTES < len(waiting.batch().data) <= journal_module._MOST_WAITING_BYTES
    files.heal()
    files.fail("fdatasync", errno.EIO, JOURNAL_NAME)  # and the segment takes it now
    for key in ("more", "last"):
        assert log.write(*waits(key, 1000)) == {}
    acknowledged += ["more", "last"]
    files.heal()
    shutil.copytree(tmp_path / "data", tmp_path / "killed")
    again = opened(tmp_path / "killed", Files())
    assert [key.decode() for key in values(again)] == acknowledged
    again.close()
    log.close()


def test_a_roll_for_which_what_waits_cannot_be_written_is_no_failure(tmp_path: Path) -> None:
    files = FaultyFiles()
    log = begun(tmp_path / "data", files)
    assert log.write(*waits("waits")) == {}
    files.fail("pwrite", errno.ENOSPC, SEGMENT)
    partition = log.partition_log(0, topic=TOPIC)
    partition.roll_older_than(NOW + 10_000)
    for later in range(5):
        assert log.maintain(NOW + later).failed == {}
    assert partition.recovered
    files.heal()
    assert log.maintain(NOW + 10).failed == {}
    assert values(log) == [b"first", b"waits"]
    assert [segment.next_offset for segment in partition.closed_segments()] == [2]
    log.close()


def test_a_roll_that_cannot_be_settled_for_keeps_no_other_from_being_done(tmp_path: Path) -> None:
    files = FaultyFiles()
    log = OffsetsLog.open(tmp_path / "data", 2, topics=(TOPIC,), files=files)
    for number in range(2):
        list(log.recover(number, topic=TOPIC))
        assert log.write([*at_once("first", number)]) == {}
    log.maintain(NOW)
    assert log.write(*waits("waits")) == {}
    files.fail("pwrite", errno.EIO, SEGMENT)
    partitions = log.partition_logs()
    for partition in partitions:
        partition.roll_older_than(NOW + 10_000)
    maintained = log.maintain(NOW + 2_000)
    assert maintained.failed == {}
    assert maintained.next_ms == NOW + 3_000, "when what waits is tried again"
    assert [len(partition.closed_segments()) for partition in partitions] == [0, 1]
    log.close()


@pytest.mark.parametrize("seed", range(300))
def test_a_journal_that_begins_anew_keeps_what_waits(seed: int) -> None:
    """Whatever of its writes gets to the disk: what waits is nowhere else."""
    rng = random.Random(seed)
    files = LostFiles(rng=rng)
    files.mkdir(Path("/disk"))
    files.sync_directory(Path("/"))
    data_dir = Path("/disk/data")
    log = begun(data_dir, files)
    for key in ("one", "two", "three"):
        assert log.write(*waits(key, 300)) == {}
    reading = log.recover(0, topic=TOPIC)  # from here on it takes no writes
    files.crash_at = files.calls + rng.randrange(12)
    with suppress(PowerFailure):
        log.maintain(NOW + 1_000_000)
        list(reading)
        log.write(*waits("four", 300))
    again = opened(data_dir, files.after_power_failure())
    assert values(again)[:4] == [b"first", b"one", b"two", b"three"]


def test_a_journal_that_cannot_begin_anew_goes_on(tmp_path: Path) -> None:
    files = FaultyFiles()
    data_dir = tmp_path / "data"
    log = begun(data_dir, files)
    assert log.write(*waits("waits")) == {}
    for later, method in enumerate(("create", "pwrite", "fdatasync", "rename"), 1):
        target = data_dir / JOURNAL_NAME if method == "rename" else ".unfinished"
        files.fail(method, errno.ENOSPC, SEGMENT, str(target))
        log.recover(0, topic=TOPIC)  # it takes no writes
        files.calls.clear()
        log.maintain(NOW + later * 1_000_000)
        assert any(called == method and path.name.startswith(JOURNAL_NAME) for called, path in files.calls)
        assert not list(data_dir.glob("*.unfinished")), "a full disk has room for what is of use"
        files.heal()
        assert values(log)[:2] == [b"first", b"waits"]
        assert log.write(*waits(method)) == {}
        shutil.copytree(data_dir, tmp_path / method)
        again = opened(tmp_path / method, Files())
        assert values(again)[-1] == method.encode()
        again.close()
        assert not list((tmp_path / method).glob("*.unfinished"))
    log.close()


def test_a_journal_whose_predecessor_cannot_be_closed_has_its_name_made_durable(tmp_path: Path) -> None:
    class NotClosedFiles(FaultyFiles):
        def close(self, fd: int) -> None:
            path = self.open_files[fd]
            super().close(fd)
            if "close" in self.faults:
                self.faults["close"](path)

    files = NotClosedFiles()
    data_dir = tmp_path / "data"
    log = begun(data_dir, files)
    assert log.write(*waits("waits")) == {}
    files.fail("close", errno.EIO, JOURNAL_NAME)
    log.recover(0, topic=TOPIC)  # it takes no writes
    log.maintain(NOW + 1_000_000)
    files.heal()
    files.calls.clear()
    values(log)
    assert log.write(*waits("more")) == {}
    assert ("sync_directory", data_dir) in files.calls
    log.close()


def test_an_end_with_records_that_wait_is_none_in_good_order(tmp_path: Path) -> None:
    files = FaultyFiles()
    data_dir = tmp_path / "data"
    log = begun(data_dir, files)
    assert log.write(*waits("waits")) == {}
    files.fail("pwrite", errno.EIO, SEGMENT)
    log.close()
    assert not log.ended_clean
    again = opened(data_dir, Files())
    assert values(again) == [b"first", b"waits"]
    again.close()
    assert again.ended_clean


def test_none_waits_for_the_first_batch_of_a_segment(tmp_path: Path) -> None:
    """That is synced, and its recovery point noted: were the file to vanish, nothing else would tell."""
    log = begun(tmp_path / "data", Files())
    partition = log.partition_log(0, topic=TOPIC)
    partition.roll(NOW)
    assert log.write(*waits("second")) == {}
    assert partition.waiting is None
    assert partition.recovery_point == 2
    assert log.write(*waits("third")) == {}
    again = log.partition_log(0, topic=TOPIC)  # for mypy another one, of which it has seen nothing
    assert again.waiting is not None
    log.close()


@pytest.mark.parametrize("damaged", [None, 0, 1, 2, 3])
def test_what_comes_behind_a_gap_is_no_part_of_a_batch_until_there_is_another_place(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damaged: int | None
) -> None:
    """``damaged``: which of the journal's records."""
    journal = Journal(Files(), tmp_path)
    journal.begin_anew()
    batches = {number: Begun(number, 0, 100 + number, 7, NOW) for number in (0, 1)}
    for begun, numbers, runs in (
        ([batches[0]], [0], [b"a0"]),
        ([batches[1]], [0, 1, 0], [b"b0", b"b1", b"c0"]),
        ([], [1, 0], [b"c1", b"d0"]),
        ([batches[0]._replace(position=200)], [0], [b"e0"]),
    ):
        assert journal.append([encoded_waiting(TOPIC, begun, numbers, runs)])
    journal.close()
    path = tmp_path / JOURNAL_NAME
    content = path.read_bytes()
    if damaged is not None:
        _, end = list(records_of(path, content, id_of(path, content)))[damaged]
        content = content[: end - 1] + b"\xff" + content[end:]
    found = [(each.batch.position, each.runs) for each in read_waiting(path, content)]
    first, second, third = (
        [(100, [b"a0"])],
        [(100, [b"b0"]), (101, [b"b1"]), (100, [b"c0"])],
        [(101, [b"c1"]), (100, [b"d0"])],
    )
    fourth = [(200, [b"e0"])]
    assert (
        found
        == {
            None: [*first, *second, *third, *fourth],
            0: [second[1], third[0], *fourth],
            1: [*first, *fourth],
            2: [*first, *second, *fourth],
            3: [*first, *second, *third],
        }[damaged]
    )
    assert ("of what waited in history-0 some is in no sound record" in caplog.text) is (damaged in (0, 1))


def test_a_batch_follows_from_the_journal_byte_for_byte(tmp_path: Path) -> None:
    """Of flights of all kinds: what a start writes is what stands there."""
    log = begun(tmp_path / "data", Files())
    partition = log.partition_log(0, topic=TOPIC)
    run = b"\x02k\x02v\x00"
    flights = [
        [run_of(b"one", b"1"), run_of(b"tombstone", None)],
        [run],
        [run, run, run_of(b"", b""), run],
        *[[run]] * 200,
    ]
    for later, runs in enumerate(flights):
        assert log.write([], MayWait(TOPIC, NOW + later, RecordsToWait([0] * len(runs), runs))) == {}
    assert partition.waiting is not None
    waiting = partition.waiting
    path = tmp_path / "data" / JOURNAL_NAME
    (found,) = batches_of(read_waiting(path, path.read_bytes()))
    assert found == WaitedBatch(partition.topic_partition, 0, waiting.place.position, waiting.batch())
    log.settle(0, topic=TOPIC)
    stands = (tmp_path / "data" / SEGMENT / segment_name(0)).read_bytes()
    assert stands[waiting.place.position :] == found.batch.data
    log.close()


@pytest.mark.parametrize("seed", range(40))
def test_the_name_of_a_journal_that_begins_in_another_file_is_durable_before_it_is_relied_on(seed: int) -> None:
    rng = random.Random(seed)
    files = LostFiles(rng=rng)
    data_dir = Path("/data")
    files.mkdir(data_dir)
    journal = Journal(files, data_dir)
    journal.begin_anew()
    files.sync_directory(Path("/"))
    files.sync_directory(data_dir)
    at = TopicPartition(TOPIC, 0)
    waiting = encoded_waiting(TOPIC, [Begun(0, 0, 100, 7, NOW)], [0], [b"waits"])
    assert journal.append([waiting])
    if seed % 2:  # the name cannot be synced at first
        files.error_in = frozenset({"sync_directory"})
        files.errors = dict.fromkeys((files.calls, files.calls + 1), errno.EIO)
        with pytest.raises(OSError, match="Input/output"):
            journal.begin_anew([waiting])
        assert not journal.append([encoded_entry(*JournalEntry(at, 0, 200, 20, b"not durable here"))])
    else:
        journal.begin_anew([waiting])
    entry = JournalEntry(at, 0, 200, 20, b"durable")
    assert journal.append([encoded_entry(*entry)])
    files = files.after_power_failure()
    found = list(read_entries(data_dir / JOURNAL_NAME, files.content()[data_dir / JOURNAL_NAME]))
    assert found == [entry]


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("relied_on_by", ["append", "heal", "begin_anew"])
def test_a_name_that_could_not_be_synced_is_given_anew(relied_on_by: str, seed: int) -> None:
    """Another sync of the folder may find nothing to write, and succeed."""
    files = LostFiles(rng=random.Random(seed))
    data_dir = Path("/data")
    files.mkdir(data_dir)
    files.sync_directory(Path("/"))
    journal = Journal(files, data_dir)
    journal.begin_anew()
    files.sync_directory(data_dir)
    at = TopicPartition(TOPIC, 0)
    assert journal.append([encoded_entry(*JournalEntry(at, 0, 200, 20, b"of the file before"))])
    waits_still = WaitingEntry(at, Begun(0, 0, 100, 7, NOW), [b"waits"])
    files.error_in = frozenset({"sync_directory"})
    files.errors = {files.calls: errno.EIO}
    with pytest.raises(OSError, match="Input/output"):
        journal.begin_anew([encoded_waiting(TOPIC, [waits_still.batch], [0], [b"waits"])])
    if relied_on_by == "append":
        assert journal.append([])
    else:
        getattr(journal, relied_on_by)()
    journal.close()
    assert files.open_files == 0
    content = files.after_power_failure().content()[data_dir / JOURNAL_NAME]
    assert list(read_entries(data_dir / JOURNAL_NAME, content)) == []
    assert read_waiting(data_dir / JOURNAL_NAME, content) == ([] if relied_on_by == "begin_anew" else [waits_still])


def test_what_was_staged_in_a_flight_that_failed_is_not_written_with_what_waits(tmp_path: Path) -> None:
    files = FaultyFiles()
    log = OffsetsLog.open(tmp_path / "data", 1, topics=("offsets", TOPIC), files=files)
    assert not list(log.recover(0, topic="offsets"))
    assert not values(log)
    assert log.write(at_once("first")) == {}
    assert log.write(*waits("waits")) == {}
    files.fail("pwrite", errno.EIO, "offsets-0/")
    assert 0 in log.write([PartitionWrite(0, [[(b"key", b"")]], NOW, "offsets")], waits("refused")[1])
    files.heal()
    log.settle(0, topic=TOPIC)  # before it is recovered
    assert values(log) == [b"first", b"waits"]
    log.close()


def two_topics(data_dir: Path, files: Files) -> OffsetsLog:
    """Two partitions, in whose history records can wait, and do."""
    log = OffsetsLog.open(data_dir, 2, topics=("offsets", TOPIC), files=files)
    for number in range(2):
        for topic in ("offsets", TOPIC):
            assert not list(log.recover(number, topic=topic))
    assert log.write([*at_once("first", 0), *at_once("first", 1)]) == {}
    assert log.write(*of_both("waits")) == {}
    return log


def of_both(key: str) -> tuple[list[PartitionWrite], MayWait]:
    offsets = [PartitionWrite(number, [[(b"key", b"")]], NOW, "offsets") for number in range(2)]
    return offsets, may_wait(TOPIC, NOW, {number: [[(key.encode(), b"")]] for number in range(2)})


def history_after_a_crash(data_dir: Path) -> list[list[bytes]]:
    crashed = data_dir.with_name("crashed")
    shutil.copytree(data_dir, crashed)
    log = OffsetsLog.open(crashed, 2, topics=("offsets", TOPIC))
    found = [[record.key for record in log.recover(number, topic=TOPIC)] for number in range(2)]
    log.close()
    return found


@pytest.mark.parametrize("refused", ["offsets", "offsets and journal", "history and journal"])
def test_nor_does_a_start_find_it(tmp_path: Path, refused: str) -> None:
    files = FaultyFiles()
    log = two_topics(tmp_path / "data", files)
    if refused == "history and journal":
        files.fail("pwrite", errno.EIO, JOURNAL_NAME, SEGMENT)
    elif refused == "offsets and journal":
        files.fail("pwrite", errno.EIO, JOURNAL_NAME, "offsets-0/")
    else:
        files.fail("pwrite", errno.EIO, "offsets-0/")
    assert list(log.write(*of_both("refused"))) == [0]
    files.heal()
    for topic in ("offsets", TOPIC):
        list(log.recover(0, topic=topic))
    for key in ("more", "last"):
        assert log.write(*of_both(key)) == {}
    expected = [[b"first", b"waits", b"more", b"last"], [b"first", b"waits", b"refused", b"more", b"last"]]
    assert history_after_a_crash(tmp_path / "data") == expected
    assert [[record.key for record in log.recover(number, topic=TOPIC)] for number in range(2)] == expected
    log.close()


@pytest.mark.parametrize("breaks", ["stage", "prepare", "append"])
def test_nor_what_was_staged_in_a_write_that_broke_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, breaks: str
) -> None:
    log = two_topics(tmp_path / "data", Files())

    def out_of_memory(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as breaking:
        if breaks == "append":
            breaking.setattr(Journal, "append", out_of_memory)
        elif breaks == "stage":  # as it is for the first to wait in a partition
            log.settle(1, topic=TOPIC)
            breaking.setattr(log.partition_log(1, topic=TOPIC), breaks, out_of_memory)
        else:
            breaking.setattr(log.partition_log(1, topic="offsets"), breaks, out_of_memory)
        with pytest.raises(MemoryError):
            log.write(*of_both("broken off"))
    assert [log.partition_log(number, topic=TOPIC).waiting for number in range(2)] != [None, None]
    for number in range(2):
        list(log.recover(number, topic="offsets"))
    assert log.write(*of_both("last")) == {}
    expected = [[b"first", b"waits", b"last"]] * 2
    assert history_after_a_crash(tmp_path / "data") == expected
    assert [[record.key for record in log.recover(number, topic=TOPIC)] for number in range(2)] == expected
    log.close()


@pytest.mark.parametrize("then", ["taken", "refused", "broken off"])
def test_a_recovery_meanwhile_hands_out_what_is_not_acknowledged_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    """Of another partition, for which something is kept."""
    files = FaultyFiles()
    log = two_topics(tmp_path / "data", files)
    assert log.write(*of_both("kept")) == {}
    append = Journal.append

    def meanwhile(journal: Journal, entries: Sequence[EncodedEntry]) -> bool:
        monkeypatch.setattr(Journal, "append", append)
        assert [record.key for record in log.recover(1, topic=TOPIC)] == [b"first", b"waits", b"kept"]
        if then == "broken off":
            raise MemoryError
        if then == "refused":
            files.fail("pwrite", errno.EIO, JOURNAL_NAME, SEGMENT)
        return append(journal, entries)

    offsets, _ = of_both("")
    written = offsets[:1], may_wait(TOPIC, NOW, {0: [[(b"more", b"")], [(b"and more", b"")]]})
    monkeypatch.setattr(Journal, "append", meanwhile)
    if then == "broken off":
        with pytest.raises(MemoryError):
            log.write(*written)
    else:
        assert list(log.write(*written)) == ([0] if then == "refused" else [])
    files.heal()
    if then != "taken":
        for topic in ("offsets", TOPIC):
            list(log.recover(0, topic=topic))
    assert log.write(*of_both("last")) == {}
    more = [b"more", b"and more"] if then == "taken" else []
    expected = [[b"first", b"waits", b"kept", *more, b"last"], [b"first", b"waits", b"kept", b"last"]]
    assert history_after_a_crash(tmp_path / "data") == expected
    assert [[record.key for record in log.recover(number, topic=TOPIC)] for number in range(2)] == expected
    log.close()


def test_nothing_is_kept_where_there_is_no_room_for_all_that_may_be(tmp_path: Path) -> None:
    """What is taken may use it up."""
    log = two_topics(tmp_path / "data", Files())
    large = waiting_module.MOST_BYTES - 4_000
    offsets, _ = of_both("")
    for size in (large, large):
        log.settle(1, topic=TOPIC)  # so that each of them is taken by itself
        of_size = {0: [[(b"large", bytes(size))]], 1: [[(b"small", b"")]]}
        assert log.write(offsets, may_wait(TOPIC, NOW, of_size)) == {}
    waiting = log.partition_log(0, topic=TOPIC).waiting
    assert waiting is not None
    assert not waiting.has_room
    assert log.write(offsets, may_wait(TOPIC, NOW, {0: [[(b"more", b"")]]})) == {}
    assert log.partition_log(0, topic=TOPIC).waiting is None, "it was written first"
    log.close()


def test_none_is_kept_for_a_partition_that_takes_no_writes(tmp_path: Path) -> None:
    files = FaultyFiles()
    log = two_topics(tmp_path / "data", files)
    files.fail("fdatasync", errno.EIO, SEGMENT)
    with pytest.raises(OSError, match="Input/output"):
        log.partition_log(0, topic=TOPIC).sync()
    files.heal()
    assert list(log.write(*of_both("refused"))) == [0]
    for topic in ("offsets", TOPIC):
        list(log.recover(0, topic=topic))
    assert log.write(*of_both("last")) == {}
    expected = [[b"first", b"waits", b"last"], [b"first", b"waits", b"refused", b"last"]]
    assert history_after_a_crash(tmp_path / "data") == expected
    log.close()


def test_of_a_partition_that_there_is_not_nothing_is_written(tmp_path: Path) -> None:
    log = two_topics(tmp_path / "data", Files())
    with pytest.raises(ValueError, match="there is no partition history-2"):
        log.write([], may_wait(TOPIC, NOW, {0: [[(b"refused", b"")]], 2: [[(b"refused", b"")]]}))
    assert history_after_a_crash(tmp_path / "data") == [[b"first", b"waits"]] * 2
    log.close()


@pytest.mark.parametrize("breaks", ["framed", "add"])
def test_what_was_handed_out_by_half_is_not_written_before_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, breaks: str
) -> None:
    data_dir = tmp_path / "data"
    log = two_topics(data_dir, Files())
    assert log.write(*of_both("kept")) == {}
    method, calls = getattr(Waiting, breaks), iter(range(9))

    def out_of_memory(*args: Any) -> Any:
        if next(calls) == 1:
            raise MemoryError
        return method(*args)

    with monkeypatch.context() as breaking:
        breaking.setattr(Waiting, breaks, out_of_memory)
        with pytest.raises(MemoryError):
            log.settle(1, topic=TOPIC)
    if breaks == "add":
        with pytest.raises(RuntimeError, match="by half"):
            log.settle(1, topic=TOPIC)
        with pytest.raises(RuntimeError, match="by half"):
            log.close()
        assert not log.ended_clean
    else:
        log.close()
    again = OffsetsLog.open(data_dir, 2, topics=("offsets", TOPIC))
    found = [[record.key for record in again.recover(number, topic=TOPIC)] for number in range(2)]
    assert found == [[b"first", b"waits", b"kept"]] * 2
    again.close()


def test_how_much_waits_is_known_whatever_is_refused() -> None:
    nothing_kept = TopicStaging(TOPIC, {})
    waiting = Waiting(0, LogEnd(0, 100, 7), NOW, 1 << 20, nothing_kept)
    half = [bytes(waiting_module.MOST_BYTES // 2)]
    assert not waiting.take([bytes(waiting_module.MOST_BYTES)]), "too many for one flight"
    assert not waiting.take([*half, *half])
    assert not waiting.take([])
    for _ in range(3):
        assert waiting.take(half)
        waiting.drop(1)
    for _ in range(2):
        assert waiting.take(half)
    assert not waiting.take([b"\x02k\x02v\x00"])
    without_room = Waiting(0, LogEnd(0, 100, 7), NOW, 100, nothing_kept)
    assert not without_room.take([bytes(50)]), "there is no room for it"


@pytest.mark.parametrize("seed", range(20))
def test_what_a_recovery_writes_while_the_journal_is_written_to_the_segment_is_not_taken_for_durable(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that writes puts right what was acknowledged, and another begins to read the partition back."""
    files = LostFiles(rng=random.Random(seed))
    data_dir = Path("/data")
    log = begun(data_dir, files)
    assert log.write(at_once("second")) == {}
    assert log.write(*waits("waits")) == {}
    reading = log.recover(0, topic=TOPIC)
    redo = Journal.redo_partition

    def redo_beside_recovery(journal: Journal, partition: TopicPartition, below: int | None = None) -> int | None:
        end = redo(journal, partition, below)
        with pytest.raises(OSError, match="the next step"):  # before the segment is synced
            next(reading)
        assert log.partition_log(0, topic=TOPIC).waiting is None
        return end

    def heal(journal: Journal) -> None:
        raise OSError(errno.EIO, "the next step")

    monkeypatch.setattr(Journal, "heal", heal)
    monkeypatch.setattr(Journal, "redo_partition", redo_beside_recovery)
    assert log.maintain(NOW + 1_000_000).failed == {}
    monkeypatch.undo()
    again = opened(data_dir, files.after_power_failure())
    assert values(again) == [b"first", b"second", b"waits"]
    again.close()
