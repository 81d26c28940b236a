"""Conditional commit (`protocol.own.conditional_commit`): whether all of a request may be written.

It is decided on the state that the records of all earlier decisions have made, durable or not, and before any record of
this one: so of two commits that share a flush the second sees the first.
"""

from protocol.errors import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.offsets_log import OffsetCommitKey
from protocol.own.conditional_commit import NONE_COMMITTED, NOT_ATTEMPTED, REFUSED, expected_offset
from shim.coordinator.requests.offset_metadata import is_too_large
from shim.coordinator.state.partition_state import PartitionState


def refusal(state: PartitionState, request: OffsetCommitRequest) -> OffsetCommitResponse | None:
    """The answer to a conditional commit of which nothing may be written; None where all of it may."""
    errors = [
        [_why_not(state, request.group_id, topic.name, partition) for partition in topic.partitions]
        for topic in request.topics
    ]
    if not any(map(any, errors)):
        return None
    return OffsetCommitResponse(
        topics=tuple(
            OffsetCommitResponseTopic(
                topic.name,
                topic.topic_id,
                tuple(
                    OffsetCommitResponsePartition(partition.partition_index, error or NOT_ATTEMPTED)
                    for partition, error in zip(topic.partitions, of_topic, strict=True)
                ),
            )
            for topic, of_topic in zip(request.topics, errors, strict=True)
        )
    )


def _why_not(state: PartitionState, group: str, topic: str, partition: OffsetCommitRequestPartition) -> ErrorCode:
    if is_too_large(partition.committed_metadata, state.settings):
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    try:
        expected = expected_offset(partition)
    except ValueError:
        return ErrorCode.INVALID_REQUEST
    if expected is None:
        return ErrorCode.NONE
    if state.is_unstable(OffsetCommitKey(group, topic, partition.partition_index)):
        # It may be committed already, in a transaction whose end has not been read yet.
        return ErrorCode.UNSTABLE_OFFSET_COMMIT
    committed = state.offsets.committed.get(group, topic, partition.partition_index)
    return ErrorCode.NONE if expected == (NONE_COMMITTED if committed is None else committed.offset) else REFUSED
