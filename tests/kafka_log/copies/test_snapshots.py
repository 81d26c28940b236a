"""What a snapshot of a partition on a topic says, and when it is believed."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from protocol.errors import DecodeError
from protocol.own.topic_log import Owner
from protocol.records.batches import BatchHeader
from shim.coordinator import GroupCoordinator
from shim.kafka_log.copies.snapshot_format import Anchor, Kept, TopicDump, head_of, read_kept
from shim.kafka_log.copies.snapshots import SNAPSHOTS_NAME, TopicSnapshots, _Folder
from shim.kafka_log.owning.owned_topic import OwnedTopic
from shim.kafka_log.owning.producer_ids import ProducerEpoch
from shim.kafka_log.producing.produced import Produced, Verdict
from shim.log import LogError
from shim.log.disk.files import Files
from shim.log.partition.snapshot import Snapshot, snapshot_name
from shim.log.segments.active import LastBatch
from shim.runtime.replaying import Home
from shim.runtime.snapshots import NotNow
from shim.upstream.errors import UpstreamError
from shim.upstream.topic_reader import TopicReader
from tests.coordinator.driving import new_coordinator
from tests.examples import examples
from tests.kafka_log.deciding import Deciding, known
from tests.kafka_log.test_model import AnyDecisions
from tests.kafka_log.topic_partition import NAME, Standby, TopicPartition
from tests.log.faulty_files import FaultyFiles
from tests.log.lost_files import LostFiles

TOPIC_ID, OTHER_ID = bytes([1] * 16), bytes([2] * 16)
OWNER = Owner(bytes([7] * 16), "whoever took it", 1_000)
HOUR_MS = 3_600_000
ERA = bytes([9] * 16)


def anchor_in(topic: TopicPartition) -> Anchor:
    return Anchor.of(TOPIC_ID, 0, topic.headers[-1])


def payload_of(topic: TopicPartition, coordinator: GroupCoordinator, era: bytes = ERA) -> bytes:
    dump = TopicDump(coordinator)
    while dump.step():
        pass
    return head_of(era, anchor_in(topic), OWNER) + b"".join(dump.pieces())


def kept_of(topic: TopicPartition, payload: bytes) -> Kept:
    header = topic.headers[-1]
    anchor = LastBatch(header.next_offset, 0, 0, header.size, header.base_offset, header.crc)
    return read_kept(NAME, Snapshot(Path("a.snapshot"), anchor, memoryview(payload)), 0.0)


def decided() -> Deciding:
    d = Deciding()
    for number in range(20):
        d.commit(offsets=[("a", number, number)], group="g")
    d.begin(1, ("g", "a", 3), offset=33)
    return d


class Restored(Standby):
    """Whoever goes on with a snapshot."""

    def __init__(self, kept: Kept) -> None:
        super().__init__()
        kept.restore(self.copy.coordinator, Home(0, 1, NAME))
        self.copy.part = kept.part


class AnySnapshots(AnyDecisions):
    """Any decisions, a snapshot at any moment, any compaction of what may go by then: it and the tail are the log."""

    def __init__(self) -> None:
        super().__init__()
        self.payload = b""
        self.kept: Kept | None = None
        self.taken = 0

    @precondition(lambda self: self.d.topic.headers)
    @rule()
    def take(self) -> None:
        self.payload = payload_of(self.d.topic, self.d.coordinator)
        self.kept = kept_of(self.d.topic, self.payload)
        self.taken = self.d.topic.ends[-1]

    @rule(part=st.floats(0, 1), goes=st.sampled_from([0.0, 0.5, 1.0]), seed=st.integers(0, 2**16))
    def compact(self, part: float, goes: float, seed: int) -> None:
        """Tombstones behind the snapshot are younger than it, and none of them goes while it counts."""
        rng = Random(seed)
        below = round(part * self.d.topic.ends[-1])
        self.d.topic.compact(below, lambda it: it.offset < self.taken and rng.random() < goes)
        self.compacted = True
        self.lacks_tombstones |= goes > 0

    @rule()
    def restart(self) -> None:
        self.d.load(self.restored() if self.kept is not None else self.d.topic.replayed())
        self.restarted = True

    def restored(self) -> GroupCoordinator:
        assert self.kept is not None
        standby = Restored(read_kept(NAME, self.kept.snapshot, 0.0))
        standby.read(self.d.topic, self.d.topic.ends[-1])
        return standby.copy.coordinator

    @invariant()
    def it_and_the_tail_say_it_all(self) -> None:
        if self.kept is not None:
            assert known(self.restored()) == known(self.d.topic.replayed())


AnySnapshots.TestCase.settings = settings(max_examples=examples(20), stateful_step_count=40, deadline=None)
TestAnySnapshots = AnySnapshots.TestCase


# -- what it says


def test_what_it_says_is_what_was_there() -> None:
    d = decided()
    kept = kept_of(d.topic, payload_of(d.topic, d.coordinator))
    assert kept.anchor == anchor_in(d.topic)
    header = d.topic.headers[-1]
    assert kept.part.position[:4] == (0, header.next_offset, header.partition_leader_epoch, header.base_offset)
    assert kept.part.position.topic_id == TOPIC_ID
    assert kept.part.last_owner == OWNER
    assert kept.part.epochs == {header.producer_id: header.producer_epoch}
    assert [each.lease_seconds for each in kept.part.claims(b"")] == [1.0], "whoever comes next waits for it"


@given(st.data())
@settings(max_examples=examples(60), deadline=None)
def test_whatever_the_bytes_are_it_is_read_or_refused(data: st.DataObject) -> None:
    """Beyond what a checksum tells: what a later release has written, or a mistake."""
    d = decided()
    raw = bytearray(payload_of(d.topic, d.coordinator))
    at = data.draw(st.integers(0, len(raw) - 1))
    if data.draw(st.booleans()):
        del raw[at:]
    else:
        raw[at] ^= data.draw(st.integers(1, 255))
    with suppress(DecodeError, LogError):
        Restored(kept_of(d.topic, bytes(raw)))


def test_one_with_groups_of_another_partition_is_refused() -> None:
    d = decided()
    kept = kept_of(d.topic, payload_of(d.topic, d.coordinator))
    with pytest.raises(LogError, match="belongs into partition"):
        kept.restore(new_coordinator(), Home(0, 1_000, NAME))


# -- when it is believed


def test_it_is_renewed_before_it_counts_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    its = Folders(tmp_path).its
    monkeypatch.setattr("shim.kafka_log.copies.snapshots.boottime", lambda: 5_000.0)
    assert not its.is_outdated(0, 9), "there is none"
    its.gone_on_with(0, 5_000.0 - 901.0)
    assert its.is_outdated(0, 9)
    assert not its.is_outdated(1, 9)
    its.gone_on_with(0, 5_000.0 - 899.0)
    assert not its.is_outdated(0, 9)


ANY_HEADER = st.builds(
    BatchHeader,
    *(st.integers(0, 9), st.just(61), st.integers(0, 2), st.just(2), st.just(0), st.just(8)),
    *(st.integers(0, 2), st.just(0), st.integers(0, 2), st.integers(1, 2), st.integers(0, 1), st.integers(0, 3)),
    st.integers(0, 3),
)


@given(ANY_HEADER, ANY_HEADER)
def test_what_stands_in_its_place_is_its_batch(taken: BatchHeader, there: BatchHeader) -> None:
    anchor = Anchor.of(TOPIC_ID, 0, taken)
    assert anchor.goes_with(taken)
    assert anchor.goes_with(taken._replace(crc=5, record_count=0, length=49)), "compaction has emptied it"
    assert not anchor.goes_with(None)
    same = {"length": 61, "crc": 0, "record_count": 0}
    if there.next_offset > taken.base_offset:  # as a broker gives it
        assert anchor.goes_with(there) == (there._replace(**same) == taken._replace(**same))


# -- its file


class Folders:
    """Of partition 0, with a snapshot."""

    def __init__(self, path: Path, files: Files | None = None) -> None:
        self.path = path
        self.its = self.opened(TOPIC_ID, files)
        self.d = decided()
        header = self.d.topic.headers[-1]
        self.anchor = LastBatch(header.next_offset, 0, 0, header.size, header.base_offset, header.crc)
        assert self.its._era is not None
        self.payload = payload_of(self.d.topic, self.d.coordinator, self.its._era)
        self.take()

    def opened(self, topic_id: bytes, files: Files | None = None, partitions: int = 2) -> TopicSnapshots:
        its = TopicSnapshots(files or Files(), self.path, partitions)
        its.open(NAME, topic_id, cast(OwnedTopic, None), cast(TopicReader, None))
        its.tidy(HOUR_MS)
        return its

    def take(self, number: int = 0) -> Path:
        path = self.its._folders[number].take(self.anchor, [self.payload])
        assert path is not None
        return path

    @property
    def names(self) -> list[str]:
        return sorted(str(each.relative_to(self.path)) for each in self.path.rglob("*.snapshot*") if each.is_file())

    @property
    def path_of_it(self) -> Path:
        return self.path / SNAPSHOTS_NAME / f"{TOPIC_ID.hex()}-0" / snapshot_name(self.anchor.next_offset)


@given(st.data())
@settings(max_examples=examples(25), deadline=None)
def test_a_file_that_is_damaged_is_not_believed(data: st.DataObject) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        its = Folders(folder)
        raw = bytearray(its.path_of_it.read_bytes())
        at = data.draw(st.integers(0, len(raw) - 1))
        if data.draw(st.booleans()):
            del raw[at:]
        else:
            raw[at] ^= data.draw(st.integers(1, 255))
        its.path_of_it.write_bytes(raw)
        assert its.its.newest(0) is None
        assert its.names == []
    finally:
        shutil.rmtree(folder)


def test_it_is_read_where_it_was_left(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    its = Folders(tmp_path)
    kept = its.its.newest(0)
    assert kept is not None
    assert known(Restored(kept).copy.coordinator) == known(its.d.topic.replayed())
    assert its.its.newest(1) is None
    assert not caplog.records


def test_a_newer_format_is_refused_in_a_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    its = Folders(tmp_path)
    its.payload = its.payload[:5] + b"\x03" + its.payload[6:]
    its.take()
    assert its.its.newest(0) is None
    (told,) = caplog.records
    assert "no snapshot of version 2 of a partition on a topic" in told.getMessage()
    assert its.names == []


@pytest.mark.parametrize("to", [f"{OTHER_ID.hex()}-0", f"{TOPIC_ID.hex()}-1"])
def test_one_of_another_topic_or_partition_is_refused(
    tmp_path: Path, to: str, caplog: pytest.LogCaptureFixture
) -> None:
    its = Folders(tmp_path)
    its.path_of_it.parent.rename(tmp_path / SNAPSHOTS_NAME / to)
    number = int(to[-1])
    other = its.opened(OTHER_ID if number == 0 else TOPIC_ID)
    assert other.newest(number) is None
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [
        "it is of another partition, or topic"
    ]
    assert its.names == []


def test_of_a_topic_without_an_id_there_is_none(tmp_path: Path) -> None:
    its = Folders(tmp_path)
    none = its.opened(bytes(16))
    assert none.ends_of(0) == []
    assert none.newest(0) is None


def test_what_is_of_no_partition_any_more_is_removed(tmp_path: Path) -> None:
    its = Folders(tmp_path)
    its.take(1)
    others = tmp_path / SNAPSHOTS_NAME
    for name in (f"{OTHER_ID.hex()}-0", f"{TOPIC_ID.hex()}-2"):
        (others / name).mkdir()
        (others / name / snapshot_name(5)).write_bytes(b"")
        (others / name / f"{snapshot_name(6)}.tmp").write_bytes(b"")
    (others / "somebody's").mkdir()
    its.its.tidy(HOUR_MS)
    assert sorted(each.name for each in others.iterdir()) == sorted(
        [f"{TOPIC_ID.hex()}-0", f"{TOPIC_ID.hex()}-1", "retention", "somebody's"]
    )
    assert len(its.names) == 2


def test_what_cannot_be_removed_or_read_stops_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = FaultyFiles()
    its = Folders(tmp_path, files)
    (tmp_path / SNAPSHOTS_NAME / f"{OTHER_ID.hex()}-0" / "somebody's").mkdir(parents=True)
    its.its.tidy(HOUR_MS)
    files.fail("open", errno.EIO)
    assert its.its.newest(0) is None
    files.heal()
    assert its.its.newest(0) is not None, "it may be read another time"
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_that_an_era_has_begun_is_durable_before_anything_is_believed_in_it(seed: int, killed: bool) -> None:
    """Its note could not be synced at first, which another sync would not mend; then the power fails, and `retention`
    is set back. What is from before has not seen the tombstones that went sooner meanwhile."""
    files = LostFiles(rng=Random(seed))
    its = Folders(Path("/disk"), files)
    shim = its.its
    files.error_in, files.errors = frozenset({"sync_directory"}), {files.calls: errno.EIO}
    shim.tidy(2 * HOUR_MS)
    files.errors = {}
    if killed:
        files = files.after_kill()
        shim = TopicSnapshots(files, its.path, 2)
        shim.open(NAME, TOPIC_ID, cast(OwnedTopic, None), cast(TopicReader, None))
    shim.tidy(2 * HOUR_MS)
    assert shim._era is not None
    files = files.after_power_failure()
    assert its.opened(TOPIC_ID, files).newest(0) is None


def test_a_note_of_the_era_that_cannot_be_read_is_made_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Whether `retention` has changed since the snapshots were taken nobody knows then; those that come are of use."""
    its = Folders(tmp_path)
    (tmp_path / SNAPSHOTS_NAME / "retention").write_bytes(UNREADABLE)
    assert its.opened(TOPIC_ID, BadSectors()).newest(0) is None
    told = [record.getMessage() for record in caplog.records]
    assert "retention: no snapshot from before is used: [Errno 5]" in told[0]
    assert "delete.retention.ms of the topic has changed" in told[1]
    again = Folders(tmp_path, BadSectors())
    assert again.opened(TOPIC_ID, BadSectors()).newest(0) is not None


UNREADABLE: Final = b"under a bad sector"


class BadSectors(FaultyFiles):
    """Whatever begins with `UNREADABLE` cannot be read."""

    def pread(self, fd: int, size: int, position: int) -> bytes:
        data = super().pread(fd, size, position)
        if data.startswith(UNREADABLE):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return data


def test_a_disk_that_is_full_leaves_the_older_one_or_none(tmp_path: Path) -> None:
    for call in ("mkdir", "create", "pwrite", "fdatasync", "rename"):
        files = FaultyFiles()
        folder = _Folder(files, tmp_path / call / SNAPSHOTS_NAME / "a")
        (tmp_path / call).mkdir()
        if call != "mkdir":
            assert folder.take(LastBatch(7, 0, 0, 1, 6, 0), [b"older"]) is not None
        files.fail(call, errno.ENOSPC)
        with pytest.raises(OSError, match="No space"):
            folder.take(LastBatch(9, 0, 0, 1, 8, 0), [b"newer"])
        files.heal()
        names = [each.name for each in (tmp_path / call).rglob("*") if each.is_file()]
        assert names == ([] if call == "mkdir" else [snapshot_name(7)])
        assert folder.take(LastBatch(9, 0, 0, 1, 8, 0), [b"newer"]) is not None


# -- what it is anchored to


class Wrote:
    """The owner and the leader, of whom the test says what they tell."""

    def __init__(self, header: BatchHeader) -> None:
        self.owner = OWNER
        self.written = Produced(Verdict.WRITTEN, 0.0, header.base_offset, header.max_timestamp)
        self.epoch = ProducerEpoch(header.producer_id, header.producer_epoch)
        self.there: tuple[bytes, BatchHeader | None] | UpstreamError = (TOPIC_ID, header)

    def last_written(self, _number: int) -> Produced:
        return self.written

    def producer(self, _number: int) -> ProducerEpoch:
        return self.epoch

    async def batch_at(self, _number: int, offset: int) -> tuple[bytes, BatchHeader | None]:
        assert offset == self.written.base_offset
        if isinstance(self.there, UpstreamError):
            raise self.there
        return self.there


HEADER = BatchHeader(5, 61, 3, 2, 0, 8, 1, 0, 1_000, 7, 2, 9, 2)


@pytest.mark.parametrize(
    ("there", "why"),
    [
        ((TOPIC_ID, None), "is not there"),
        ((OTHER_ID, HEADER), "is not there"),
        ((TOPIC_ID, HEADER._replace(base_offset=6)), "another batch"),
        ((TOPIC_ID, HEADER._replace(producer_epoch=3)), "another batch"),
        ((TOPIC_ID, HEADER._replace(max_timestamp=1_001)), "another batch"),
        ((TOPIC_ID, HEADER._replace(attributes=0)), "another batch"),
        (UpstreamError("no answer"), "no answer"),
    ],
)
async def test_it_is_anchored_to_what_was_written(
    tmp_path: Path, there: tuple[bytes, BatchHeader | None] | UpstreamError, why: str
) -> None:
    its, wrote = TopicSnapshots(Files(), tmp_path, 1), Wrote(HEADER)
    its.open(NAME, TOPIC_ID, cast(OwnedTopic, wrote), cast(TopicReader, wrote))
    with pytest.raises(NotNow, match="is not on the disk yet"):
        await its.complete(0, its.ends_of(0))
    its.tidy(HOUR_MS)
    its.gone_on_with(0, float("-inf"))
    assert its.is_outdated(0, 5)
    (end,) = await its.complete(0, its.ends_of(0))
    assert not its.is_outdated(0, 7), "it is of now"
    d = decided()
    payload = payload_of(d.topic, d.coordinator)
    head = len(head_of(ERA, anchor_in(d.topic), OWNER))
    snapshot = Snapshot(tmp_path, end.batch, memoryview(end.head + payload[head:]))
    assert read_kept(NAME, snapshot, 0.0).anchor == Anchor(TOPIC_ID, 0, 7, 3, 5, 7, 2, 9, 1_000)
    wrote.there = there
    with pytest.raises(NotNow, match=why):
        await its.complete(0, its.ends_of(0))
    assert await its.completed({0: its.ends_of(0)}, 5.0) == {}
