"""An offsets partition on a topic, kept in a list: record sets appended, compacted as brokers do, and replayed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from protocol.own.topic_log import Owner
from protocol.records.batches import decode_records
from shim.coordinator import GroupCoordinator
from shim.kafka_log.replaying import TopicReplay
from shim.log import LoggedRecord
from shim.log.batching import Appended, PreparedBatch, prepare_batches
from shim.log.recovery import logged_records
from shim.log.segment import SoundBatch
from shim.runtime.flight import RecordSet
from shim.runtime.replaying import Home, Replay
from tests.coordinator.driving import START, new_coordinator


class TopicPartition:
    """``records``: what is left. ``ends``: the offsets at which sets end."""

    def __init__(self) -> None:
        self.records: list[LoggedRecord] = []
        self.ends = [0]

    def append(self, record_set: RecordSet) -> None:
        end = self.ends[-1]
        for batch in prepare_batches(end, [record_set], START):
            for key, value, _, timestamp, offset in decode_records(batch.data):
                assert key is not None
                self.records.append(LoggedRecord(offset, timestamp, key, value))
            end = batch.header.next_offset
        self.ends.append(end)

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


def replayed(
    records: Iterable[LoggedRecord], owner: Callable[[LoggedRecord, Owner], None] = lambda *_: None
) -> GroupCoordinator:
    coordinator = new_coordinator()
    TopicReplay(coordinator, Home(0, 1, "__offset_shim_offsets-0"), owner).apply(records)
    return coordinator


class LocalLog:
    """What the log on a disk makes of the same."""

    def __init__(self) -> None:
        self.batches: list[PreparedBatch] = []

    def append(self, batch: Appended) -> None:
        end = self.batches[-1].header.next_offset if self.batches else 0
        self.batches += prepare_batches(end, [batch], START)

    def replayed(self) -> GroupCoordinator:
        coordinator = new_coordinator()
        replay = Replay(coordinator, Home(0, 1, Path("__consumer_offsets-0")))
        for data, header in self.batches:
            batch = SoundBatch(0, len(data), header, decode_records(data), data)
            replay.apply(logged_records(Path("00000000000000000000.log"), batch))
        return coordinator
