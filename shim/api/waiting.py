"""A request that cannot be decided at once; those behind it on its connection wait, as they do in a broker."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from protocol.errors import ErrorCode
from shim.api.call import Call, Services
from shim.following import TopicInDoubt

P = ParamSpec("P")
AnyCall = TypeVar("AnyCall", bound=Call[Any, Any])

_FollowUp: TypeAlias = Coroutine[Any, Any, None]


def while_requests_are_paused(
    decide: Callable[Concatenate[Services, AnyCall, P], Coroutine[Any, Any, _FollowUp | None]],
) -> Callable[Concatenate[Services, AnyCall, P], _FollowUp]:
    """For what a handler returns: no further request of the connection is taken from the call on until ``decide`` is
    over. What that gives, as a handler may, goes on after that.

    Where it is not known in time whether a topic is the one that it was, the answer is COORDINATOR_LOAD_IN_PROGRESS,
    at which clients ask again.
    """

    @wraps(decide)
    def paused(services: Services, call: AnyCall, /, *args: P.args, **kwargs: P.kwargs) -> _FollowUp:
        async def decided() -> None:
            follow_up = None
            try:
                follow_up = await decide(services, call, *args, **kwargs)
            except TopicInDoubt:
                call.fail(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            finally:
                call.connection.resume_requests()
            if follow_up is not None:
                await follow_up

        call.connection.pause_requests()
        return decided()

    return paused
