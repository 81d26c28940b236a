"""Requests about one group."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from protocol.errors import ErrorCode
from protocol.group_kinds import CLASSIC, OTHER_KINDS, Kind
from shim.api.authorization import AnyCall, Handle, Policy, authorized, authorized_for_groups
from shim.api.call import Services
from shim.api.hands.gathering import Gathers
from shim.api.hands.other_stores import Change, change_in_stores
from shim.api.hands.passing import Newer, Passing, passed
from shim.api.hands.when import FollowUp, at_their_steps, when
from shim.migration.hands.placements import SERVED, Whose

_JOINING: Final = 0
"""The epoch in heartbeats of other kinds than the classic one."""


class OneGroup(NamedTuple):
    """What becomes of requests about one group, in whosever hands that is.

    ``opens``: of which kind the group is that they make where there is none. ``change``: how they change its offsets
    where these are in another place, too; None: they change none. ``gathers``: what they are to a group whose members
    are to join again. ``seen``: see :class:`Passing`. ``is_harmless``: they tell no offset, change none, and give
    nobody partitions: no harm in passing them on where another shim may have taken the group over. ``kept``, where an
    answer may take minutes, as others have to join first, or the leader to assign: what is kept of a request meanwhile.
    ``newer``: by version that brokers have dropped.
    """

    opens: Kind | None = None
    change: Change | None = None
    gathers: Gathers | None = None
    seen: Callable[[Any], tuple[str, int]] | None = None
    is_harmless: bool = False
    kept: Callable[[Any], Any] | None = None
    newer: Mapping[int, Newer] = {}


def by_generation(request: Any) -> tuple[str, int]:
    """``seen`` of the classic protocol."""
    return request.member_id, request.generation_id


def by_epoch(request: Any) -> tuple[str, int]:
    """Of other protocols."""
    return request.member_id, request.member_epoch


def by_either(request: Any) -> tuple[str, int]:
    """Of any protocol."""
    return request.member_id, request.generation_id_or_member_epoch


def about_one(its: OneGroup, policy: Policy, handle: Handle) -> Handle:
    """The handler; ``handle``: for a group that the shim serves."""
    gathers, opens, change = its.gathers, its.opens, its.change
    # Heartbeats of other kinds make members, and give them partitions.
    is_waited_for = change is not None or opens in OTHER_KINDS
    passing = Passing(its.newer, its.seen, is_waited_for, is_held_back=its.kept is not None)
    served = authorized(policy, handle)

    def route(services: Services, call: AnyCall) -> FollowUp | None:
        group_id = call.request.group_id
        whose = services.placements.of(group_id)
        if whose is Whose.SERVED_WITH_STORES and changing is not None:
            return changing(services, call)
        if gathers is not None and (gathering := services.placements.gathering(group_id)) is not None:
            following = gathers(services, call, gathering, begin)
            if following is not None:
                return following
        if whose in SERVED:
            return served(services, call)
        if whose is Whose.CHANGING:
            call.fail(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            return None
        if whose is Whose.UNKNOWN and opening is not None and _makes_one(opens, call.request):
            return opening(services, call)
        return pass_on(services, call, begin)

    def pass_on(services: Services, call: AnyCall, otherwise: Handle) -> FollowUp | None:
        """Once it is certain that no other shim has taken the group over. ``otherwise``: for one that is in other hands
        by then."""
        group_id = call.request.group_id
        if its.is_harmless or services.placements.surely_here([group_id]):
            return passed(services, call, passing)

        def confirmed(error: ErrorCode) -> FollowUp | None:
            if error:
                call.fail(error)
                return None
            if services.placements.of(group_id) in (Whose.PASSED_THROUGH, Whose.UNKNOWN):
                return passed(services, call, passing)
            return otherwise(services, call)

        return when(call, services.placements.confirmed_here([group_id]), confirmed)

    def find_out(services: Services, call: AnyCall) -> FollowUp:
        """For a group that nobody has asked for: whose it is, and then what follows."""
        group_id = call.request.group_id

        def found(error: ErrorCode) -> FollowUp | None:
            whose = services.placements.of(group_id)
            to_the_cluster = whose is Whose.PASSED_THROUGH or (
                whose is Whose.UNKNOWN and opens is not CLASSIC  # it does not have that protocol
            )
            if error or not (whose in SERVED or to_the_cluster):
                call.fail(error or ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
                return None
            if to_the_cluster:
                return pass_on(services, call, find_out)
            known = handle
            if whose is Whose.SERVED_WITH_STORES and change is not None:
                known = partial(change_in_stores, change, handle)
            return at_its_step(known)(services, call)

        return when(call, services.first_contact.find_out(group_id, opens), found)

    def at_its_step(follows: Handle) -> Handle:
        """Of what changes no offset nobody cares."""
        return follows if change is None else at_their_steps(_its_group, follows)

    changing = None if change is None else authorized_for_groups(policy, partial(change_in_stores, change, served))
    opening = None if opens is None else authorized(policy, find_out)
    begin = at_its_step(route)
    return begin


def _its_group(call: AnyCall) -> tuple[str]:
    return (call.request.group_id,)


def _makes_one(opens: Kind | None, request: Any) -> bool:
    """Whether it makes a group that is not there; brokers refuse others, and so the cluster does."""
    return opens is CLASSIC or (bool(request.group_id) and request.member_epoch == _JOINING)
