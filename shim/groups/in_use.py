"""Who is in a group whose offsets are to be changed, and what is to be done about that: a line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from protocol.messages.describe_groups import DescribedGroup
from shim.coordinator import Presence
from shim.counted import counted, lasting
from shim.groups.words import last_heard
from shim.migration.strangers import named
from shim.offsets.cluster.groups import NOBODY

_NAMED: Final = 5


def in_use(described: DescribedGroup, presences: Sequence[Presence], now_ms: int) -> str:
    """ "" where nobody is. ``presences``: none of a group that is passed through, of which it is not known when they
    were heard of. The ones that were heard of longest ago come first: one that is left may be dead."""
    if described.group_state in NOBODY:
        return ""
    state = f"(it is {described.group_state})"
    if not described.members:  # whoever was given an id may join yet
        return f"it has members, or is about to {state}; stop them first"
    who = _all_told(presences, now_ms) if presences else named(described.members)
    goes = "one that is dead is gone when its session ends"
    return f"it has {counted(len(described.members), 'member')} {state}: {who}. Stop them first; {goes}"


def in_use_in_zookeeper(consumers: Sequence[str]) -> str:
    """``consumers``: their ids, which begin with the group and the host."""
    more = len(consumers) - _NAMED
    who = ", ".join(consumers[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")
    goes = "one that is dead is gone when its ZooKeeper session ends"
    return f"it has members in ZooKeeper: {who}. Stop them first; {goes}"


def _all_told(presences: Sequence[Presence], now_ms: int) -> str:
    by_silence = sorted(presences, key=lambda each: each.heard_ms or 0)
    told = ", ".join(_told(each, now_ms) for each in by_silence[:_NAMED])
    return f"{told} and {len(presences) - _NAMED:,} more" if len(presences) > _NAMED else told


def _told(presence: Presence, now_ms: int) -> str:
    ends = "" if presence.removed_ms is None else f", its session ends in {lasting(presence.removed_ms - now_ms)}"
    who = f"{presence.client_id or presence.member_id} at {presence.client_host}"
    return f"{who} ({last_heard(presence, now_ms)}{ends})"
