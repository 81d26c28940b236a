"""What goes into the coordinator beside a request, and what comes out: records to append and answers to give."""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from protocol.history_log import HistoryRecord
from protocol.messages.heartbeat import HeartbeatResponse
from protocol.messages.join_group import JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupResponse
from protocol.messages.offset_commit import OffsetCommitResponse
from protocol.messages.sync_group import SyncGroupResponse
from protocol.offsets_log import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue

Ticket: TypeAlias = object
"""Whoever asked: handed in with a request, handed back with its answer, never looked into."""

Response: TypeAlias = (
    JoinGroupResponse | SyncGroupResponse | HeartbeatResponse | LeaveGroupResponse | OffsetCommitResponse
)
Key: TypeAlias = OffsetCommitKey | GroupMetadataKey
Value: TypeAlias = OffsetCommitValue | GroupMetadataValue
Record: TypeAlias = tuple[Key, Value | None]
"""A record of `__consumer_offsets`; a value of None is a tombstone."""


class Caller(NamedTuple):
    """The client connection a request came on. `client_host` is in Kafka's form, `/127.0.0.1`."""

    client_id: str
    client_host: str


class Outcome(NamedTuple):
    """What one request, or the deadlines that came up, led to.

    `records` belong together in one record batch, in this order; the coordinator has applied them already.
    `answers` are due once the records, and those of all earlier outcomes, are durable. They may be to this
    request, to parked ones, or both; a request that gets none here is parked.
    `history` becomes durable together with the records; nothing is ever replayed from it.
    """

    records: list[Record]
    answers: list[tuple[Ticket, Response]]
    history: Sequence[HistoryRecord] = ()
