"""OffsetCommit, versions 0-9, of classic and simple groups (Kafka 4.3). Topics are known to exist by then."""

from typing import Any, Final, cast

from protocol.commit_rows import RECORD_SIZE, AllCommitted, CommitRows, rows_in
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue
from protocol.own.conditional_commit import is_conditional
from protocol.own.history_log import Who
from shim.coordinator import events
from shim.coordinator.decision import RECORD_OVERHEAD, UTF8_MAX, Decision
from shim.coordinator.outcome import Asker, Caller
from shim.coordinator.requests.conditional_commit import refusal
from shim.coordinator.requests.in_zookeeper import before_commit, note_way_back
from shim.coordinator.requests.offset_metadata import is_too_large
from shim.coordinator.state.group import Group, GroupState

_new: Final[Any] = tuple.__new__  # it skips the constructors of named tuples

_GROUP_ID_NOT_FOUND_FROM = 9
_INT64_MAX = 2**63 - 1


def offset_commit(decision: Decision, caller: Caller, version: int, request: OffsetCommitRequest, asker: Asker) -> None:
    """Answer a commit. All its offsets are in one outcome, except those whose metadata is too large; of a conditional
    commit all are, or none.

    The group id may be "", as old simple consumers have it.
    """
    state = decision.state
    settings = state.settings
    group = state.groups.get(request.group_id)
    if state.behind:
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    else:
        error = _check(group, version, request)
        if error is not ErrorCode.NONE and events.is_told(error):
            generation_id = request.generation_id_or_member_epoch
            decision.tell(events.refused("a commit", request, generation_id, group, caller, error))
    remembered = caller if settings.offsets_history_retention_minutes > 0 else None
    rows = rows_in(request.topics)
    surely_fits = rows and rows * RECORD_SIZE <= settings.commit_max_bytes
    if not (error or surely_fits) and _records_size(request, remembered) > settings.commit_max_bytes:
        error = ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    if error is ErrorCode.NONE:
        if group is None:
            if not state.has_room_for_group(request.group_id):
                error = ErrorCode.POLICY_VIOLATION
        elif group.state is not GroupState.EMPTY:
            decision.hear_of(group.members[request.member_id])
    if error is ErrorCode.NONE and rows and request.retention_time_ms == -1:
        _commit_rows(decision, remembered, request)
        decision.answer(asker, _new(AllCommitted, (request,)))
        return
    if error is ErrorCode.NONE and is_conditional(request):
        refused = refusal(state, request)
        if refused is not None:
            decision.answer(asker, refused)
            return
    named = ((topic.name, each.partition_index) for topic in request.topics for each in topic.partitions)
    before = before_commit(state, request.group_id, named)
    topics = []
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            partition_error = error
            if error is ErrorCode.NONE:
                partition_error = _commit(decision, remembered, request, topic.name, partition)
            partitions.append(OffsetCommitResponsePartition(partition.partition_index, partition_error))
        topics.append(OffsetCommitResponseTopic(topic.name, topic.topic_id, tuple(partitions)))
    note_way_back(decision, request.group_id, before)
    decision.answer(asker, OffsetCommitResponse(throttle_time_ms=0, topics=tuple(topics)))


def _commit_rows(decision: Decision, remembered: Caller | None, request: OffsetCommitRequest) -> None:
    """All offsets of a request whose partitions are rows, and so have no metadata and no condition."""
    group_id = request.group_id
    before = None
    if group_id in decision.state.with_stores:
        of_topics = ((topic.name, cast(CommitRows, topic.partitions)) for topic in request.topics)
        named = ((name, number) for name, rows in of_topics for number, _, _ in rows.values())
        before = before_commit(decision.state, group_id, named)
    for topic in request.topics:
        decision.write_rows(request, topic.name, cast(CommitRows, topic.partitions), remembered)
    if before:
        note_way_back(decision, group_id, before)


def _check(group: Group | None, version: int, request: OffsetCommitRequest) -> ErrorCode:
    generation_id = request.generation_id_or_member_epoch
    if group is None:
        # An administrator's tool, or a consumer that assigns its partitions itself, makes a simple group.
        if generation_id < 0:
            return ErrorCode.NONE
        return ErrorCode.GROUP_ID_NOT_FOUND if version >= _GROUP_ID_NOT_FOUND_FROM else ErrorCode.ILLEGAL_GENERATION
    if generation_id < 0 and group.state is GroupState.EMPTY:
        return ErrorCode.NONE
    if generation_id < 0 and not request.member_id and request.group_instance_id is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = group.validate(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if group.state is GroupState.COMPLETING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _commit(
    decision: Decision,
    remembered: Caller | None,
    request: OffsetCommitRequest,
    topic: str,
    partition: OffsetCommitRequestPartition,
) -> ErrorCode:
    """``remembered``: who commits, for the history; None where none is kept."""
    metadata = partition.committed_metadata or ""
    if is_too_large(metadata, decision.state.settings):
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    now, retention_ms = decision.now, request.retention_time_ms
    key = OffsetCommitKey(request.group_id, topic, partition.partition_index)
    value = OffsetCommitValue(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=metadata,
        commit_timestamp=now if partition.commit_timestamp == -1 else partition.commit_timestamp,
        expire_timestamp=-1 if retention_ms == -1 else min(now + retention_ms, _INT64_MAX),
    )
    decision.write(key, value)
    if remembered is not None:
        who = Who(request.generation_id_or_member_epoch, request.member_id, request.group_instance_id, *remembered)
        decision.remember(key, value, who)
    return ErrorCode.NONE


def _records_size(request: OffsetCommitRequest, remembered: Caller | None) -> int:
    """At most so many bytes do the records of a commit take, in the larger of the two logs: each repeats the group and
    its topic, and in the history, unless the commit is plain, who committed. So a small request can make a large batch.
    """
    group_size = len(request.group_id.encode("utf-8", "surrogatepass"))
    if remembered is not None:
        who = (*remembered, request.member_id, request.group_instance_id or "")
        group_size += UTF8_MAX * sum(map(len, who))
    size = 0
    for topic in request.topics:
        record_size = RECORD_OVERHEAD + group_size + len(topic.name.encode("utf-8", "surrogatepass"))
        size += len(topic.partitions) * record_size
        if not rows_in((topic,)):
            size += UTF8_MAX * sum(len(partition.committed_metadata or "") for partition in topic.partitions)
    return size
