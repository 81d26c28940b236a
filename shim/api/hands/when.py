"""A request that cannot be begun with yet."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from shim.api.authorization import AnyCall

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
