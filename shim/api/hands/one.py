"""Requests about one group."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from protocol.group_kinds import CLASSIC, OTHER_KINDS, Kind
from shim.api.authorization import AnyCall, Handle, Policy, authorized_for_groups
from shim.api.call import Services
from shim.api.hands.other_stores import change_in_stores
from shim.api.hands.passing import CHANGES_OFFSETS, passed
from shim.api.hands.when import FollowUp, when
from shim.migration.hands.gathering import Gathering
from shim.migration.hands.placements import SERVED, Whose

_OPENS: Final[Mapping[ApiKey, Kind]] = {
    **dict.fromkeys((ApiKey.JOIN_GROUP, ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT), CLASSIC),
    **{ApiKey(kind.heartbeat.key): kind for kind in OTHER_KINDS},
}
"""Requests that make a group where there is none."""
_JOINING: Final = 0
"""The epoch in heartbeats of other kinds than the classic one."""
_AT_ONCE: Final = frozenset({ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP})
"""They tell no offset, change none, and give nobody partitions: no harm in passing them on where another shim may have
taken the group over."""


def about_one(key: ApiKey, policy: Policy, served: Handle, opening: Handle) -> Handle:
    """The handler. ``served``: for a group that the shim serves; ``opening``: for one that nobody has asked for."""
    gathers = _GATHERS.get(key)

    def change(services: Services, call: AnyCall) -> FollowUp | None:
        return change_in_stores(services, call, key, served)

    in_stores = authorized_for_groups(policy, change)

    def route(services: Services, call: AnyCall) -> FollowUp | None:
        group_id = call.request.group_id
        whose = services.placements.of(group_id)
        if whose is Whose.SERVED_WITH_STORES and key in CHANGES_OFFSETS:
            return in_stores(services, call)
        if gathers is not None and (gathering := services.placements.gathering(group_id)) is not None:
            following = gathers(services, call, gathering, whose, route)
            if following is not None:
                return following
        if whose in SERVED:
            return served(services, call)
        if whose is Whose.CHANGING:
            call.fail(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            return None
        if whose is Whose.UNKNOWN and _makes_one(key, call.request):
            return opening(services, call)
        return _passed_on(services, call, key, route)

    return route


def _makes_one(key: ApiKey, request: Any) -> bool:
    """Whether it makes a group that is not there; brokers refuse others, and so the cluster does."""
    if (opens := _OPENS.get(key)) is None:
        return False
    return opens is CLASSIC or (bool(request.group_id) and request.member_epoch == _JOINING)


def _passed_on(services: Services, call: AnyCall, key: ApiKey, otherwise: Handle) -> FollowUp | None:
    """Once it is certain that no other shim has taken the group over. ``otherwise``: for one that is in other hands by
    then."""
    group_id = call.request.group_id
    if key in _AT_ONCE or services.placements.surely_here([group_id]):
        return passed(services, call, key)

    def confirmed(error: ErrorCode) -> FollowUp | None:
        if error:
            call.fail(error)
            return None
        if services.placements.of(group_id) in (Whose.PASSED_THROUGH, Whose.UNKNOWN):
            return passed(services, call, key)
        return otherwise(services, call)

    return when(call, services.placements.confirmed_here([group_id]), confirmed)


def finding_out(key: ApiKey, handle: Handle) -> Handle:
    """For a group that nobody has asked for: whose it is, and then what follows."""

    def find_out(services: Services, call: AnyCall) -> FollowUp:
        group_id = call.request.group_id

        def found(error: ErrorCode) -> FollowUp | None:
            whose = services.placements.of(group_id)
            to_the_cluster = whose is Whose.PASSED_THROUGH or (
                whose is Whose.UNKNOWN and _OPENS[key] is not CLASSIC  # it does not have that protocol
            )
            if error or not (whose in SERVED or to_the_cluster):
                call.fail(error or ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
                return None
            if to_the_cluster:
                return _passed_on(services, call, key, find_out)
            if whose is Whose.SERVED_WITH_STORES and key in CHANGES_OFFSETS:
                return change_in_stores(services, call, key, handle)
            return handle(services, call)

        return when(call, services.placements.find_out(group_id, _OPENS[key]), found)

    return find_out


# --- a group that changes hands --------------------------------------------------------------------------------------


def _told_to_join(services: Services, call: AnyCall, gathering: Gathering, whose: Whose, _: Handle) -> FollowUp | None:
    """A member that is not there yet is told of a rebalance, once it is known that it is one."""
    if not gathering.is_expected(call.request.member_id):
        return None
    call.amend(lambda response: response._replace(error_code=response.error_code or ErrorCode.REBALANCE_IN_PROGRESS))
    return passed(services, call, ApiKey.HEARTBEAT) if whose is Whose.PASSED_THROUGH else None


def _held(services: Services, call: AnyCall, gathering: Gathering, _: Whose, route: Handle) -> FollowUp:
    return when(call, gathering.joined(call.request), lambda _: route(services, call))


def _leaving(services: Services, call: AnyCall, gathering: Gathering, _whose: Whose, _route: Handle) -> FollowUp | None:
    request = call.request
    gathering.gone(request.member_id)
    for each in request.members:
        gathering.gone(each.member_id, each.group_instance_id)
    return None


_Gathers = Callable[[Services, AnyCall, Gathering, Whose, Handle], FollowUp | None]
_GATHERS: Final[Mapping[ApiKey, _Gathers]] = {
    ApiKey.HEARTBEAT: _told_to_join,
    ApiKey.JOIN_GROUP: _held,
    ApiKey.LEAVE_GROUP: _leaving,
}
