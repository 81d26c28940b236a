"""Who is in a group whose offsets are to be changed, and what is to be done about that: a line, or "" where nobody
is. Whoever was heard of longest ago comes first: one that is left may be dead."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from protocol.group_kinds import kind_of
from protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from shim.coordinator import Presence
from shim.counted import counted, lasting, some_of
from shim.groups.words import last_heard
from shim.migration.strangers import who
from shim.offsets.cluster.describing import NOBODY, NOT_TOLD


def in_use(described: DescribedGroup, presences: Sequence[Presence], now_ms: int) -> str:
    """Of a group that the shim serves."""
    by_silence = sorted(presences, key=lambda each: each.heard_ms or 0)
    they = some_of(by_silence, lambda each: _told(each, now_ms))
    return _told_of(described, they, "one that is dead is gone when its session ends")


def in_use_in_cluster(described: DescribedGroup, silent_seconds: Callable[[str], float | None]) -> str:
    """Of one that is passed through. ``silent_seconds``: since a request of the member with that id has come through
    the shim; None where none is known to have. When its session ends its coordinator alone knows."""
    session = kind_of(described).session
    goes = f"one that is dead is gone 45 s after it was last heard of, unless {session} says otherwise"
    if described.group_state == NOT_TOLD:
        why = "as the shim's principal may not describe their topics"
        return f"it has members, who are not told, {why}. Stop them first; {goes}"
    silent = {each.member_id: silent_seconds(each.member_id) for each in described.members}

    def told(member: DescribedGroupMember) -> str:
        seconds = silent[member.member_id]
        return who(member) if seconds is None else f"{who(member)} (last heard of {lasting(int(seconds * 1000))} ago)"

    by_silence = sorted(described.members, key=lambda each: -(silent[each.member_id] or 0.0))
    return _told_of(described, some_of(by_silence, told), goes)


def in_use_in_zookeeper(consumers: Sequence[str]) -> str:
    """``consumers``: their ids, which begin with the group and the host; some."""
    goes = "one that is dead is gone when its ZooKeeper session ends"
    return f"it has members in ZooKeeper: {some_of(consumers)}. Stop them first; {goes}"


def _told_of(described: DescribedGroup, they: str, goes: str) -> str:
    if described.group_state in NOBODY:
        return ""
    state = f"(it is {described.group_state})"
    if not described.members:  # whoever was given an id may join yet
        return f"it has members, or is about to {state}; stop them first"
    return f"it has {counted(len(described.members), 'member')} {state}: {they}. Stop them first; {goes}"


def _told(presence: Presence, now_ms: int) -> str:
    ends = "" if presence.removed_ms is None else f", its session ends in {lasting(presence.removed_ms - now_ms)}"
    return f"{who(presence)} ({last_heard(presence, now_ms)}{ends})"
