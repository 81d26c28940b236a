"""A coordinator that follows a cluster's log, and what Kafka's rule makes of what it has written."""

from collections.abc import Iterable
from typing import NamedTuple

from protocol.errors import ErrorCode
from protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue
from protocol.own.position import Position
from shim.coordinator import (
    CoordinatorSettings,
    FollowedBatch,
    GroupCoordinator,
    Outcome,
    TransactionBatch,
    TransactionEnd,
)

from .driving import CALLER, Driven, new_coordinator

FOLLOWED = 3
"""The partition of the cluster's that has the group."""


class Written(NamedTuple):
    """What an outcome has left in the log."""

    records: tuple[tuple[OffsetCommitKey, OffsetCommitValue | None], ...]
    transaction: TransactionBatch | TransactionEnd | None


class KafkaRule:
    """The offsets in force, and those that are pending, as `OffsetMetadataManager` has them (Kafka 4.3)."""

    def __init__(self, written: Iterable[Written] = ()) -> None:
        self.offsets: dict[OffsetCommitKey, tuple[int, int]] = {}
        self.pending: dict[int, dict[OffsetCommitKey, tuple[int, int]]] = {}
        self.next = 0
        for each in written:
            self.take(each)

    def take(self, written: Written) -> None:
        transaction = written.transaction
        for key, value in written.records:
            if value is None:
                self.offsets.pop(key, None)
                for offsets in self.pending.values():
                    offsets.pop(key, None)
            elif transaction is None:
                self.offsets[key] = (self.next, value.offset)
            else:
                self.pending.setdefault(transaction.producer_id, {})[key] = (self.next, value.offset)
            self.next += 1
        if isinstance(transaction, TransactionEnd):
            self.next += 1
            for key, (at, offset) in self.pending.pop(transaction.producer_id, {}).items():
                if transaction.committed and at > self.offsets.get(key, (-1, 0))[0]:
                    self.offsets[key] = (at, offset)

    def unstable(self) -> set[OffsetCommitKey]:
        return {key for offsets in self.pending.values() for key in offsets}


class Transacting(Driven):
    """`written` is the log; what was `lost` in a crash is not in it."""

    def __init__(self, settings: CoordinatorSettings | None = None) -> None:
        super().__init__(settings)
        self.written: list[Written] = []
        self.read_at = Position(FOLLOWED, 0)

    def take(self, outcome: Outcome) -> None:
        super().take(outcome)
        if outcome.records or outcome.transaction is not None:
            self.written.append(Written(tuple(outcome.records), outcome.transaction))  # type: ignore[arg-type]

    def restart(self, lost: int = 0) -> None:
        """Load another coordinator from all that was written but the last so many outcomes."""
        del self.written[len(self.written) - lost :]
        self.coordinator = replayed(self.written)
        self.coordinator.loaded(self.now)
        for followed in self.coordinator.followed:
            self.coordinator.caught_up(followed)

    # -- requests

    def ask_txn_commit(
        self,
        offsets: Iterable[tuple[str, int, int]],
        *,
        producer: int = 1,
        epoch: int = 0,
        group: str = "g",
        member: str = "",
        generation: int = -1,
        instance: str | None = None,
        metadata: str | None = "",
        not_before: Position | None = None,
    ) -> tuple[int, TxnOffsetCommitRequest | None]:
        """The ticket, and what is to be sent on."""
        ticket = self.ticket()
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for topic, partition, offset in offsets:
            topics.setdefault(topic, []).append(TxnOffsetCommitRequestPartition(partition, offset, -1, metadata))
        request = TxnOffsetCommitRequest(
            "tx",
            group,
            producer,
            epoch,
            generation,
            member,
            instance,
            tuple(TxnOffsetCommitRequestTopic(topic, tuple(partitions)) for topic, partitions in topics.items()),
        )
        outcome, sent_on = self.coordinator.txn_offset_commit(self.now, CALLER, request, ticket, not_before)
        self.take(outcome)
        return ticket, sent_on

    def tell(self, ticket: int, sent_on: TxnOffsetCommitRequest, error: int = 0) -> None:
        """The cluster's answer, the same for each partition."""
        errors = [(topic.name, p.partition_index, error) for topic in sent_on.topics for p in topic.partitions]
        self.take(self.coordinator.txn_offset_commit_told(self.now, ticket, errors))

    def give_up(self, ticket: int) -> None:
        """The client, or the broker, has gone."""
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        self.take(self.coordinator.txn_offset_commit_given_up(self.now, ticket, error))

    def errors(self, ticket: int) -> set[int]:
        response = self.answer(ticket, TxnOffsetCommitResponse)
        return {p.error_code for topic in response.topics for p in topic.partitions}

    # -- what is read in the cluster's log

    def read(self, at: int, entry: TxnOffsetCommitRequest | tuple[int, int, bool]) -> None:
        """An entry that ends at that offset: what was sent on, or (producer, epoch, committed)."""
        position = self.read_at._replace(next_offset=at)
        if isinstance(entry, TxnOffsetCommitRequest):
            batch = FollowedBatch(entry.producer_id, entry.producer_epoch, position, records_of(entry, self.now))
            self.take(self.coordinator.follow(self.now, batch))
        else:
            producer, epoch, committed = entry
            self.take(self.coordinator.follow(self.now, TransactionEnd(producer, epoch, position, committed, 7)))

    # -- reads

    def fetch_stable(self, topic: str, partition: int, group: str = "g") -> int:
        """The offset, or minus the error code."""
        wanted = OffsetFetchRequestGroup(
            group_id=group, topics=(OffsetFetchRequestTopics(name=topic, partition_indexes=(partition,)),)
        )
        (found,) = self.coordinator.offset_fetch(wanted, require_stable=True).topics[0].partitions
        assert not found.error_code or found.committed_offset == -1
        return -found.error_code if found.error_code else found.committed_offset


def records_of(request: TxnOffsetCommitRequest, now: int) -> list[tuple[OffsetCommitKey, OffsetCommitValue]]:
    return [
        (
            OffsetCommitKey(request.group_id, topic.name, p.partition_index),
            OffsetCommitValue(p.committed_offset, p.committed_leader_epoch, p.committed_metadata or "", now),
        )
        for topic in request.topics
        for p in topic.partitions
    ]


def replayed(written: Iterable[Written]) -> GroupCoordinator:
    coordinator = new_coordinator()
    for records, transaction in written:
        if transaction is None:
            for key, value in records:
                coordinator.replay(key, value)
            continue
        if isinstance(transaction, TransactionEnd):
            coordinator.replay_end(transaction.producer, transaction.position, committed=transaction.committed)
        for key, value in records:
            assert value is not None
            coordinator.replay_pending(transaction.producer, transaction.position, key, value)
    return coordinator
