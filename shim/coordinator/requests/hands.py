"""In whose hands a group is: that it comes into other ones, and what it has with it.

Offsets and hands are two decisions, each durable before the next: first the offsets of a group that is taken over, then
that it is served; first that a group is handed back, then that nothing of it is kept. So what a crash leaves, whatever
of it has reached the disk, is a group in the hands that it was in, or in the new ones with all that belongs to it.
"""

from collections.abc import Sequence

from protocol.errors import ErrorCode
from protocol.offsets_log import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue
from protocol.own.history_log import ADOPTED, OffsetHistoryKey, OffsetHistoryValue
from protocol.own.state_log import ZOOKEEPER_IS_RIGHT, Hands, Step
from shim.coordinator.decision import Decision, record_size
from shim.coordinator.outcome import Asker, HandsTaken
from shim.coordinator.requests.tombstones import write_tombstone


def take_in_hand(
    decision: Decision,
    group_id: str,
    hands: Hands,
    cause: str,
    asker: Asker,
    step: Step = Step.KAFKA,
    *,
    from_zookeeper: bool = False,
) -> None:
    """The group is in these hands from here on, and of one that is served the offsets are kept as the step says. The
    answer is whether that was anything new, and possible: what is pending of a transaction, or on its way to be, would
    be older than what another place was given meanwhile, and lose to it.
    """
    state = decision.state
    elsewhere = hands is Hands.PASSED_THROUGH or step in ZOOKEEPER_IS_RIGHT
    pending = elsewhere and state.is_in_transaction(group_id)
    new = (state.hands_of(group_id), state.step_of(group_id)) != (hands, step)
    if new and not pending:
        decision.write_hands(group_id, hands, step, cause, from_zookeeper=from_zookeeper)
    decision.answer(asker, HandsTaken(new and not pending))


def adopt(
    decision: Decision,
    group_id: str,
    offsets: Sequence[tuple[OffsetCommitKey, OffsetCommitValue]],
    members: GroupMetadataValue | None,
    asker: Asker,
) -> None:
    """Make the offsets and members of a group that is passed through what they are in the cluster, before it is served.

    The answer is whether that was done: not for a group that is served, which has offsets of its own.
    """
    if decision.state.hands_of(group_id) is not Hands.PASSED_THROUGH:
        decision.answer(asker, HandsTaken(False))
        return
    _forget(decision, group_id, {key for key, _ in offsets})
    for key, value in offsets:
        decision.make_room(record_size(group_id, key.topic, value.metadata))
        decision.write(key, value)
        _remember(decision, key, value)
    if members is not None:
        decision.write(GroupMetadataKey(group_id), members)
        for member in decision.state.groups[group_id].members.values():
            decision.renew_session(member)
    decision.answer(asker, HandsTaken(True))


def _remember(decision: Decision, key: OffsetCommitKey, value: OffsetCommitValue) -> None:
    """Nobody knows who has committed it there."""
    if decision.state.settings.offsets_history_retention_minutes > 0:
        at = OffsetHistoryKey(key.group, key.topic, key.partition, decision.now)
        its = (value.offset, value.leader_epoch, value.metadata, value.commit_timestamp)
        decision.history.append((at, OffsetHistoryValue(*its, -1, "", None, "", "", cause=ADOPTED)))


def abandon(decision: Decision, group_id: str, asker: Asker) -> None:
    """Forget the offsets and the members of a group that is passed through. The answer is whether it is."""
    passed = decision.state.hands_of(group_id) is Hands.PASSED_THROUGH
    if passed:
        _forget(decision, group_id, frozenset())
    decision.answer(asker, HandsTaken(passed))


def _forget(decision: Decision, group_id: str, but: frozenset[OffsetCommitKey] | set[OffsetCommitKey]) -> None:
    state = decision.state
    for topic, partitions in state.offsets.by_topic(group_id).items():
        for partition in partitions:
            key = OffsetCommitKey(group_id, topic, partition)
            if key not in but:
                write_tombstone(decision, key)
    state.offsets.overruled.forget(group_id)
    group = state.groups.get(group_id)
    if group is None:
        return
    for member in group.members.values():  # whoever waits here asks again, there
        decision.refuse_join(group.take_join(member), ErrorCode.NOT_COORDINATOR, member.member_id)
        sync, member.sync = member.sync, None
        decision.refuse_sync(sync, ErrorCode.NOT_COORDINATOR)
    decision.write(GroupMetadataKey(group_id), None)
