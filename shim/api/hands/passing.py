"""Requests about groups that are passed through: to the broker behind the connection, as this client."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, NamedTuple

from shim.api.authorization import AnyCall
from shim.api.call import Services
from shim.api.hands.when import FollowUp


class Newer(NamedTuple):
    """For a version that brokers have dropped: what is sent in its place, and what becomes of the answer."""

    version: int
    request: Callable[[Any], Any] = lambda request: request
    response: Callable[[Any], Any] = lambda response: response


class Passing(NamedTuple):
    """How requests of an API are passed on. ``newer``: by version that brokers have dropped. ``seen``: of a request, a
    member's id and its generation, by which it is known that it comes through the shim. ``is_waited_for``: it is to be
    answered before a group goes into other hands. ``is_held_back``: a broker may have a reason to answer late."""

    newer: Mapping[int, Newer]
    seen: Callable[[Any], tuple[str, int]] | None = None
    is_waited_for: bool = False
    is_held_back: bool = False


def passed(services: Services, call: AnyCall, its: Passing) -> FollowUp:
    """To be called before the handler returns, or while requests are paused."""
    request = call.request
    if its.seen is not None:
        services.placements.members.saw(request.group_id, *its.seen(request))
    return passed_all(services, call, its, [request.group_id])


def passed_all(services: Services, call: AnyCall, its: Passing, group_ids: Collection[str]) -> FollowUp:
    """As :func:`passed`, a request about several."""
    newer = its.newer.get(call.version) or Newer(call.version)
    frame = call.broker_frame(newer.version, newer.request(call.request))
    asked = asyncio.ensure_future(call.connection.ask(frame, prompt=not its.is_held_back))
    if its.is_waited_for:
        services.placements.passing(group_ids, asked)
    return _answered(call, newer, asked)


async def _answered(call: AnyCall, newer: Newer, asked: Awaitable[bytes]) -> None:
    frame = await asked
    if newer.version == call.version and not call.is_amended:
        call.answer_frame(frame)
    else:
        call.answer(newer.response(call.parse_response(newer.version, frame)))
