"""The rebalance: from PreparingRebalance, through the join phase, to the next generation (Kafka 4.3)."""

from collections.abc import Iterable, Sequence

from protocol.errors import ErrorCode
from protocol.offsets_log import GroupMetadataKey
from shim.coordinator import events
from shim.coordinator.decision import Decision, joined_response
from shim.coordinator.state.group import NEXT_STATES, Group, GroupState, InitialDelay, Member
from shim.coordinator.state.partition_state import group_metadata
from shim.coordinator.state.subscription import topics_of_generation

# Clients may ask for a rebalance timeout of 0; waiting for somebody to join must not turn into a busy loop.
_NOBODY_JOINED_WAIT_MS = 1_000

# Most rebalances are over by then.
_TOLD_AFTER_MS = 10_000
_TOLD_AGAIN_MS = 60_000


def rebalance_or_complete_join(decision: Decision, group: Group, why: str) -> None:
    """Start a rebalance, or, where one is being prepared, end its join phase if this was the last one missing."""
    if GroupState.PREPARING_REBALANCE in NEXT_STATES[group.state]:
        prepare_rebalance(decision, group, why)
    else:
        maybe_complete_join(decision, group)


def prepare_rebalance(decision: Decision, group: Group, why: str) -> None:
    """Have all members rejoin. An empty group waits for the initial rebalance delay, so that members come together."""
    decision.tell(events.rebalance_begins(group, why))
    group.rebalance_reason, group.rebalance_waited_for = events.short(why), ""
    if group.state is GroupState.COMPLETING_REBALANCE:
        _cancel_syncs(decision, group)
    group.nobody_syncs()
    deadlines = decision.state.deadlines
    deadlines.cancel(group.sync_deadline)
    deadlines.cancel(group.tell_deadline)
    is_initial = group.state is GroupState.EMPTY
    group.transition(GroupState.PREPARING_REBALANCE, decision.now)
    if is_initial:
        delay_ms = decision.state.settings.group_initial_rebalance_delay_ms
        group.initial_delay = InitialDelay(delay_ms, max(group.rebalance_timeout_ms() - delay_ms, 0))
        group.new_member_added = False
        deadlines.set(group.join_deadline, decision.now + delay_ms)
    elif group.all_joined():
        complete_join(decision, group)
    else:
        deadlines.set(group.join_deadline, decision.now + group.rebalance_timeout_ms())
        _tell_later(decision, group)


def maybe_complete_join(decision: Decision, group: Group) -> None:
    """End the join phase if everybody has joined; the initial rebalance delay runs to its end all the same."""
    if group.state is GroupState.PREPARING_REBALANCE and group.initial_delay is None and group.all_joined():
        complete_join(decision, group)


def join_deadline_due(decision: Decision, group: Group) -> None:
    """The rebalance timeout is over, or a stretch of the initial rebalance delay is.

    The delay goes on for another stretch while members keep arriving, as far as the rebalance timeout allows.
    """
    delay = group.initial_delay
    if delay is None or not group.new_member_added or delay.remaining_ms == 0:
        complete_join(decision, group)
        return
    group.new_member_added = False
    next_ms = min(decision.state.settings.group_initial_rebalance_delay_ms, delay.remaining_ms)
    group.initial_delay = InitialDelay(next_ms, max(delay.remaining_ms - delay.delay_ms, 0))
    decision.state.deadlines.set(group.join_deadline, decision.now + next_ms)


def complete_join(decision: Decision, group: Group) -> None:
    """End the join phase: dynamic members that have not joined go, the others get the next generation.

    If there are members but none has joined, the phase goes on for another rebalance timeout; session timeouts will
    take those members. Without members the group becomes Empty.
    """
    deadlines = decision.state.deadlines
    deadlines.cancel(group.join_deadline)
    deadlines.cancel(group.tell_deadline)
    group.initial_delay = None
    absent = [m for m in group.members.values() if m.join is None and m.group_instance_id is None]
    if absent:
        why = events.not_rejoined(group)
        remove_members(decision, group, absent)
        decision.tell(events.gone(group, absent, why))
        _waited_for(group, events.went_without(absent, why))
    if not group.members:
        _become_empty(decision, group)
    elif not group.elect_joined_leader():
        _tell_later(decision, group)
        deadlines.set(group.join_deadline, decision.now + max(group.rebalance_timeout_ms(), _NOBODY_JOINED_WAIT_MS))
    else:
        _next_generation(decision, group)


def _become_empty(decision: Decision, group: Group) -> None:
    group.check_transition(GroupState.EMPTY)
    group.rebalance_reason = group.rebalance_waited_for = ""
    empty = group_metadata(group, decision.now, {})
    decision.write(
        GroupMetadataKey(group.group_id),
        empty._replace(generation=group.next_generation_id(), protocol=None, leader=None),
    )
    decision.tell(events.emptied(group))


def _next_generation(decision: Decision, group: Group) -> None:
    decision.state.rebalances += 1
    group.generation_id = group.next_generation_id()
    group.protocol_name = group.select_protocol()
    group.subscribed_topics = topics_of_generation(group)
    decision.tell(events.generation_begins(group, decision.now))
    if absent := [member for member in group.members.values() if member.join is None]:
        decision.tell(events.begins_without(group, absent))
        _waited_for(group, events.went_without_static(absent))
    _note_who_was_last(group)
    group.transition(GroupState.COMPLETING_REBALANCE, decision.now)
    for member in group.members.values():
        parked = group.take_join(member)
        if parked is not None:
            decision.answer(parked.asker, joined_response(parked.version, group, member))
        decision.renew_session(member)
        member.is_new = False
    group.everybody_syncs()
    _tell_later(decision, group)
    decision.state.deadlines.set(group.sync_deadline, decision.now + group.rebalance_timeout_ms())


def _note_who_was_last(group: Group) -> None:
    """Of those that were to join again, where the others waited for longer than in most rebalances."""
    again = [(m.join.since, m) for m in group.members.values() if m.join is not None and not m.is_new]
    since, last = max(again, key=lambda each: each[0], default=(0, None))
    if last is not None and (after_ms := since - group.state_timestamp) >= _TOLD_AFTER_MS:
        _waited_for(group, events.joined_last(last, after_ms))


def _waited_for(group: Group, words: str) -> None:
    before = group.rebalance_waited_for
    group.rebalance_waited_for = events.short(f"{before}; {words}" if before else words)


def gone_meanwhile(decision: Decision, group: Group, members: Sequence[Member], why: str) -> None:
    """They were removed while a rebalance is prepared. ``why``: see :mod:`shim.coordinator.events`."""
    decision.tell(events.gone(group, members, why))
    if awaited := [member for member in members if member.join is None]:
        _waited_for(group, events.went_without(awaited, why))


def sync_deadline_due(decision: Decision, group: Group) -> None:
    """Members that have been given the generation but have not synced within the rebalance timeout are removed."""
    if not group.pending_syncs:
        return
    late = [group.members[member_id] for member_id in group.pending_syncs]
    why = events.are_gone(late, events.not_synced(group))
    remove_members(decision, group, late)
    prepare_rebalance(decision, group, why)


def still_waits(decision: Decision, group: Group) -> None:
    """A rebalance, or the time for SyncGroups after one, goes on for longer than most do."""
    awaited, deadline = group.awaited()
    until = decision.state.deadlines.get(deadline)
    if until is not None and (awaited or group.pending_joins):
        decision.tell(events.waits_for(group, awaited, until - decision.now))
        decision.state.deadlines.set(group.tell_deadline, decision.now + _TOLD_AGAIN_MS)


def _tell_later(decision: Decision, group: Group) -> None:
    if group.rebalance_timeout_ms() > _TOLD_AFTER_MS:
        decision.state.deadlines.set(group.tell_deadline, decision.now + _TOLD_AFTER_MS)


def remove_members(decision: Decision, group: Group, members: Iterable[Member]) -> None:
    """Remove members and their session deadlines; requests of them that are parked get UNKNOWN_MEMBER_ID."""
    for member in members:
        group.remove(member.member_id)
        decision.state.deadlines.cancel(member.session_deadline)
        decision.refuse_join(member.join, ErrorCode.UNKNOWN_MEMBER_ID, "")
        decision.refuse_sync(member.sync, ErrorCode.UNKNOWN_MEMBER_ID)


def session_due(decision: Decision, group: Group, member_id: str) -> None:
    """A member or pending member has not been heard of for its session timeout."""
    if member_id in group.pending_joins:
        decision.tell(events.never_joined(group, member_id))
        group.remove(member_id)
        if group.state is GroupState.PREPARING_REBALANCE:
            _waited_for(group, events.went_without_pending(member_id))
            if group.all_joined():
                complete_join(decision, group)
        return
    member = group.members.get(member_id)
    if member is None or member.is_waiting:
        return
    why = events.silent(member)
    remove_members(decision, group, [member])
    if group.state is not GroupState.PREPARING_REBALANCE:
        prepare_rebalance(decision, group, events.are_gone([member], why))
        return
    gone_meanwhile(decision, group, [member], why)
    if group.all_joined():
        complete_join(decision, group)


def _cancel_syncs(decision: Decision, group: Group) -> None:
    for member in group.members.values():
        member.assignment = b""
        parked, member.sync = member.sync, None
        if parked is not None:
            decision.refuse_sync(parked, ErrorCode.REBALANCE_IN_PROGRESS)
            decision.renew_session(member)
