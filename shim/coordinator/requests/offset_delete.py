"""OffsetDelete, version 0 (Kafka 4.3, KIP-496). Topics are known to exist by then."""

from protocol.errors import ErrorCode
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from protocol.offsets_log import OffsetCommitKey
from shim.coordinator.decision import Decision
from shim.coordinator.outcome import Asker, Caller
from shim.coordinator.requests.tombstones import write_tombstone
from shim.coordinator.state.group import CONSUMER, Group, GroupState

OFFSET_DELETED = "the offset was deleted"
"""The cause that the history has of it."""


def offset_delete(
    decision: Decision, caller: Caller, _version: int, request: OffsetDeleteRequest, asker: Asker
) -> None:
    """Delete committed offsets, and those of transactions that are not settled; that there is none is no error.

    Of a group with members those of topics that it is subscribed to stay. A group that loses all its offsets stays,
    too, until somebody deletes it or offsets are next looked at for their age.
    """
    group = decision.state.groups.get(request.group_id)
    error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if decision.state.behind else _check(group, request)
    if error is not ErrorCode.NONE or group is None:
        decision.answer(asker, _response(error))
        return
    topics = tuple(_delete(decision, group, caller, topic) for topic in request.topics)
    decision.answer(asker, _response(ErrorCode.NONE, topics))


def _response(error: ErrorCode, topics: tuple[OffsetDeleteResponseTopic, ...] = ()) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=error, throttle_time_ms=0, topics=topics)


def _check(group: Group | None, request: OffsetDeleteRequest) -> ErrorCode:
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    # Only of consumers is known what they read.
    if group.state is not GroupState.EMPTY and group.protocol_type != CONSUMER:
        return ErrorCode.NON_EMPTY_GROUP
    return ErrorCode.NONE


def _delete(
    decision: Decision, group: Group, caller: Caller, topic: OffsetDeleteRequestTopic
) -> OffsetDeleteResponseTopic:
    subscribed = group.is_subscribed_to(topic.name)
    error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE
    if not subscribed:
        offsets = decision.state.offsets
        for partition in dict.fromkeys(p.partition_index for p in topic.partitions):
            key = OffsetCommitKey(group.group_id, topic.name, partition)
            if offsets.has(*key):
                write_tombstone(decision, key, OFFSET_DELETED, caller)
            else:
                offsets.note_deleted(*key)
    return OffsetDeleteResponseTopic(
        topic.name, tuple(OffsetDeleteResponsePartition(p.partition_index, error) for p in topic.partitions)
    )
