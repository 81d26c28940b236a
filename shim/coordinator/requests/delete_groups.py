"""DeleteGroups, versions 0-2, a group at a time (Kafka 4.3, KIP-229)."""

from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeletableGroupResult
from protocol.offsets_log import GroupMetadataKey, OffsetCommitKey
from shim.coordinator.decision import Decision
from shim.coordinator.outcome import Asker, Caller
from shim.coordinator.requests.tombstones import write_tombstone
from shim.coordinator.state.group import Group, GroupState

GROUP_DELETED = "the group was deleted"
"""The cause that the history has of it, where nobody says more."""


def delete_group(decision: Decision, caller: Caller, group_id: str, asker: Asker, cause: str = GROUP_DELETED) -> None:
    """Delete an empty group and all its offsets, those of transactions that are not settled among them. ``cause``: for
    the history.

    The group's own tombstone is the last. So where the tombstones take more than one batch, and a crash leaves only the
    first of them, the group is there with what is left of its offsets, to be deleted again: nobody was told that it
    was deleted.
    """
    state = decision.state
    group = state.groups.get(group_id)
    error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if state.behind else _check(group)
    if error is ErrorCode.NONE:
        for topic, partitions in state.offsets.by_topic(group_id).items():
            for partition in partitions:
                write_tombstone(decision, OffsetCommitKey(group_id, topic, partition), cause, caller)
        decision.write(GroupMetadataKey(group_id), None)
        decision.mark_served(group_id)
    decision.answer(asker, DeletableGroupResult(group_id, error))


def _check(group: Group | None) -> ErrorCode:
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    return ErrorCode.NONE if group.state is GroupState.EMPTY else ErrorCode.NON_EMPTY_GROUP
