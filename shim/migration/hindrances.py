"""What is in the way of taking a group over from the cluster's own coordinator."""

from __future__ import annotations

from typing import Final

from protocol.group_kinds import CLASSIC, Kind, kind_of
from protocol.messages.describe_groups import DescribedGroup
from protocol.own.shim_group import PROTOCOL_TYPE
from shim.migration.hands.members_seen import Seen
from shim.migration.hands.placements import SERVED, Placements
from shim.migration.reader import GroupReader
from shim.migration.strangers import named
from shim.offsets.cluster.describing import DEAD

_SEEN_WITHIN_S: Final = 60.0
"""A member that has come through the shim in that time is on the shim: longer than sessions last, by default."""

OF_ANOTHER_KIND: Final = (
    "the cluster has offsets of it and says that there is no such group, as of one of another kind, with members that "
    "are not told"
)


class Hindrances:
    """For the event loop."""

    def __init__(self, placements: Placements, reader: GroupReader) -> None:
        self._placements = placements
        self._reader = reader

    def of(self, group: str, described: DescribedGroup, *, has_offsets: bool = False) -> str:
        """As the cluster describes it; "" for nothing. ``has_offsets``: whether the cluster has any of it."""
        if self._placements.of(group) in SERVED:
            return "it is served by the shim already"
        if too_early := self._reader.too_early(group):
            return f"it {too_early}"
        if described.protocol_type == PROTOCOL_TYPE:
            return "it is the group of shims that share a log on topics"
        if why := other_protocol(kind_of(described)):
            return why
        if described.group_state == DEAD and has_offsets:
            return OF_ANOTHER_KIND
        strangers = [each for each in described.members if self.seen(group, each.member_id) is None]
        if strangers:
            return f"{len(strangers)} of its members do not come through this shim: {named(strangers)}"
        return ""

    def seen(self, group: str, member_id: str) -> Seen | None:
        """As what a member has come through the shim lately; None of one that is not on the shim."""
        return self._placements.members.seen(group, member_id, _SEEN_WITHIN_S)


def other_protocol(kind: Kind) -> str:
    """Why one whose clients have another protocol than the classic one is not taken over; "" for one that has that."""
    if kind is CLASSIC:
        return ""
    what_to_do = "delete it in the cluster" if kind.stays else "have them come with group.protocol=classic"
    return (
        f"its clients have used {kind.protocol}, which the cluster serves, and not the shim: they would be refused; "
        f"{what_to_do} first"
    )
