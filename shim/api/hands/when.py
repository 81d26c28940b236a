"""A request that cannot be begun with yet."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, TypeVar

from shim.api.authorization import AnyCall, Handle
from shim.api.call import Services

Known = TypeVar("Known")

FollowUp = Coroutine[Any, Any, None]


def when(call: AnyCall, known: Awaitable[Known], go_on: Callable[[Known], FollowUp | None]) -> FollowUp:
    """For what a handler returns: the connection's later requests wait until something is known, and this one has been
    begun with."""

    async def following() -> None:
        try:
            found = await known
        finally:
            # Nothing is taken before this turn of the loop is over.
            call.connection.resume_requests()
        pending = go_on(found)
        if pending is not None:
            await pending

    call.connection.pause_requests()
    return following()


def at_their_steps(names: Callable[[AnyCall], Iterable[str]], handle: Handle) -> Handle:
    """The handler, where it goes by the steps of these groups: what of a request has to wait is decided at the same
    steps, or refused for now."""

    def begun(services: Services, call: AnyCall) -> FollowUp | None:
        following = handle(services, call)
        if following is not None:
            call.decided_at(services.placements.steps_of(names(call)))
        return following

    return begun
