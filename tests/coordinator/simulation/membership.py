"""What records and answers say of a group and its members."""

from __future__ import annotations

from typing import Final

from protocol.consumer import subscribed_topics
from protocol.messages.join_group import JoinGroupRequest
from protocol.offsets_log import GroupMetadataValue

from .shim import Call

NEVER: Final = -(1 << 62)


class Membership:
    """What is known of one group since it was made: by its records, and by the answers since the last of them."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch  # how often a group of that name was deleted
        self.recorded: GroupMetadataValue | None = None
        self.generation = 0
        self.members: dict[str, str | None] = {}  # of the generation: instance ids by member id
        self.subscribed: dict[str, set[str]] = {}
        self.removed: set[str] = set()
        self.synced: set[str] = set()
        self.may_rebalance = False  # again, before its assignment was recorded
        self.synced_by = NEVER  # whoever has not is removed
        self.settles_by = NEVER  # the initial rebalance delay is over by then
        self.joining: dict[Call, int] = {}  # since when
        self.syncing: dict[Call, str] = {}
        self.session: dict[str, int] = {}
        self.longest: dict[str, int] = {}  # of its predecessor's session, too
        self.surely_heard: dict[str, int] = {}
        self.perhaps_heard: dict[str, int] = {}

    def record(self, value: GroupMetadataValue) -> None:
        self.recorded = value
        self.generation = value.generation
        self.members = {member.member_id: member.group_instance_id for member in value.members}
        self.subscribed = {member.member_id: set(subscribed_topics(member.subscription)) for member in value.members}
        if not value.members:
            self.removed.clear()

    def hears(self, member_id: str, now: int, *, surely: bool) -> None:
        self.perhaps_heard[member_id] = now
        if surely:
            self.surely_heard[member_id] = now

    def waits(self, member_id: str) -> bool:
        """One of its requests is parked."""
        return member_id in self.syncing.values() or any(
            isinstance(call.request, JoinGroupRequest) and call.request.member_id == member_id for call in self.joining
        )

    def longest_session(self, member_id: str) -> int:
        return max(self.session[member_id], self.longest.get(member_id, 0))

    def is_alive(self, member_id: str, now: int) -> bool:
        return (
            member_id in self.members
            and member_id not in self.removed
            and member_id in self.synced
            and (self.waits(member_id) or now < self.surely_heard.get(member_id, NEVER) + self.session[member_id])
        )

    def may_be_alive(self, member_id: str, now: int) -> bool:
        return (
            member_id in self.members
            and member_id not in self.removed
            and (
                self.waits(member_id)
                or now <= self.perhaps_heard.get(member_id, NEVER) + self.longest_session(member_id)
            )
        )

    def is_settled(self, generation: int) -> bool:
        """Whether that is the generation, and its assignment is recorded."""
        return generation == self.generation and self.recorded is not None and self.recorded.generation == generation

    def may_rebalance_again(self, now: int) -> bool:
        """Without that the generation has come to its assignment: somebody has come, left, or not been heard of."""
        silent = (
            member_id
            for member_id in self.members
            if not self.waits(member_id) and now >= self.surely_heard.get(member_id, NEVER) + self.session[member_id]
        )
        return self.may_rebalance or now >= self.synced_by or any(silent)

    def is_occupied(self) -> bool:
        return bool(self.members) or bool(self.joining)
