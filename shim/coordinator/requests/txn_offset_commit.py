"""TxnOffsetCommit, versions 0-5, of classic and simple groups (Kafka 4.3, KIP-447, KIP-890).

It is checked here and sent on to the cluster; what makes its offsets pending is the batch that is then read in the
cluster's log (:mod:`shim.coordinator.upkeep.followed`). From the check to the answer its partitions are unstable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from protocol.errors import ErrorCode
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from protocol.own.history_log import Who
from protocol.own.position import Position
from protocol.topic_partition import Partition
from shim.coordinator import events
from shim.coordinator.decision import Decision
from shim.coordinator.outcome import Asker, Caller
from shim.coordinator.requests.offset_metadata import is_too_large
from shim.coordinator.state.group import Group, GroupState
from shim.coordinator.state.group_memory import group_size
from shim.coordinator.state.parked_commits import ParkedCommit


def txn_offset_commit(
    decision: Decision,
    caller: Caller,
    request: TxnOffsetCommitRequest,
    asker: Asker,
    not_before: Position | None = None,
) -> TxnOffsetCommitRequest | None:
    """Answer it, or park it and give what is to be sent on: with no member, and without what is refused here.

    Its batch is told by its offsets. A batch of the producer's last transaction may say the same, where the client has
    been told that nobody knows what became of that: so then its own is behind ``not_before``, where the cluster's log
    ends.

    That its topics exist, and that the producer is in a transaction, is left to the cluster, which is asked anyway.
    """
    state = decision.state
    group = state.groups.get(request.group_id)
    if state.behind:
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    else:
        error = _check(group, request)
        if error is not ErrorCode.NONE and events.is_told(error):
            what = "a commit in a transaction"
            decision.tell(events.refused(what, request, request.generation_id, group, caller, error))
    if error is ErrorCode.NONE and group is None and not state.has_room_for_group(request.group_id):
        error = ErrorCode.POLICY_VIOLATION
    errors: dict[Partition, int] = {}
    topics = []
    for topic in request.topics:
        accepted = []
        for partition in topic.partitions:
            partition_error = error
            if error is ErrorCode.NONE and _is_too_large(decision, partition):
                partition_error = ErrorCode.OFFSET_METADATA_TOO_LARGE
            if partition_error is ErrorCode.NONE:
                accepted.append(partition)
            errors[topic.name, partition.partition_index] = partition_error
        if accepted:
            topics.append(topic._replace(partitions=tuple(accepted)))
    if not topics:
        decision.answer(asker, _response(request, errors))
        return None
    sent_on = request._replace(generation_id=-1, member_id="", group_instance_id=None, topics=tuple(topics))
    committer = Who(request.generation_id, request.member_id, request.group_instance_id, *caller)
    # The group is made when that is read, whatever else was made by then.
    room = group_size(request.group_id) if group is None else 0
    parked = ParkedCommit(asker, committer, request, sent_on, errors, not_before, room)
    state.commits.park(parked)
    # Whatever becomes of the client, and of the broker: its partitions are not unstable for ever.
    state.deadlines.set(parked.deadline, decision.now + 2 * state.settings.offsets_commit_timeout_ms)
    return sent_on


def txn_offset_commit_told(decision: Decision, asker: Asker, errors: Iterable[tuple[str, int, int]]) -> None:
    """The cluster has answered what was sent on: (topic, partition, error code) of each. Nothing happens where nobody
    waits for it any more."""
    state = decision.state
    parked = state.commits.get(asker)
    if parked is None:
        return
    for topic, partition, error in errors:
        parked.errors[topic, partition] = error
    parked.told = True
    refused = all(parked.errors[key.topic, key.partition] for key in parked.keys)
    if refused and not parked.is_written:
        state.commits.give_up(parked)  # it may have been written, and not replicated in time
    if parked.is_written or refused:
        answer_parked(decision, parked)
    else:
        state.deadlines.set(parked.deadline, decision.now + state.settings.offsets_commit_timeout_ms)


def commit_deadline_due(decision: Decision, asker: Asker) -> None:
    """The cluster has not answered in time, or what it has taken has not been read there."""
    decision.state.commits.overdue += 1
    txn_offset_commit_given_up(decision, asker, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def txn_offset_commit_given_up(decision: Decision, asker: Asker, error: ErrorCode) -> None:
    """How it ended is not known, or not in time: the client is to repeat it. Nothing happens where it was answered."""
    parked = decision.state.commits.get(asker)
    if parked is not None:
        for key in parked.keys:
            parked.errors[key.topic, key.partition] = error
        if not parked.is_written:
            decision.state.commits.give_up(parked)
        answer_parked(decision, parked)


def answer_parked(decision: Decision, parked: ParkedCommit) -> None:
    decision.state.commits.take(parked.asker)
    decision.state.deadlines.cancel(parked.deadline)
    decision.answer(parked.asker, _response(parked.request, parked.errors))


def _check(group: Group | None, request: TxnOffsetCommitRequest) -> ErrorCode:
    """As of an OffsetCommit, but that the state of the group does not matter, and that old versions name no member."""
    generation_id = request.generation_id
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if group is None:
        return ErrorCode.NONE if generation_id < 0 else ErrorCode.ILLEGAL_GENERATION
    if generation_id < 0 and group.state is GroupState.EMPTY:
        return ErrorCode.NONE
    if generation_id < 0 and not request.member_id and request.group_instance_id is None:
        return ErrorCode.NONE
    error = group.validate(request.member_id, request.group_instance_id)
    if error is ErrorCode.NONE and generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    return error


def _is_too_large(decision: Decision, partition: TxnOffsetCommitRequestPartition) -> bool:
    return is_too_large(partition.committed_metadata, decision.state.settings)


def _response(request: TxnOffsetCommitRequest, errors: Mapping[Partition, int]) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        throttle_time_ms=0,
        topics=tuple(
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=tuple(
                    TxnOffsetCommitResponsePartition(p.partition_index, errors[topic.name, p.partition_index])
                    for p in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )
