"""Members of a group, as a line for people who are to find them."""

from __future__ import annotations

from collections.abc import Sequence

from protocol.messages.describe_groups import DescribedGroupMember
from shim.coordinator import Presence
from shim.counted import some_of


def named(members: Sequence[DescribedGroupMember]) -> str:
    """The first of them, each by client id and host."""
    return some_of(members, who)


def who(member: DescribedGroupMember | Presence) -> str:
    return f"{member.client_id or member.member_id} at {member.client_host}"
