"""ListGroups and DescribeGroups: what is shown of a group (Kafka 4.3); and how far its rebalance is."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from protocol.errors import ErrorCode
from protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from protocol.messages.list_groups import ListedGroup
from shim.coordinator.state.deadlines import Deadlines
from shim.coordinator.state.group import Group, GroupState, Member


class Presence(NamedTuple):
    """A member, and whether it is still there. ``leads``: it is to bring the assignment. ``heard_ms``: when its last
    request came, in milliseconds since the epoch; None where none has since the shim began. ``removed_ms``: when its
    session ends, unless it is heard of again; None of one that waits to be answered, which stays for as long."""

    member_id: str
    client_id: str
    client_host: str
    leads: bool
    heard_ms: int | None
    session_timeout_ms: int
    removed_ms: int | None

    def is_silent(self, now_ms: int) -> bool:
        """Whether it has missed heartbeats, as clients send three or more in a session timeout: so it may be dead."""
        return self.removed_ms is not None and 2 * (self.removed_ms - now_ms) < self.session_timeout_ms


class Generation(NamedTuple):
    """``state``, and ``since_ms``, when the group came to it, in milliseconds since the epoch; -1 where nobody knows.
    ``reason``: why the last rebalance began, "" where nobody knows any more; ``waited_for``: whom the others had to
    wait for in it, up to now, "" where it was as short as most are. ``awaited``: of whom a JoinGroup is awaited in
    PreparingRebalance, a SyncGroup in the other states; ``pending``: member ids that were given out, with which nobody
    has joined yet. ``until_ms``: when the group goes on without them at the latest; None where nothing is waited for.
    """

    generation_id: int
    state: str
    since_ms: int
    reason: str
    waited_for: str
    awaited: Sequence[Presence]
    pending: Sequence[str]
    until_ms: int | None


_GROUP_TYPE = "classic"
_GROUP_ID_NOT_FOUND_FROM = 6


def list_groups(
    groups: Iterable[Group], states_filter: Iterable[str], types_filter: Iterable[str]
) -> tuple[ListedGroup, ...]:
    """The groups that are in one of the states and of one of the types; an empty filter lets every group through.

    Filters are matched whatever their case; a state may have blanks around it. A state or type that does not exist
    matches nothing.
    """
    states = {state.strip().lower() for state in states_filter}
    types = {type_.lower() for type_ in types_filter}
    if types and _GROUP_TYPE not in types:
        return ()
    return tuple(
        ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type or "",
            group_state=group.state.value,
            group_type=_GROUP_TYPE,
        )
        for group in groups
        if not states or group.state.value.lower() in states
    )


def describe_group(groups: Mapping[str, Group], group_id: str, version: int) -> DescribedGroup:
    """The group and its members. Metadata and assignor are those of a Stable group only.

    A group that does not exist is Dead: from version 6 on with GROUP_ID_NOT_FOUND, before that without an error.
    """
    group = groups.get(group_id)
    if group is None:
        found = version < _GROUP_ID_NOT_FOUND_FROM
        return DescribedGroup(
            error_code=ErrorCode.NONE if found else ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=None if found else f"Group {group_id} not found.",
            group_id=group_id,
            group_state=GroupState.DEAD.value,
        )
    protocol_name = group.protocol_name if group.state is GroupState.STABLE else None
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol_name or "",
        members=tuple(
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(protocol_name) if protocol_name is not None else b"",
                member_assignment=member.assignment,
            )
            for member in group.members.values()
        ),
    )


def generation(group: Group, deadlines: Deadlines[Any]) -> Generation:
    """Of the group as it is now."""
    awaited, deadline = group.awaited()
    return Generation(
        group.generation_id,
        group.state.value,
        group.state_timestamp,
        group.rebalance_reason,
        group.rebalance_waited_for,
        [_presence(group, member, deadlines) for member in awaited],
        list(group.pending_joins),
        deadlines.get(deadline),
    )


def presences(group: Group, deadlines: Deadlines[Any]) -> list[Presence]:
    """Of all members, as it is now."""
    return [_presence(group, member, deadlines) for member in group.members.values()]


def _presence(group: Group, member: Member, deadlines: Deadlines[Any]) -> Presence:
    return Presence(
        *(member.member_id, member.client_id, member.client_host, group.leader == member.member_id),
        member.heard_at,
        member.session_timeout_ms,
        None if member.is_waiting else deadlines.get(member.session_deadline),
    )
