"""What goes into the coordinator beside a request, and what comes out: records to append and answers to give."""

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from protocol.commit_rows import AllCommitted, CommitRows
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from protocol.messages.delete_groups import DeletableGroupResult
from protocol.messages.heartbeat import HeartbeatResponse
from protocol.messages.join_group import JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupResponse
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from protocol.messages.offset_delete import OffsetDeleteResponse
from protocol.messages.share_group_heartbeat import ShareGroupHeartbeatResponse
from protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatResponse
from protocol.messages.sync_group import SyncGroupResponse
from protocol.messages.txn_offset_commit import TxnOffsetCommitResponse
from protocol.offsets_log import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue
from protocol.own.history_log import HistoryRecord
from protocol.own.position import Position, Producer
from protocol.own.state_log import StateRecord
from protocol.own.topic_log import PendingKey, Settled

Asker: TypeAlias = object
"""Whoever asked: handed in with a request, handed back with its answer, never looked into."""


class RetentionStep(NamedTuple):
    """What one step of a look for expired offsets has deleted. `more`: there is another one to be made."""

    offsets: int
    groups: int
    more: bool


class TopicDeletionStep(NamedTuple):
    """How many offsets one step of the deletion of a topic's has deleted. `more`: there is another one to be made."""

    offsets: int
    more: bool


class HandsTaken(NamedTuple):
    """Of a decision about whose a group is: whether it was made, or the group was in other hands than was believed."""

    done: bool


class OffsetReset(NamedTuple):
    """To be set to `offset`, None for no offset at all, if `expected` (-1: none) is committed."""

    topic: str
    partition: int
    expected: int
    offset: int | None


class OffsetsReset(NamedTuple):
    """The answer to those who set offsets: all are, or, for this reason, none. `failed`: because of which."""

    error: ErrorCode
    failed: tuple[OffsetReset, ...] = ()


Response: TypeAlias = (
    JoinGroupResponse
    | SyncGroupResponse
    | HeartbeatResponse
    | ConsumerGroupHeartbeatResponse
    | StreamsGroupHeartbeatResponse
    | ShareGroupHeartbeatResponse
    | LeaveGroupResponse
    | OffsetCommitResponse
    | AllCommitted
    | OffsetDeleteResponse
    | TxnOffsetCommitResponse
    | DeletableGroupResult
    | RetentionStep
    | TopicDeletionStep
    | HandsTaken
    | OffsetsReset
)
"""DeletableGroupResult is the answer for one group of a DeleteGroups request."""
Key: TypeAlias = OffsetCommitKey | GroupMetadataKey
Value: TypeAlias = OffsetCommitValue | GroupMetadataValue
Record: TypeAlias = tuple[Key, Value | None]
"""A record of `__consumer_offsets`; a value of None is a tombstone."""


class Caller(NamedTuple):
    """The client connection a request came on. `client_host` is in Kafka's form, `/127.0.0.1`, and `principal` too,
    `User:alice`: "" where nobody has said.
    """

    client_id: str
    client_host: str
    principal: str = ""


NOBODY: Final = Caller("", "")
"""What the shim does by itself."""


class GroupEvent(NamedTuple):
    """What is to be read in the log of a group: ``template`` with these ``values``, as :mod:`logging` puts them
    together. ``warns``: somebody has to do something about it."""

    group: str
    template: str
    values: tuple[object, ...]
    warns: bool = False


class TransactionBatch(NamedTuple):
    """What all records of an outcome are in: a batch of a transaction. ``position``: how far the cluster's log is taken
    over with it. ``begun``: how far with the first batch of the transaction, where that was another one.
    """

    producer_id: int
    producer_epoch: int
    position: Position
    begun: Position | None = None

    @property
    def producer(self) -> Producer:
        return Producer(self.position.partition, self.producer_id)


class TransactionEnd(NamedTuple):
    """The marker by which a transaction ends. ``position``: how far the cluster's log is taken over with it.
    ``settled``: all that was pending, of an end that was decided.
    """

    producer_id: int
    producer_epoch: int
    position: Position
    committed: bool
    coordinator_epoch: int = 0
    settled: Sequence[Settled] = ()

    @property
    def producer(self) -> Producer:
        return Producer(self.position.partition, self.producer_id)


class RowsOfTopic(NamedTuple):
    """The records of a plain commit for one topic, one for each row, and one of the history for all: where `caller`
    is None, none is kept. `now` is their time of commit, and there are no metadata and no expire timestamps.
    """

    commit: OffsetCommitRequest
    topic: str
    rows: CommitRows
    now: int
    caller: Caller | None


class Outcome(NamedTuple):
    """What one request, or the deadlines that came up, led to.

    `records` belong together in one record batch, in this order; the coordinator has applied them already. Where they
    are too many for one, a new batch begins at each of the `cuts` (indexes of `records`, rising): they become durable
    one after the other, and each of them is right without those that follow.
    `answers` are due once the records, and those of all earlier outcomes, are durable. They may be to this
    request, to parked ones, or both; a request that gets none here is parked.
    `history` becomes durable together with the records; nothing is ever replayed from it.
    `transaction`: what batch the records are, or, without any, the marker that is written.
    `rows`: of a plain commit, in place of `records` and `history`.
    `state`: in whose hands groups are from here on; durable together with the records, and replayed as they are.
    `dropped`: what was pending and is not any more, since one of the records is a tombstone of that offset, with the
    index of that.
    `events`: what whoever looks after the group is told, as it was decided; durable or not.
    """

    records: list[Record]
    answers: list[tuple[Asker, Response]]
    history: Sequence[HistoryRecord] = ()
    cuts: Sequence[int] = ()
    transaction: TransactionBatch | TransactionEnd | None = None
    rows: Sequence[RowsOfTopic] = ()
    state: Sequence[StateRecord] = ()
    dropped: Sequence[tuple[int, PendingKey]] = ()
    events: Sequence[GroupEvent] = ()
