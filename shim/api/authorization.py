"""Before a request is decided: what may this client do? The cluster says so, and refuses in the broker's own words.

What is known costs a look into the connection's answers of late. Otherwise the cluster is asked, over the connection's
own link, and the connection's later requests wait, as they wait for each other in a broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from protocol.errors import ErrorCode
from shim.api.call import Call, Connection, Services
from shim.security.probing import NotSaid, granted
from shim.security.rights import RIGHTS_ON_GROUPS, Need, Right

AnyCall: TypeAlias = Call[Any, Any]
Handle: TypeAlias = Callable[[Services, AnyCall], Coroutine[Any, Any, None] | None]


@dataclass(frozen=True, slots=True)
class Granted:
    """What the cluster grants of what it was ``asked`` for."""

    needs: Collection[Need] = ()
    asked: Collection[Need] = ()

    def __contains__(self, need: Need) -> bool:
        return need in self.needs

    def __or__(self, other: Granted) -> Granted:
        return Granted({*self.needs, *other.needs}, {*self.asked, *other.asked})


@dataclass(frozen=True, slots=True)
class Policy:
    """What the requests of one API need, and what becomes of one when not all of it is granted.

    ``admit`` answers what is refused. It gives whether something is left: that is the call's request from then on, and
    what was refused is added to its response. ``found``, where rights are needed to what the shim finds: what these
    are, given those that are granted already; None when it has answered. ``looks``: whether a request is one of these.
    """

    needs: Callable[[AnyCall], Sequence[Need]]
    admit: Callable[[AnyCall, Granted], bool]
    looks: Callable[[AnyCall], bool] | None = None
    found: Callable[[Services, AnyCall, Granted], Coroutine[Any, Any, Sequence[Need] | None]] | None = None


def topic_needs(right: Right, topics: Iterable[Any]) -> list[Need]:
    return [Need(right, topic.name) for topic in topics]


def commit_needs(request: Any) -> list[Need]:
    """Of OffsetCommit: READ on the group and on each topic."""
    return [Need(Right.READ_GROUP, request.group_id), *topic_needs(Right.READ_TOPIC, request.topics)]


def authorized(policy: Policy, handle: Handle) -> Handle:
    """The handler, for what the client may do."""
    looks = policy.looks

    def authorize(services: Services, call: AnyCall) -> Coroutine[Any, Any, None] | None:
        if services.authorizer.absent:
            return handle(services, call)
        if not services.authorizer.is_known:
            call.fail(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            return None
        needs = policy.needs(call)
        if may_at_once(services, call.connection, needs) and (looks is None or not looks(call)):
            return handle(services, call)
        call.connection.pause_requests()
        return _when_known(services, call, policy, needs, handle)

    return authorize


def authorized_for_groups(policy: Policy, handle: Handle) -> Handle:
    """As :func:`authorized`, as far as rights on groups go: for what is looked at before the request itself is. The
    handler has the rest asked."""

    def needs(call: AnyCall) -> list[Need]:
        return [each for each in policy.needs(call) if each.right in RIGHTS_ON_GROUPS]

    def admit(call: AnyCall, granted_: Granted) -> bool:
        others = Granted([each for each in policy.needs(call) if each.right not in RIGHTS_ON_GROUPS])
        return policy.admit(call, granted_ | others)

    return authorized(Policy(needs, admit), handle)


def may_at_once(services: Services, connection: Connection, needs: Iterable[Need]) -> bool:
    """Where there is an authorizer: whether nobody has to be asked, as all of it was granted a moment ago."""
    return services.authorizer.can_be_asked and connection.rights.has_all(needs, asyncio.get_running_loop().time())


async def _when_known(services: Services, call: AnyCall, policy: Policy, needs: Sequence[Need], handle: Handle) -> None:
    try:
        allowed = await granted_of(services, call, needs)
        if policy.found is not None and policy.looks is not None and policy.looks(call):
            found = await policy.found(services, call, allowed)
            if found is None:
                return
            allowed |= await granted_of(services, call, found)
    except NotSaid:
        call.fail(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return
    finally:
        # No request is taken before the handler has begun with this one: that happens in the same turn of the loop.
        call.connection.resume_requests()
    if policy.admit(call, allowed):
        pending = handle(services, call)
        if pending is not None:
            await pending


async def granted_of(services: Services, call: AnyCall, needs: Sequence[Need]) -> Granted:
    """Raises NotSaid."""
    if not services.authorizer.can_be_asked:
        return Granted((), needs)
    clock = asyncio.get_running_loop().time
    return Granted(await granted(call.connection.rights, needs, call.ask_as_client, clock), needs)
