"""Offsets that somebody who looks after the groups sets, as `kafka-consumer-groups --reset-offsets` does, and on
condition that they are still what was shown: all of them, or none.

No client can send it: a commit can neither take an offset away, nor say why it was made.
"""

from collections.abc import Sequence

from protocol.errors import ErrorCode
from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue
from protocol.own.conditional_commit import NONE_COMMITTED, REFUSED
from protocol.own.history_log import NONE_REPLACED, TAKEN_AWAY, OffsetHistoryKey, OffsetHistoryValue
from shim.coordinator.decision import Decision, record_size
from shim.coordinator.outcome import Asker, Caller, OffsetReset, OffsetsReset
from shim.coordinator.requests.in_zookeeper import before_commit, note_way_back
from shim.coordinator.state.group import GroupState


def reset_offsets(
    decision: Decision, caller: Caller, group_id: str, changes: Sequence[OffsetReset], cause: str, asker: Asker
) -> None:
    """The group has no members. ``cause``: for the history, why and by whom."""
    error = _check(decision, caller, group_id, changes, cause)
    failed: tuple[OffsetReset, ...] = ()
    if error is ErrorCode.NONE:
        errors = [_why_not(decision, group_id, each) for each in changes]
        error = max(errors, key=bool, default=ErrorCode.NONE)
        failed = tuple(each for each, its in zip(changes, errors, strict=True) if its is error)
    if error is not ErrorCode.NONE:
        decision.answer(asker, OffsetsReset(error, failed))
        return
    before = before_commit(decision.state, group_id, ((each.topic, each.partition) for each in changes))
    for each in changes:
        _set(decision, caller, group_id, each, cause)
    note_way_back(decision, group_id, before)
    decision.answer(asker, OffsetsReset(ErrorCode.NONE))


def _check(decision: Decision, caller: Caller, group_id: str, changes: Sequence[OffsetReset], cause: str) -> ErrorCode:
    state = decision.state
    if state.behind:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    group = state.groups.get(group_id)
    if group is None and not state.has_room_for_group(group_id):
        return ErrorCode.POLICY_VIOLATION
    if group is not None and group.state is not GroupState.EMPTY:
        return ErrorCode.NON_EMPTY_GROUP
    size = sum(record_size(group_id, each.topic, cause, *caller) for each in changes)
    return ErrorCode.INVALID_COMMIT_OFFSET_SIZE if size > state.settings.commit_max_bytes else ErrorCode.NONE


def _why_not(decision: Decision, group_id: str, change: OffsetReset) -> ErrorCode:
    state = decision.state
    if state.is_unstable(OffsetCommitKey(group_id, change.topic, change.partition)):
        return ErrorCode.UNSTABLE_OFFSET_COMMIT
    committed = state.offsets.committed.get(group_id, change.topic, change.partition)
    found = NONE_COMMITTED if committed is None else committed.offset
    return ErrorCode.NONE if found == change.expected else REFUSED


def _set(decision: Decision, caller: Caller, group_id: str, change: OffsetReset, cause: str) -> None:
    key = OffsetCommitKey(group_id, change.topic, change.partition)
    if change.offset is None:
        if change.expected != NONE_COMMITTED:
            decision.delete(key, cause, caller, TAKEN_AWAY)
        return
    decision.write(key, OffsetCommitValue(change.offset, commit_timestamp=decision.now))
    if decision.state.settings.offsets_history_retention_minutes > 0:
        replaced = NONE_REPLACED if change.expected == NONE_COMMITTED else change.expected
        value = OffsetHistoryValue(
            *(change.offset, -1, "", decision.now, -1, "", None, *caller), cause=cause, replaced=replaced
        )
        decision.history.append((OffsetHistoryKey(group_id, change.topic, change.partition, decision.now), value))
