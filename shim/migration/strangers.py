"""Members of a group, as a line for people who are to find them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from protocol.group_kinds import CLASSIC, kind_of
from protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from shim.coordinator import Presence
from shim.counted import counted, some_of
from shim.offsets.cluster.describing import NOBODY, NOT_TOLD


class PastTheShim(NamedTuple):
    """Members in the cluster of a group that the shim serves, or that it is one of another kind for good there.
    ``they``: who they are, in a line, and ``what_to_do``."""

    they: str
    what_to_do: str


def named(members: Sequence[DescribedGroupMember]) -> str:
    """The first of them, each by client id and host."""
    return some_of(members, who)


def who(member: DescribedGroupMember | Presence) -> str:
    return f"{member.client_id or member.member_id} at {member.client_host}"


def past_the_shim(described: DescribedGroup, strangers: Sequence[DescribedGroupMember]) -> PastTheShim:
    """``described``: by the cluster; ``strangers``: those of its members that are not the shim's."""
    kind, where = kind_of(described), "in the cluster, past the shim"
    what_to_do = "stop them there, or have them come through the shim"
    if kind is not CLASSIC:
        where += f", where it is a group of {kind.protocol}"
        what_to_do += " with group.protocol=classic"
    if kind.stays:
        what_to_do = "give them another group id, and delete the group there"
        if described.group_state in NOBODY:
            return PastTheShim(f"the cluster has a {kind.name} group of that name", "delete it there")
    if described.group_state == NOT_TOLD:
        told = "; who they are is told once the shim's principal may Describe its topics"
        return PastTheShim(f"it has members {where}", what_to_do + told)
    return PastTheShim(f"it has {counted(len(strangers), 'member')} {where}: {named(strangers)}", what_to_do)
