"""ListGroups: each group by whose it is."""

from __future__ import annotations

from itertools import filterfalse
from typing import Any

from shim.api.authorization import AnyCall, Handle
from shim.api.call import Services
from shim.api.hands.when import FollowUp, when


def listing(served: Handle) -> Handle:
    def route(services: Services, call: AnyCall) -> FollowUp:
        return when(call, call.ask_broker(), lambda frame: _listed(services, call, frame, served))

    return route


def _listed(services: Services, call: AnyCall, frame: bytes, served: Handle) -> FollowUp | None:
    theirs = call.parse_response(call.version, frame)

    def is_served(group: Any) -> bool:
        return services.placements.is_served(group.group_id)

    def merged(ours: Any) -> Any:
        if ours.error_code or theirs.error_code:
            return ours._replace(error_code=ours.error_code or theirs.error_code, groups=())
        return ours._replace(groups=(*filter(is_served, ours.groups), *filterfalse(is_served, theirs.groups)))

    call.amend(merged)
    return served(services, call)
