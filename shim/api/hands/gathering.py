"""Requests about a group that changes hands, and whose members are to join again: what they are to who waits for that.

Each gives what follows in place of what a request of its kind is to any group; None where that follows all the same.
"""

from __future__ import annotations

from collections.abc import Callable

from protocol.errors import ErrorCode
from shim.api.authorization import AnyCall, Handle
from shim.api.call import Services
from shim.api.hands.when import FollowUp, when
from shim.migration.hands.gathering import Gathering

Gathers = Callable[[Services, AnyCall, Gathering, Handle], FollowUp | None]
"""``Handle``: for the same request once more."""


def told_to_join(_services: Services, call: AnyCall, gathering: Gathering, _again: Handle) -> FollowUp | None:
    """Heartbeat: a member that is not there yet is told of a rebalance, once it is known that it is one."""
    if gathering.is_expected(call.request.member_id):
        call.amend(
            lambda response: response._replace(error_code=response.error_code or ErrorCode.REBALANCE_IN_PROGRESS)
        )
    return None


def held(services: Services, call: AnyCall, gathering: Gathering, again: Handle) -> FollowUp:
    """JoinGroup: it waits for the others."""
    return when(call, gathering.joined(call.request), lambda _: again(services, call))


def leaving(_services: Services, call: AnyCall, gathering: Gathering, _again: Handle) -> FollowUp | None:
    """LeaveGroup: nobody waits for them any more."""
    request = call.request
    gathering.gone(request.member_id)
    for each in request.members:
        gathering.gone(each.member_id, each.group_instance_id)
    return None
