"""ListGroups and DescribeGroups: what is shown of a group (Kafka 4.3)."""

from collections.abc import Iterable, Mapping

from protocol.errors import ErrorCode
from protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from protocol.messages.list_groups import ListedGroup
from shim.coordinator.state.group import Group, GroupState

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
