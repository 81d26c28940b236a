"""ListGroups: each group by whose it is, and, where several processes are one shim, of all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import filterfalse
from typing import Any, Final, cast

from protocol.errors import ErrorCode
from protocol.messages.list_groups import ListGroupsResponse
from shim.api.authorization import AnyCall, Handle, granted_of
from shim.api.call import Services
from shim.api.hands.when import FollowUp, when
from shim.api.owners import at_owner
from shim.forwarding import Failed, Peer
from shim.security.probing import NotSaid
from shim.security.rights import CLUSTER, Need, Right

_NOT_THERE: Final = ListGroupsResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
_NOT_SAID: Final = ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
"""In the place of another process's response."""


def listing(served: Handle) -> Handle:
    def route(services: Services, call: AnyCall) -> FollowUp:
        if not services.others:
            return when(call, call.ask_broker(), lambda frame: _listed(services, call, frame, served))
        return when(call, _of_all(services, call), lambda found: _listed(services, call, found[0], served, found[1]))

    return route


def _listed(
    services: Services, call: AnyCall, frame: bytes, served: Handle, of_others: Sequence[Any] = ()
) -> FollowUp | None:
    """``of_others``: the responses of all other processes, each of which has told all that it knows."""
    theirs = call.parse_response(call.version, frame)
    known_to_broker = {group.group_id for group in theirs.groups}
    node_id = call.connection.node_id

    def is_served(group: Any) -> bool:
        return services.placements.is_served(group.group_id)

    def is_of_others(group: Any) -> bool:
        """Another process has said what there is to say of it."""
        return bool(services.others) and services.owner_elsewhere(group.group_id) is not None

    def is_shown(group: Any) -> bool:
        """At this broker's port: as in list_groups."""
        if node_id is None or group.group_id in known_to_broker:
            return True
        return services.ports.home_of(services.runtime.partition_of(group.group_id), services.brokers) == node_id

    def merged(ours: Any) -> Any:
        failed = next((each for each in (ours, theirs, *of_others) if each.error_code), None)
        if failed is not None:
            if not any(failed is each for each in (ours, theirs, _NOT_THERE, _NOT_SAID)):
                call.counted_elsewhere(failed)
            return ours._replace(error_code=failed.error_code, groups=())
        here = (*filter(is_served, ours.groups), *filterfalse(is_served, theirs.groups))
        others = (
            group
            for peer, each in zip(services.others, of_others, strict=len(of_others) == len(services.others))
            for group in each.groups
            if services.owner_elsewhere(group.group_id) == peer and is_shown(group)
        )
        return ours._replace(groups=(*filterfalse(is_of_others, here), *others))

    call.amend(merged)
    return served(services, call)


async def _of_all(services: Services, call: AnyCall) -> tuple[bytes, Sequence[ListGroupsResponse]]:
    """The broker's response, and the others', with what the client may see."""
    others = (_at_other(services, call, each) for each in services.others)
    # At once, so before any later request of the client. Gathered, too: whichever fails first, none is left unawaited.
    asked = call.ask_broker()
    found: Sequence[ListGroupsResponse]
    frame, found = await asyncio.gather(asked, asyncio.gather(*others))
    if services.authorizer.absent or not services.authorizer.is_known:  # then nothing is told
        return frame, found
    try:
        if CLUSTER in await granted_of(services, call, [CLUSTER]):
            return frame, found
        needs = {group.group_id: Need(Right.DESCRIBE_GROUP, group.group_id) for each in found for group in each.groups}
        granted = await granted_of(services, call, list(needs.values()))
    except NotSaid:
        return frame, [_NOT_SAID]
    return frame, [
        each._replace(groups=tuple(group for group in each.groups if needs[group.group_id] in granted))
        for each in found
    ]


async def _at_other(services: Services, call: AnyCall, peer: Peer) -> ListGroupsResponse:
    try:
        frame = await at_owner(services, call.connection, peer, call.broker_frame(call.version, call.request))
    except Failed:  # it is not there for a moment, and the list is never a part of it
        return _NOT_THERE
    return cast(ListGroupsResponse, call.parse_response(call.version, frame))
