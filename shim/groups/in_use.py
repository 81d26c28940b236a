"""Who is in a group whose offsets are to be changed, and what is to be done about that: a line."""

from __future__ import annotations

from collections.abc import Sequence

from protocol.messages.describe_groups import DescribedGroup
from shim.coordinator import Presence
from shim.counted import counted, lasting, some_of
from shim.groups.words import last_heard
from shim.migration.strangers import named, who
from shim.offsets.cluster.groups import NOBODY


def in_use(described: DescribedGroup, presences: Sequence[Presence], now_ms: int) -> str:
    """ "" where nobody is. ``presences``: none of a group that is passed through, of which it is not known when they
    were heard of. The ones that were heard of longest ago come first: one that is left may be dead."""
    if described.group_state in NOBODY:
        return ""
    state = f"(it is {described.group_state})"
    if not described.members:  # whoever was given an id may join yet
        return f"it has members, or is about to {state}; stop them first"
    they = _all_told(presences, now_ms) if presences else named(described.members)
    goes = "one that is dead is gone when its session ends"
    return f"it has {counted(len(described.members), 'member')} {state}: {they}. Stop them first; {goes}"


def in_use_in_zookeeper(consumers: Sequence[str]) -> str:
    """``consumers``: their ids, which begin with the group and the host."""
    goes = "one that is dead is gone when its ZooKeeper session ends"
    return f"it has members in ZooKeeper: {some_of(consumers)}. Stop them first; {goes}"


def _all_told(presences: Sequence[Presence], now_ms: int) -> str:
    by_silence = sorted(presences, key=lambda each: each.heard_ms or 0)
    return some_of(by_silence, lambda each: _told(each, now_ms))


def _told(presence: Presence, now_ms: int) -> str:
    ends = "" if presence.removed_ms is None else f", its session ends in {lasting(presence.removed_ms - now_ms)}"
    return f"{who(presence)} ({last_heard(presence, now_ms)}{ends})"
