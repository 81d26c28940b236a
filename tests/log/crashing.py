"""Lives of a log that end in a crash, one after the other, and what has to be there after each."""

from __future__ import annotations

import errno
import random
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from unittest import mock

from protocol.own.record_sets import LoggedRecord
from protocol.records.batches import (
    CorruptBatch,
    Record,
    batches,
    decode_records,
    encode_batch,
    framed_batch,
)
from protocol.records.record_runs import frame_runs
from protocol.topic_partition import TopicPartition
from shim.log import flush, settling, staging
from shim.log.directory.data_dir import DataDir
from shim.log.directory.handover import CLEAN_SHUTDOWN
from shim.log.directory.meta_properties import META_NAME
from shim.log.disk.checkpoint import RECOVERY_POINT_CHECKPOINT, read_checkpoint
from shim.log.disk.layout import segment_name
from shim.log.disk.names import STAND_IN
from shim.log.journal import journal, journal_records
from shim.log.journal import waiting as waiting_log
from shim.log.journal.journal_records import Begun, WaitingEntry
from shim.log.offsets_log import OffsetsLog, PartitionWrite
from shim.log.segments import batching, index
from shim.log.settings import LogSettings
from tests.log.lost_files import LostFiles, PowerFailure
from tests.log.runs import may_wait

DATA_DIR = Path("/disk/shim/data")
JOURNAL = DATA_DIR / journal.JOURNAL_NAME
WAITING_TOPIC = "history"
TOPICS = ("offsets", WAITING_TOPIC)
PARTITIONS = 2
MAX_STEPS = 12
HIGHEST_CALL = 90
OPENING_CALLS = 20

RecordSet = list[tuple[bytes, bytes | None]]


@contextmanager
def small_sizes() -> Iterator[None]:
    """Batches and index entries at sizes that a test reaches; one sync after the other, so that the seed decides."""
    with (
        mock.patch.object(batching, "MAX_BATCH_BYTES", 150),
        mock.patch.object(index, "INTERVAL_BYTES", 150),
        mock.patch.object(flush, "_SIDE_BY_SIDE_FROM", 1 << 30),
        mock.patch.object(journal, "FULL_BYTES", 6_000),
        mock.patch.object(journal, "_LARGEST_BYTES", 7_000),
        mock.patch.object(journal, "_CHUNK_BYTES", 500),
        mock.patch.object(waiting_log, "MOST_BYTES", 400),
        mock.patch.object(waiting_log, "MOST_KEPT", 600),
        mock.patch.object(staging, "MOST_KEPT", 600),
        mock.patch.object(journal, "_MOST_WAITING_BYTES", 400 + 600),
        mock.patch.object(settling, "_WAITING_MS", 80),
    ):
        yield


class Kept:
    """What one partition has to give back."""

    def __init__(self) -> None:
        self.records: list[tuple[bytes, bytes | None]] = []
        """Acknowledged, or served after a recovery; in order."""
        self.certain = 0
        """So many of them cannot get lost, under the flush policies that there were."""
        self.in_doubt: list[RecordSet] = []
        """Written, and not acknowledged."""

    def check(self, found: list[tuple[bytes, bytes | None]]) -> None:
        assert found[: self.certain] == self.records[: self.certain], "acknowledged records are lost"
        if len(found) <= len(self.records):
            assert found == self.records[: len(found)], "records in another order"
            return
        assert found[: len(self.records)] == self.records, "records in another order"
        rest = found[len(self.records) :]
        for record_set in self.in_doubt:
            if not rest:
                break
            assert rest[: len(record_set)] == record_set, "half of a record set, or none that was written"
            rest = rest[len(record_set) :]
        assert not rest, "records that nobody wrote"

    def served(self, found: list[tuple[bytes, bytes | None]]) -> None:
        self.check(found)
        self.records = found
        self.certain = len(found)
        self.in_doubt = []


class Lives:
    """Everything in here follows from the seed."""

    def __init__(self, seed: int, files: type[LostFiles] = LostFiles) -> None:
        self.rng = random.Random(seed)
        self.rolls = seed % 3 > 0
        """Otherwise hardly anything is flushed but the journal, and by its checkpoints."""
        self.waits = seed % 4 == 1
        """Most of what is written waits, and stays so for a while."""
        if self.waits:
            self.rolls = False
        self.files = files(rng=self.rng)
        self.files.mkdir(Path("/disk"))
        self.files.sync_directory(Path("/"))
        self.kept = {TopicPartition(topic, p): Kept() for topic in TOPICS for p in range(PARTITIONS)}
        self.now_ms = 1_000_000
        self.number = 0
        self.claimed = False
        self.closed_clean = False
        self.noted: dict[TopicPartition, int] = {}
        self.torn: dict[Path, tuple[bytes, int]] = {}
        self.crashes = 0

    def run(self, lives: int) -> None:
        with small_sizes():
            for _ in range(lives):
                highest = self.rng.choice((OPENING_CALLS, HIGHEST_CALL, HIGHEST_CALL))
                if self.waits:
                    highest = HIGHEST_CALL
                self.files.crash_at = self.rng.randrange(highest) if self.rng.random() < 0.9 else None
                self.files.crash_in = self.rng.choice((frozenset(), frozenset(), frozenset({"sync_directory"})))
                try:
                    self._live()
                except PowerFailure:
                    self.closed_clean = False
                self._crash()
            self.files.errors.clear()
            self._live(peaceful=True)

    def _crash(self) -> None:
        self.crashes += 1
        if self.files.errors:  # a sync that failed may have lost the torn tail before anybody could copy it
            self.torn = {}
        killed = self.rng.random() < 0.3
        self.files = self.files.after_kill() if killed else self.files.after_power_failure()
        content = self.files.content()
        self._check_copies(content)
        if not killed:
            redone = with_journal(content)
            self.torn = {path: tail for path, data in redone.items() if (tail := torn_tail(path, data))}
        if self.claimed:
            assert DATA_DIR / META_NAME in content, "whose data it is has been forgotten"
        if self.closed_clean:
            assert content.get(DATA_DIR / CLEAN_SHUTDOWN), "closed in good order, and forgotten"
        points = read_checkpoint(self.files, DATA_DIR / RECOVERY_POINT_CHECKPOINT)
        for at, noted in self.noted.items():
            assert points.get(at, 0) >= noted, "a recovery point that was noted is forgotten"

    def _check_copies(self, content: dict[Path, bytes]) -> None:
        """What was a torn tail at the last start stands where it stood, or has been copied."""
        for path, (tail, start) in self.torn.items():
            if content.get(path, b"")[start : start + len(tail)] != tail:
                copies = [data for name, data in content.items() if name.name.startswith(f"{path.name}.cut-{start}")]
                assert tail in copies, f"{len(tail)} bytes were cut from {path} and not kept"

    # --- one life ----------------------------------------------------------------------------------------------------

    def _live(self, *, peaceful: bool = False) -> None:
        rng = self.rng
        strict = self.waits or rng.random() < (0.6 if self.rolls else 0.9)
        settings = LogSettings(
            segment_bytes=rng.choice((100, 350, 700, 100_000)) if self.rolls else 100_000,
            roll_ms=rng.choice((50, 10_000)) if self.rolls else 10_000,
            flush_interval_messages=1 if strict else rng.choice((3, 8, 1000)),
            flush_interval_ms=rng.choice((40, 2**63 - 1)),
            flush_offset_checkpoint_interval_ms=rng.choice((30, 300)),
        )
        if not peaceful and rng.random() < 0.4:
            first = 0
            if not self.rolls and rng.random() < 0.5:
                # Of the journal, as a rule, and of a segment of the same write.
                self.files.error_in, first = frozenset({"fdatasync"}), OPENING_CALLS
            elif rng.random() < 0.4:  # of names
                self.files.error_in, first = frozenset({"sync_directory"}), OPENING_CALLS
            self.files.errors = {
                at + more: rng.choice((errno.EIO, errno.ENOSPC))
                for at in rng.sample(range(first, HIGHEST_CALL), rng.randrange(1, 5))
                for more in range(rng.choice((1, 2, 2, 3)))
            }
        self.files.longest_write = rng.choice((1 << 30, 1 << 30, 50))
        log = self._opened(settings)
        if log is None:
            return
        recovered = [self._recover(log, at) for at in self.kept]
        self._claim(log)
        often = 0.0 if peaceful else 0.6 if self.waits else rng.choice((0.0, 0.0, 0.5))
        for _ in range(rng.randrange(MAX_STEPS) + MAX_STEPS * self.waits):
            self._refuse(often)
            step = rng.choice((self._write, self._write, self._write, self._maintain, self._read))
            step(log, settings)
        self._refuse(often)
        if peaceful or rng.random() < 0.5:
            self._close(log)
        self.files.refuses = None
        if peaceful:
            assert all(recovered)
            assert self.files.open_files == 0

    def _refuse(self, often: float) -> None:
        """What waits cannot be written to its segment, as a rule, while commits go on."""
        at = TopicPartition(WAITING_TOPIC, self.rng.randrange(PARTITIONS))
        self.files.refuses = DATA_DIR / str(at) if self.rng.random() < often else None

    def _opened(self, settings: LogSettings) -> OffsetsLog | None:
        self.closed_clean = False
        for _ in range(3):
            self.files.forget_failed_folders()
            try:
                return OffsetsLog.open(DATA_DIR, PARTITIONS, topics=TOPICS, settings=settings, files=self.files)
            except OSError:
                continue
        return None

    def _recover(self, log: OffsetsLog, at: TopicPartition) -> bool:
        for _ in range(4):
            if self.rng.random() < 0.5:
                self.files.refuses = None  # a torn tail is to be copied
            try:
                reading = log.recover(at.partition, topic=at.topic)
                first = self.rng.randrange(4)
                found = list(islice(reading, first))
                # Once it has been read to its end, what waits may be written, and would not have been read.
                if self.rng.random() < 0.2 and len(found) == first:
                    self._maintain_meanwhile(log, reading)
                found += reading
            except OSError:
                continue
            assert [record.offset for record in found] == list(range(len(found)))
            waiting = waiting_records(log, at)
            self.kept[at].served([(record.key, record.value) for record in found] + waiting)
            assert log.log_end_offset(at.partition, topic=at.topic) == len(found)
            return True
        return False

    def _maintain_meanwhile(self, log: OffsetsLog, reading: Iterator[LoggedRecord]) -> None:
        """The thread that writes does not wait for a recovery."""
        try:
            log.maintain(self.now_ms)
        except PowerFailure:
            assert isinstance(reading, Generator)
            with suppress(PowerFailure):
                reading.close()
            raise

    def _claim(self, log: OffsetsLog) -> None:
        try:
            log.data_dir.claim("A")
        except OSError:
            return
        self.claimed = True

    def _record_sets(self, topic: str) -> list[RecordSet]:
        """Often of one size, so that what is written anew can stand exactly where something lost stood."""
        sets: list[RecordSet] = []
        for _ in range(1 if self.waits else self.rng.choice((1, 1, 2, 4))):
            size = self.rng.choice((1, 1, 3)) if topic != WAITING_TOPIC else 1  # of those each is by itself
            length = self.rng.choice((4, 4, 4, 60, 200))
            self.number += 1
            sets.append([(b"%06d/%d" % (self.number, i), bytes([self.number % 251]) * length) for i in range(size)])
        return sets

    def _write(self, log: OffsetsLog, settings: LogSettings) -> None:
        self.now_ms += self.rng.choice((0, 7, 60))
        chosen = self.rng.sample(sorted(self.kept), self.rng.randrange(1, 4))
        if self.waits:
            chosen = sorted({*chosen[:1], *(at for at in self.kept if at.topic == WAITING_TOPIC)})
        writes = {at: self._record_sets(at.topic) for at in chosen}
        for at, record_sets in writes.items():
            self.kept[at].in_doubt += record_sets
        waits = {at for at in chosen if at.topic == WAITING_TOPIC and self.rng.random() < 0.8}
        failed = log.write(
            [PartitionWrite(at.partition, writes[at], self.now_ms, at.topic) for at in chosen if at not in waits],
            may_wait(WAITING_TOPIC, self.now_ms, {at.partition: writes[at] for at in chosen if at in waits}),
        )
        for staging_of_topic in log._staging.values():
            for number in staging_of_topic._open:
                waiting = staging_of_topic.logs[number].waiting
                assert waiting is not None, "records are kept for a batch that has not begun"
                assert waiting.has_room, "more may be kept than there is room for"
        for at, record_sets in writes.items():
            if at.partition not in failed:
                self._acknowledged(at, record_sets, settings)
        for number in failed:
            for at in self.kept:
                if at.partition == number:
                    self._recover(log, at)

    def _acknowledged(self, at: TopicPartition, record_sets: list[RecordSet], settings: LogSettings) -> None:
        kept = self.kept[at]
        assert kept.in_doubt == record_sets
        kept.in_doubt = []
        kept.records = kept.records + [record for record_set in record_sets for record in record_set]
        kept.certain = max(kept.certain, len(kept.records) - settings.flush_interval_messages + 1)

    def _maintain(self, log: OffsetsLog, settings: LogSettings) -> None:
        self.now_ms += self.rng.choice((0, 20, 100))
        for partition in log.partition_logs():
            if self.rolls and self.rng.random() < 0.3:
                partition.roll_older_than(self.now_ms + 1)
        failed, next_ms = log.maintain(self.now_ms)
        assert next_ms > self.now_ms
        for at, kept in self.kept.items():
            if at.partition in failed:
                if self.rng.random() < 0.7:  # or when it is next written to
                    self._recover(log, at)
            elif self.now_ms - settings.flush_interval_ms >= 0 and self._flushed_by(log, at):
                kept.certain = max(kept.certain, len(kept.records))
        if not self.files.errors:
            self.noted = dict(log._handover._noted)

    def _flushed_by(self, log: OffsetsLog, at: TopicPartition) -> bool:
        partition = log.partition_log(at.partition, topic=at.topic)
        return partition.recovered and partition.unsynced_since_ms is None

    def _read(self, log: OffsetsLog, settings: LogSettings) -> None:
        at = self.rng.choice(sorted(self.kept))
        partition = log.partition_log(at.partition, topic=at.topic)
        if not partition.recovered:
            return
        try:
            log.settle(at.partition, topic=at.topic)
        except OSError:
            return
        records = self.kept[at].records
        start = self.rng.randrange(len(records) + 1)
        found = [r for batch in partition.read(start) for r in batch.records if r.offset >= start]
        assert [(r.key, r.value) for r in found] == records[start:]
        assert [r.offset for r in found] == list(range(start, len(records)))

    def _close(self, log: OffsetsLog) -> None:
        clean = all(log.partition_log(p, topic=t).recovered for t, p in self.kept)
        log.close()
        if clean and not self.files.errors and self.files.refuses is None:
            self.closed_clean = True
            for at, kept in self.kept.items():
                kept.certain = len(kept.records)
                if kept.records:
                    self.noted[at] = len(kept.records)


def waiting_records(log: OffsetsLog, at: TopicPartition) -> list[tuple[bytes, bytes | None]]:
    """Those that could not be written to the segment yet."""
    waiting = log.partition_log(at.partition, topic=at.topic).waiting
    if waiting is None:
        return []
    return [(record.key or b"", record.value) for record in decoded(waiting.runs(), waiting.place.offset)]


class DataDirLives:
    """Lives of a data directory whose log is on topics, each ended by a crash; and what has to be noted in it after
    each. Everything follows from the seed."""

    def __init__(self, seed: int, files: type[LostFiles] = LostFiles) -> None:
        self.rng = random.Random(seed)
        self.files = files(rng=self.rng)
        self.files.mkdir(Path("/disk"))
        self.files.sync_directory(Path("/"))
        self.noted: set[bytes] = set()
        self.crashes = 0

    def run(self, lives: int) -> None:
        for _ in range(lives):
            self.files.crash_at = self.rng.randrange(OPENING_CALLS)
            if self.rng.random() < 0.4:
                self.files.error_in = frozenset({"sync_directory"})
                self.files.errors = {self.rng.randrange(OPENING_CALLS): errno.EIO}
            with suppress(PowerFailure):
                self._live()
            self.crashes += 1
            killed = self.rng.random() < 0.5
            self.files = self.files.after_kill() if killed else self.files.after_power_failure()
            self._check()
        self._live()
        assert self.files.open_files == 0

    def _live(self) -> None:
        try:
            held = DataDir.open(DATA_DIR, topics_prefix="own", files=self.files)
        except OSError:
            return
        for _ in range(2):
            with suppress(OSError):
                held.claim("A")
                self.noted |= {b"cluster.id=A", b"offsets.log=kafka:own"}
                self._check()
                if self.rng.random() < 0.5:
                    held.note_chroot("/")
                    self.noted.add(b"zookeeper.chroot=/")
        held.close()

    def _check(self) -> None:
        found = self.files.content().get(DATA_DIR / META_NAME)
        lines = [] if found is None else found.splitlines()
        assert self.noted <= set(lines), "what was noted is forgotten"
        assert found is None or lines[:3] == [b"version=1", b"cluster.id=A", b"offsets.log=kafka:own"], "half a note"


def with_journal(content: dict[Path, bytes]) -> dict[Path, bytes]:
    """The files as a start makes them: what the journal has of the newest segments is in these."""
    redone = dict(content)
    placed: list[tuple[TopicPartition, int, int, bytes]] = []
    waiting: dict[tuple[TopicPartition, Begun], list[bytes]] = {}
    for entry in journal_records.read(Path(), content.get(JOURNAL, b"")):
        if isinstance(entry, WaitingEntry):
            waiting.setdefault((entry.partition, entry.batch), []).extend(entry.runs)
        else:
            placed.append((entry.partition, entry.base_offset, entry.position, entry.data))
    for (at, (_, base_offset, position, first_offset, timestamp_ms)), runs in waiting.items():
        batch = encode_batch(first_offset, [(r.key, r.value) for r in decoded(runs, first_offset)], timestamp_ms)
        stands = content.get(DATA_DIR / str(at) / segment_name(base_offset), b"")[position:]
        if not has_all(stands, first_offset, len(runs)):
            placed.insert(0, (at, base_offset, position, batch))
    for partition, base_offset, position, data in placed:
        folder = DATA_DIR / str(partition)
        newest = max((path for path in content if path.parent == folder and path.suffix == ".log"), default=None)
        if newest is not None and newest.name == segment_name(base_offset):
            before = redone[newest].ljust(position, b"\0")
            redone[newest] = before[:position] + data + before[position + len(data) :]
    return redone


def decoded(runs: Sequence[bytes], first_offset: int) -> list[Record]:
    parts: list[bytes | bytearray] = []
    return decode_records(framed_batch(first_offset, frame_runs(runs, parts, 0), parts, 0)[0])


def has_all(stands: bytes, first_offset: int, count: int) -> bool:
    """Whether what stands there begins with a sound batch of these records, or of more."""
    try:
        _, header = next(batches(stands))
    except (CorruptBatch, StopIteration):
        return False
    return header.base_offset == first_offset and header.next_offset >= first_offset + count


def torn_tail(path: Path, data: bytes) -> tuple[bytes, int] | None:
    """What of a segment's bytes follows its last sound batch, and where that begins; None when nothing does."""
    if path.suffix != ".log" or data == STAND_IN:
        return None
    end, due = 0, int(path.stem)
    try:
        for position, header in batches(data):
            if header.base_offset != due:
                break
            end, due = position + header.size, header.next_offset
    except CorruptBatch:
        pass
    return (data[end:], end) if end < len(data) else None
