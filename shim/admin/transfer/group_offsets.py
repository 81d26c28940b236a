"""Committed offsets by group, from wherever they were read: this log, a broker's files, a live cluster."""

from __future__ import annotations

from collections.abc import Mapping

from protocol.offsets_log import CommittedOffset, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue
from protocol.own.position import Position, Producer
from protocol.partition import OFFSETS_TOPIC
from protocol.topic_partition import TopicPartition
from shim.admin.at_rest.data_dir import DataDir
from shim.admin.at_rest.examine import size_of_segments
from shim.admin.at_rest.walk import Damage, Located, fault_for, walk
from shim.admin.progress import Progress
from shim.coordinator import Key, Value
from shim.coordinator.state.offsets import Offsets
from shim.log import CorruptLog
from shim.log.disk.files import Files
from shim.log.recovery.recovery import logged_records
from shim.offsets.cluster.groups import Committed
from shim.runtime.replaying import Home, Replay


class GroupOffsets:
    """As small as the coordinator's own table, so that millions fit."""

    def __init__(self) -> None:
        self._offsets = Offsets()
        self.with_members: set[str] = set()
        """Groups that have members, as far as the source says."""

    def set(self, key: OffsetCommitKey, committed: CommittedOffset) -> None:
        self._offsets.committed.set(key.group, key.topic, key.partition, committed)

    def groups(self) -> list[str]:
        """Those with offsets, sorted."""
        return sorted(self._offsets.committed.groups())

    def of(self, group: str) -> Committed:
        entries = self._offsets.committed.of_group(group)
        return {TopicPartition(topic, partition): committed for topic, partition, committed in entries}

    def pending(self) -> dict[str, list[int]]:
        """By group, sorted: the ids of the producers whose transactions have not ended, and would change an offset."""
        found: dict[str, set[int]] = {}
        for producer, offsets in self._offsets.transactions.pending.items():
            for key, pending in offsets.items():
                if pending.value is not None:
                    found.setdefault(key.group, set()).add(producer.producer_id)
        return {group: sorted(found[group]) for group in sorted(found)}

    def __len__(self) -> int:
        return len(self._offsets.committed)

    # -- the records of a log of the shim's own

    def replay(self, key: Key, value: Value | None) -> None:
        if isinstance(key, OffsetCommitKey):
            if isinstance(value, OffsetCommitValue):
                self._offsets.commit(key, value)
            else:
                self._offsets.delete(key)
        elif isinstance(value, GroupMetadataValue) and value.members:
            self.with_members.add(key.group)
        else:
            self.with_members.discard(key.group)

    def replay_pending(
        self, producer: Producer, position: Position | None, key: OffsetCommitKey, value: OffsetCommitValue
    ) -> None:
        self._offsets.add_pending(producer, position, key, value)

    def replay_end(self, producer: Producer, position: Position | None, *, committed: bool) -> None:
        self._offsets.end(producer, position, committed=committed)


def offset_commit_value(committed: CommittedOffset) -> OffsetCommitValue:
    offset, leader_epoch, metadata, commit_timestamp, expire_timestamp = committed
    return OffsetCommitValue(offset, leader_epoch, metadata, commit_timestamp, expire_timestamp)


def read_offsets(files: Files, held: DataDir, what: str, progress: Progress) -> GroupOffsets:
    """What a data directory at rest holds, with progress under the name ``what``.

    Raises CorruptLog where it is damaged: no offset is taken from a log that may have lost a newer one; LogError where
    files are another partition's; OSError.
    """
    missing = held.missing()
    if missing:
        raise CorruptLog(missing[0], 0, "the partition's folder is missing")
    held.refuse_malformed()
    folders = {at: folder for at, folder in held.partitions.items() if at.topic == OFFSETS_TOPIC}
    offsets = GroupOffsets()
    with progress(what, size_of_segments(files, folders.values())) as ongoing:
        for at, folder in folders.items():
            replay = Replay(offsets, Home(at.partition, held.num_partitions, folder))
            for found in walk(files, folder, held.known(at), fault_for(OFFSETS_TOPIC)):
                if isinstance(found, Located):
                    replay.apply(logged_records(found.path, found.batch))
                    ongoing.advance(found.batch.end - found.batch.position)
                elif isinstance(found, Damage):
                    raise CorruptLog(found.path, found.position, found.reason)
    return offsets


def differences(expected: Mapping[TopicPartition, object], found: Mapping[TopicPartition, object]) -> list[str]:
    """What differs, a line each; none when both are the same to the last field."""
    return [
        f"{at}: expected {_told(expected.get(at))}, found {_told(found.get(at))}"
        for at in sorted(expected.keys() | found.keys())
        if expected.get(at) != found.get(at)
    ]


def _told(committed: object) -> str:
    return "no offset" if committed is None else repr(committed)
