"""All members of a group at one place, before it changes hands."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from protocol.messages.describe_groups import DescribedGroupMember
from protocol.messages.join_group import JoinGroupRequest


class Gathering:
    """The members are told of a rebalance, and what they send to join is kept: when all have come, nobody is at work.

    They have committed then what they had done, as before any rebalance, and go on in whoever's hands the group is.
    """

    def __init__(self, members: Sequence[DescribedGroupMember]) -> None:
        """``members``: those of the group as it was when they began to be told."""
        self._members = members
        self._expected = {each.member_id for each in members}
        self._of_instance = {each.group_instance_id: each.member_id for each in members if each.group_instance_id}
        self._here: dict[str, JoinGroupRequest] = {}
        self.complete = asyncio.Event()
        """All have come."""
        self.over = asyncio.Event()
        """The group is in the hands in which it stays: whoever waits goes on there."""

    @property
    def here(self) -> Mapping[str, JoinGroupRequest]:
        """By member id, of those who were expected."""
        return self._here

    @property
    def awaited(self) -> Sequence[DescribedGroupMember]:
        """Those who have yet to come."""
        return [each for each in self._members if each.member_id in self._expected - self._here.keys()]

    def is_expected(self, member_id: str) -> bool:
        """Whether that member has yet to come."""
        return not self.over.is_set() and member_id in self._expected - self._here.keys()

    def gone(self, member_id: str, instance_id: str | None = None) -> None:
        """It has left the group."""
        self._expected.discard(member_id or self._of_instance.get(instance_id or "", ""))
        self._look()

    async def joined(self, request: JoinGroupRequest) -> None:
        """A member is here, for as long as it waits for this: until the gathering is over. A new one waits with the
        others."""
        member_id = request.member_id or self._of_instance.get(request.group_instance_id or "", "")
        if member_id in self._expected:
            self._here[member_id] = request
            self._look()
        try:
            await self.over.wait()
        finally:
            if not self.over.is_set() and self._here.get(member_id) is request:
                del self._here[member_id]
                self.complete.clear()

    def _look(self) -> None:
        if self._here.keys() >= self._expected:
            self.complete.set()
