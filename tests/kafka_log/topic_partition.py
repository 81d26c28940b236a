"""An offsets partition on a topic, kept in a list: record sets appended, compacted as brokers do, and replayed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from protocol.own.position import Position
from protocol.own.record_sets import Appended, LoggedRecord
from protocol.records.batches import BatchHeader, Record, decode_records, read_header
from shim.coordinator import GroupCoordinator
from shim.kafka_log.copies.partition_copy import PartitionCopy
from shim.kafka_log.copies.replaying import TopicReplay
from shim.kafka_log.reading.read_part import ReadPart
from shim.log.recovery.recovery import logged_records
from shim.log.segments.batching import PreparedBatch, prepare_batches
from shim.log.segments.segment import SoundBatch
from shim.runtime.flight import RecordSet
from shim.runtime.replaying import Home, Replay
from tests.coordinator.driving import START, new_coordinator

NAME = "__offset_shim_offsets"


class TopicPartition:
    """``records``: what is left. ``ends``: the offsets at which sets end. ``headers``: of the batches, compacted or
    not. ``epochs``: of leaders, with the offsets where they began."""

    def __init__(self) -> None:
        self.records: list[LoggedRecord] = []
        self.ends = [0]
        self.headers: list[BatchHeader] = []
        self.epochs = [(0, 0)]

    def append(self, record_set: RecordSet) -> None:
        end = self.ends[-1]
        for batch in prepare_batches(end, [record_set], START):
            for key, value, _, timestamp, offset in decode_records(batch.data):
                assert key is not None
                self.records.append(LoggedRecord(offset, timestamp, key, value))
            header = read_header(batch.data)
            self.headers.append(
                header._replace(partition_leader_epoch=self.epochs[-1][0], producer_id=7, producer_epoch=0)
            )
            end = batch.next_offset
        self.ends.append(end)

    def lose(self, end: int) -> None:
        """All that is written from a set's end on: another leader has it no longer."""
        self.records = [record for record in self.records if record.offset < end]
        self.headers = [header for header in self.headers if header.next_offset <= end]
        self.ends = [each for each in self.ends if each <= end]

    def led_anew(self, end: int) -> None:
        """The next leader has what is below ``end``, of as many epochs."""
        self.lose(end)
        newest = self.epochs[-1][0]
        self.epochs = [each for each in self.epochs if each[1] < end or not each[1]]
        self.epochs.append((newest + 1, end))

    def agreed(self, position: Position) -> Position:
        """As the leader tells how far it has what was read up to there (Kafka 4.3, `LeaderEpochFileCache`)."""
        known = [epoch for epoch, _ in self.epochs if epoch <= position.leader_epoch]
        later = [begun for epoch, begun in self.epochs if epoch > position.leader_epoch]
        return position.agreed(known[-1], later[0] if later else self.ends[-1])

    def compact(self, below: int, goes: Callable[[LoggedRecord], bool] = lambda _tombstone: False) -> None:
        """Below that offset only the newest record of each key stays, and of those the tombstones that do not go."""
        newest = {record.key: record.offset for record in self.records if record.offset < below}
        self.records = [
            record
            for record in self.records
            if record.offset >= below
            or (newest[record.key] == record.offset and not (record.value is None and goes(record)))
        ]

    def replayed(self, upto: int | None = None) -> GroupCoordinator:
        """What a fresh coordinator makes of the records below that offset."""
        read = [record for record in self.records if upto is None or record.offset < upto]
        return replayed(read)


class Standby:
    """Reads the partition bit by bit, whatever is compacted meanwhile."""

    def __init__(self) -> None:
        coordinator = new_coordinator()
        replay = TopicReplay(coordinator, Home(0, 1, f"{NAME}-0"))
        self.copy = PartitionCopy(coordinator, replay, ReadPart(NAME, 0))

    @property
    def position(self) -> Position:
        return self.copy.part.position

    def read(self, topic: TopicPartition, upto: int) -> None:
        """Batches that end there or before."""
        for header in topic.headers:
            if self.position.next_offset < header.next_offset <= upto:
                records = [
                    Record(each.key, each.value, (), each.timestamp, each.offset)
                    for each in topic.records
                    if header.base_offset <= each.offset < header.next_offset
                ]
                self.copy.apply(self.copy.part.take(header, records))


def replayed(records: Iterable[LoggedRecord]) -> GroupCoordinator:
    coordinator = new_coordinator()
    TopicReplay(coordinator, Home(0, 1, "__offset_shim_offsets-0")).apply(records)
    return coordinator


class LocalLog:
    """What the log on a disk makes of the same."""

    def __init__(self) -> None:
        self.batches: list[PreparedBatch] = []

    def append(self, batch: Appended) -> None:
        end = self.batches[-1].next_offset if self.batches else 0
        self.batches += prepare_batches(end, [batch], START)

    def replayed(self) -> GroupCoordinator:
        coordinator = new_coordinator()
        replay = Replay(coordinator, Home(0, 1, Path("__consumer_offsets-0")))
        for data, *_ in self.batches:
            batch = SoundBatch(0, len(data), read_header(data), decode_records(data), data)
            replay.apply(logged_records(Path("00000000000000000000.log"), batch))
        return coordinator
