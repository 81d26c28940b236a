"""DescribeGroups, ConsumerGroupDescribe, StreamsGroupDescribe: DESCRIBE on each group. DeleteGroups: DELETE.
ListGroups: DESCRIBE on the cluster, or else on each group that is to be seen.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from protocol.messages.list_groups import ListedGroup, ListGroupsResponse
from shim.api import list_groups
from shim.api.authorization import AnyCall, Granted, Policy
from shim.api.call import Services
from shim.api.descriptions import Describes
from shim.api.policies.refusals import (
    NO_GROUP,
    ask_coordinator,
)
from shim.security.rights import CLUSTER, Need, Right


def _groups_needs(right: Right, field: str, call: AnyCall) -> list[Need]:
    return [Need(right, group_id) for group_id in dict.fromkeys(getattr(call.request, field))]


def _divided_groups(right: Right, field: str, call: AnyCall, granted: Granted) -> list[str]:
    """Leaves those in the request that are granted; gives the others."""
    groups = getattr(call.request, field)
    call.request = call.request._replace(
        **{field: tuple(group_id for group_id in groups if Need(right, group_id) in granted)}
    )
    return [group_id for group_id in groups if Need(right, group_id) not in granted]


def _admit_describe(its: Describes, call: AnyCall, granted: Granted) -> bool:
    refused = _divided_groups(Right.DESCRIBE_GROUP, its.field, call, granted)
    first = tuple(its.failed(group_id, NO_GROUP) for group_id in refused)
    if refused and not getattr(call.request, its.field):
        call.answer(its.response(first))
        return False
    call.amend(lambda response: response._replace(groups=(*first, *response.groups)))
    return True


def _admit_delete_groups(call: AnyCall, granted: Granted) -> bool:
    refused = dict.fromkeys(_divided_groups(Right.DELETE_GROUP, "groups_names", call, granted))
    last = tuple(DeletableGroupResult(group_id, NO_GROUP) for group_id in refused)
    if refused and not call.request.groups_names:
        call.answer(DeleteGroupsResponse(throttle_time_ms=0, results=last))
        return False
    call.amend(lambda response: response._replace(results=(*response.results, *last)))
    return True


def _may_list_all(call: AnyCall) -> bool:
    return True


async def _groups_found(services: Services, call: AnyCall, granted: Granted) -> list[Need] | None:
    if CLUSTER in granted:
        return []
    needs: list[Need] = []
    for partition in list_groups.shown_at(services, call.connection.node_id):
        groups = await ask_coordinator(services, partition, partial(list_groups.listed, call.request))
        if isinstance(groups, ErrorCode):
            call.answer(list_groups.response([groups]))
            return None
        needs += (Need(Right.DESCRIBE_GROUP, group.group_id) for group in groups)
    return needs


def _admit_list(call: AnyCall, granted: Granted) -> bool:
    if CLUSTER not in granted:
        call.amend(partial(_only_described, granted))
    return True


def _only_described(granted: Granted, response: ListGroupsResponse) -> ListGroupsResponse:
    """A group that has come into being since nobody was asked about: it is as if it came a little later."""

    def may_be_seen(group: ListedGroup) -> bool:
        return Need(Right.DESCRIBE_GROUP, group.group_id) in granted

    return response._replace(groups=tuple(filter(may_be_seen, response.groups)))


def describing(its: Describes) -> Policy:
    return Policy(partial(_groups_needs, Right.DESCRIBE_GROUP, its.field), partial(_admit_describe, its))


LIST_GROUPS: Final = Policy(lambda call: [CLUSTER], _admit_list, _may_list_all, _groups_found)
DELETE_GROUPS: Final = Policy(partial(_groups_needs, Right.DELETE_GROUP, "groups_names"), _admit_delete_groups)
