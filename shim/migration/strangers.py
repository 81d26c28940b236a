"""Members of a group, as a line for people who are to find them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from protocol.messages.describe_groups import DescribedGroupMember

_SHOWN: Final = 3


def named(members: Sequence[DescribedGroupMember]) -> str:
    """The first of them, each by client id and host."""
    shown = ", ".join(f"{each.client_id or each.member_id} at {each.client_host}" for each in members[:_SHOWN])
    return shown + (f" and {len(members) - _SHOWN} more" if len(members) > _SHOWN else "")
