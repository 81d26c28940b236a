"""Committed offsets by group, from wherever they were read: this log, a broker's files, a live cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from protocol.offsets_log import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    UnknownKey,
)
from protocol.replay import RecordDecoder
from shim.admin.at_rest.data_dir import DataDir
from shim.admin.at_rest.examine import size_of_segments
from shim.admin.at_rest.walk import Damage, Located, fault_of_offsets, walk
from shim.admin.progress import Progress
from shim.coordinator import Producer
from shim.coordinator.state.offset_table import CommittedOffset, OffsetTable
from shim.coordinator.state.transactions import Transactions
from shim.log import OFFSETS_TOPIC, CorruptLog, InTransaction
from shim.log.checkpoint import TopicPartition
from shim.log.files import Files
from shim.log.transactions import transaction_of
from shim.runtime.loading import check_place

Committed = dict[TopicPartition, CommittedOffset]
"""The offsets of one group."""


class GroupOffsets:
    """As small as the coordinator's own table, so that millions fit."""

    def __init__(self) -> None:
        self._table = OffsetTable()
        self._groups: dict[str, None] = {}
        self._decode = RecordDecoder().decode
        self._transactions = Transactions()
        self.with_members: set[str] = set()
        """Groups that have members, as far as the source says."""

    def set(self, key: OffsetCommitKey, committed: CommittedOffset) -> None:
        self._groups[key.group] = None
        self._table.set(key.group, key.topic, key.partition, committed)

    def delete(self, key: OffsetCommitKey) -> None:
        self._table.delete(key.group, key.topic, key.partition)

    def groups(self) -> list[str]:
        """Those with offsets, sorted."""
        return sorted(filter(self._table.has_offsets, self._groups))

    def of(self, group: str) -> Committed:
        return {TopicPartition(topic, partition): at for topic, partition, at in self._table.of_group(group)}

    def pending(self) -> dict[str, list[int]]:
        """By group, sorted: the ids of the producers whose transactions have not ended, and would change an offset."""
        found: dict[str, set[int]] = {}
        for producer, offsets in self._transactions.pending.items():
            for key, pending in offsets.items():
                if pending.value is not None:
                    found.setdefault(key.group, set()).add(producer.producer_id)
        return {group: sorted(found[group]) for group in sorted(found)}

    def __len__(self) -> int:
        return len(self._table)

    def replay(
        self, raw_key: bytes, raw_value: bytes | None, home: Home, transaction: InTransaction | None = None
    ) -> None:
        """A record of the shim's own log, in its order; what a transaction commits counts when it is committed. Raises
        DecodeError; LogError for one of another partition.
        """
        if transaction is not None and transaction.committed is not None:
            for settled in self._transactions.end(_producer(transaction), committed=transaction.committed):
                self.set(settled.key, committed_offset(settled.value))
            return
        key, value = self._decode(raw_key, raw_value)
        if isinstance(key, UnknownKey):
            return
        home.check(key.group)
        if isinstance(key, GroupMetadataKey):
            if isinstance(value, GroupMetadataValue) and value.members:
                self.with_members.add(key.group)
            else:
                self.with_members.discard(key.group)
        elif not isinstance(value, OffsetCommitValue):
            self.delete(key)
            self._transactions.forget(key)
        elif transaction is not None:
            self._transactions.add(_producer(transaction), key, value)
        else:
            self.set(key, committed_offset(value))
            self._transactions.overtake(key)


def _producer(transaction: InTransaction) -> Producer:
    return Producer(transaction.key.followed, transaction.key.producer_id)


class Home:
    """A partition, of which each group that is found there has to be."""

    def __init__(self, number: int, num_partitions: int, folder: Path) -> None:
        self._number = number
        self._num_partitions = num_partitions
        self._folder = folder
        self._checked: set[str] = set()

    def check(self, group: str) -> None:
        """Raises LogError."""
        if group not in self._checked:
            check_place(group, self._number, self._num_partitions, self._folder)
            self._checked.add(group)


def committed_offset(value: OffsetCommitValue) -> CommittedOffset:
    return CommittedOffset(
        value.offset, value.leader_epoch, value.metadata, value.commit_timestamp, value.expire_timestamp
    )


def offset_commit_value(committed: CommittedOffset) -> OffsetCommitValue:
    offset, leader_epoch, metadata, commit_timestamp, expire_timestamp = committed
    return OffsetCommitValue(offset, leader_epoch, metadata, commit_timestamp, expire_timestamp)


def read_offsets(
    files: Files, held: DataDir, what: str, progress: Progress, partitions: Iterable[int] | None = None
) -> GroupOffsets:
    """What a data directory at rest holds, with progress under the name ``what``; by default all partitions.

    Raises CorruptLog where it is damaged: no offset is taken from a log that may have lost a newer one; LogError where
    files are another partition's; OSError.
    """
    missing = held.missing()
    if missing:
        raise CorruptLog(missing[0], 0, "the partition's folder is missing")
    held.refuse_malformed()
    numbers = None if partitions is None else set(partitions)
    folders = {
        at: folder
        for at, folder in held.partitions.items()
        if at.topic == OFFSETS_TOPIC and (numbers is None or at.partition in numbers)
    }
    offsets = GroupOffsets()
    num_partitions = 1 + max((at.partition for at in held.partitions), default=-1)
    with progress(what, size_of_segments(files, folders.values())) as ongoing:
        for at, folder in folders.items():
            home = Home(at.partition, num_partitions, folder)
            for found in walk(files, folder, held.known(at), fault_of_offsets):
                if isinstance(found, Located):
                    transaction = transaction_of(found.batch)
                    for record in found.batch.records:
                        assert record.key is not None
                        offsets.replay(record.key, record.value, home, transaction)
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
