"""What whoever looks after a group wants to read of it in the log: who came and went, why members rejoin, what was
refused, and why.

The words of clients are in it, so they are cut where they are long; the log sees to it that they stay in one line.
"""

from collections.abc import Sequence, Set
from itertools import islice
from typing import Final, Protocol

from protocol.errors import ErrorCode
from protocol.group_kinds import Kind
from protocol.messages.join_group import JoinGroupRequest
from shim.coordinator.outcome import Caller, GroupEvent
from shim.coordinator.settings import CoordinatorSettings
from shim.coordinator.state.group import Group, Member
from shim.coordinator.state.group_memory import OfferedProtocol
from shim.counted import some_of

_MOST_NAMED: Final = 5
_LONGEST: Final = 200
_KEPT: Final = 350


class OfMember(Protocol):
    @property
    def group_id(self) -> str: ...
    @property
    def member_id(self) -> str: ...


def rebalance_begins(group: Group, why: str) -> GroupEvent:
    """While the group is in the state before it."""
    before = (group.generation_id, group.state.value, len(group.members))
    return _of(group.group_id, "preparing to rebalance after generation %d (%s, members: %d): %s", *before, why)


def generation_begins(group: Group, now: int) -> GroupEvent:
    """Its leader is yet to bring the assignment. While the group is in the state before it."""
    took_ms = max(now - group.state_timestamp, 0)
    is_now = (group.generation_id, took_ms, len(group.members), _named(group.leader), _cut(group.protocol_name))
    return _of(group.group_id, "generation %d begins after %d ms, members: %d, leader: %s, protocol: %s", *is_now)


def begins_without(group: Group, absent: Sequence[Member]) -> GroupEvent:
    """Those keep their place, and what they are assigned nobody reads meanwhile."""
    values = (group.generation_id, _all_named(absent))
    template = "generation %d begins without static members that have not joined again, and keep their place: %s"
    return _of(group.group_id, template, *values)


def assigned(group: Group) -> GroupEvent:
    return _of(group.group_id, "generation %d has its assignment, and is stable", group.generation_id)


def emptied(group: Group) -> GroupEvent:
    return _of(group.group_id, "it has no members any more")


def takes_place(group: Group, old: Member, member_id: str, caller: Caller) -> GroupEvent:
    """Of a static member, who comes without its member id."""
    names = (_cut(old.group_instance_id), _who(member_id, caller), _named(old.member_id))
    return _of(group.group_id, "static member %s: %s takes the place of %s", *names)


def waits_for(group: Group, awaited: Sequence[Member], for_ms: int) -> GroupEvent:
    """``for_ms``: so long yet."""
    pending = [f"{_named(each)}, which has not joined yet" for each in islice(group.pending_joins, _MOST_NAMED)]
    if (more := len(group.pending_joins) - _MOST_NAMED) > 0:
        pending.append(f"and {more} more of these")
    names = "; ".join([_all_named(awaited), *pending] if awaited else pending)
    values = (group.generation_id, group.state.value, for_ms, names)
    return _of(group.group_id, "generation %d, %s, still waits for %d ms at most, for: %s", *values)


def never_joined(group: Group, member_id: str) -> GroupEvent:
    return _of(group.group_id, "gone, not joined within its session timeout: %s", _named(member_id))


def gone(group: Group, members: Sequence[Member], why: str) -> GroupEvent:
    """``why``: as those below give it."""
    return _of(group.group_id, "gone, %s: %s", why, _all_named(members))


def refused(
    what: str, request: OfMember, generation_id: int, group: Group | None, caller: Caller, error: ErrorCode
) -> GroupEvent:
    """``generation_id``: which the request is of. ``group``: None where there is none of that name."""
    is_in = "there is none" if group is None else f"it is in generation {group.generation_id}, {group.state.value}"
    values = (what, _who(request.member_id, caller), generation_id, error.name, is_in)
    return _of(request.group_id, "%s of %s, of generation %d, is refused: %s (%s)", *values)


def join_refused(group_id: str, member_id: str, caller: Caller, error: ErrorCode, why: str) -> GroupEvent:
    return _of(group_id, "%s may not join: %s%s", _who(member_id, caller), error.name, f" ({why})" if why else "")


def of_another_kind(kind: Kind, request: OfMember, caller: Caller, what_to_do: str) -> GroupEvent:
    template = "%s comes with %s, and is refused: the shim serves the group, with the classic one; %s"
    values = (_who(request.member_id, caller), kind.protocol, what_to_do)
    return _of(request.group_id, template, *values)._replace(warns=True)


def is_told(error: ErrorCode) -> bool:
    """Of a request that is refused. While a group rebalances all its members are told so."""
    return error is not ErrorCode.REBALANCE_IN_PROGRESS


# -- why a member may not join

NO_MEMORY: Final = "group.memory.max.bytes is used up"


def session_timeout(request: JoinGroupRequest, settings: CoordinatorSettings) -> str:
    least, most = settings.group_min_session_timeout_ms, settings.group_max_session_timeout_ms
    return (
        f"session.timeout.ms is {request.session_timeout_ms}, and has to be within {least} and {most}, "
        "group.min.session.timeout.ms and group.max.session.timeout.ms"
    )


def inconsistent(group: Group, protocol_type: str, protocols: Sequence[OfferedProtocol]) -> str:
    offered = [each.name for each in protocols[:_MOST_NAMED]]
    offers = f"it offers {_listed(offered)} of type {_cut(protocol_type)!r}"
    if not group.members:
        return f"{offers}, and there has to be one"
    wanted = group.common_protocols(_MOST_NAMED)
    return f"{offers}; all members of the group offer {_listed(wanted)} of type {_cut(group.protocol_type)!r}"


# -- why members are gone


def left(reasons: Set[str | None]) -> str:
    """``reasons``: in the client's words, where it gives one (KIP-800); told where it is the same of all."""
    (reason,) = reasons if len(reasons) == 1 else (None,)
    return f"as it has left{_in_their_words(reason)}"


def silent(member: Member) -> str:
    return f"not heard of for its session timeout, {member.session_timeout_ms} ms"


def not_rejoined(group: Group) -> str:
    return f"not joined again within the rebalance timeout, {group.rebalance_timeout_ms()} ms"


def not_synced(group: Group) -> str:
    return f"without a SyncGroup within the rebalance timeout, {group.rebalance_timeout_ms()} ms"


# -- why the others join again


def are_gone(members: Sequence[Member], why: str) -> str:
    return f"gone, {why}: {_all_named(members)}" if members else why


def has_joined(member: Member, reason: str | None) -> str:
    """Of one that joins with the id that it was given, Java says just that."""
    says = None if reason is not None and member.member_id in reason else reason
    return f"member {_member(member)} has joined{_in_their_words(says)}"


def has_rejoined(member: Member, reason: str | None, *, leads: bool) -> str:
    what = "the leader" if leads else "member"
    return f"{what} {_member(member)} has joined again{_in_their_words(reason)}"


def has_come_back(member: Member) -> str:
    return f"static member {_cut(member.group_instance_id)} has come back, as {_member(member)}"


def has_not_joined(member_id: str) -> str:
    return f"{_named(member_id)} has left, before it joined"


def is_too_full(group: Group, most: int) -> str:
    return f"it has {len(group.members)} members, and group.max.size is {most}"


# -- whom a rebalance has waited for


def went_without(members: Sequence[Member], why: str) -> str:
    """``why``: as those above give it."""
    return f"{_all_named(members)}, gone, {why}"


def went_without_pending(member_id: str) -> str:
    return f"{_named(member_id)}, given an id, and not joined"


def went_without_static(members: Sequence[Member]) -> str:
    return f"{_all_named(members)}, static, not joined again"


def joined_last(member: Member, after_ms: int) -> str:
    return f"{_member(member)}, joined again after {after_ms} ms"


def short(why: str) -> str:
    """As it is kept: of a few hundred bytes, whatever clients have said."""
    plain = why if why.isascii() else why.encode("ascii", "backslashreplace").decode()
    return plain if len(plain) <= _KEPT else f"{plain[:_KEPT]}..."


TOO_LARGE: Final = "its assignment is larger than group.metadata.max.bytes, or group.memory.max.bytes, allows"


def _in_their_words(reason: str | None) -> str:
    return f", saying {_cut(reason)!r}" if reason else ""


# -- names


def _of(group_id: str, template: str, *values: object) -> GroupEvent:
    group = _cut(group_id)
    return GroupEvent(group, f"group %s: {template}", (group, *values))


def _all_named(members: Sequence[Member]) -> str:
    return some_of(members, _member, _MOST_NAMED)


def _member(member: Member) -> str:
    instance = f", instance {_cut(member.group_instance_id)}" if member.group_instance_id is not None else ""
    return f"{_named(member.member_id)} ({_cut(member.client_id)} at {member.client_host}{instance})"


def _who(member_id: str, caller: Caller) -> str:
    return f"{_named(member_id)} ({_cut(caller.client_id)} at {caller.client_host})"


def _named(member_id: str | None) -> str:
    return _cut(member_id) or "a client without a member id"


def _listed(names: Sequence[str]) -> str:
    return _cut(", ".join(names)) or "nothing"


def _cut(words: str | None) -> str:
    if words is None or len(words) <= _LONGEST:
        return words or ""
    return f"{words[:_LONGEST]}…"
