"""Requests that change offsets of a group whose offsets are in another place, too (:mod:`shim.migration.stores`): what
is waited for before they are decided, and before they are answered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, Final, NamedTuple

from protocol.commit_rows import AllCommitted
from protocol.errors import ErrorCode
from protocol.own.conditional_commit import is_conditional
from shim.api.authorization import AnyCall, Handle
from shim.api.call import Services
from shim.api.hands.when import FollowUp, when
from shim.migration.stores import Stores

_OF_OLD_CONSUMERS: Final = (1, 2)
"""Versions of OffsetCommit that those of 0.8.2 to 1.1 send, who are in ZooKeeper."""

Answer = Callable[[Services, AnyCall, Any, Collection[str]], None]
"""Of the call, its response, and the groups of which what was decided is not where it has to be."""

Look = Callable[[Stores, Sequence[str]], Awaitable[dict[str, ErrorCode]]]
"""At what is there of some groups; gives those that are refused."""


def not_ready(stores: Stores, group_ids: Sequence[str]) -> Awaitable[dict[str, ErrorCode]]:
    return stores.not_ready(group_ids)


def not_deletable(stores: Stores, group_ids: Sequence[str]) -> Awaitable[dict[str, ErrorCode]]:
    return stores.not_deletable(group_ids)


def _never(_: AnyCall) -> bool:
    return False


def _as_one(_: Services, call: AnyCall, response: Any, failed: Collection[str]) -> None:
    if failed:
        call.fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    else:
        call.answer(response)


def all_but_the_failed(_: Services, call: AnyCall, response: Any, failed: Collection[str]) -> None:
    """Of DeleteGroups."""
    call.answer(
        response._replace(
            results=tuple(
                each._replace(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE) if each.group_id in failed else each
                for each in response.results
            )
        )
    )


def _noting_old_consumers(services: Services, call: AnyCall, response: Any, failed: Collection[str]) -> None:
    """They commit as nobody in no generation."""
    _as_one(services, call, response, failed)
    if call.version not in _OF_OLD_CONSUMERS or failed:
        return
    if call.request.member_id or call.request.generation_id_or_member_epoch >= 0:
        return
    if isinstance(response, AllCommitted):
        response = response.response()
    committed = [
        (topic.name, each.partition_index)
        for topic in response.topics
        for each in topic.partitions
        if not each.error_code
    ]
    services.stores.committed_by_none(call.request.group_id, committed)


class Change(NamedTuple):
    """How one group's offsets are changed by the requests of an API. ``look``: at what is there before, where that is
    not known already, or ``looks_always``. ``is_transactional``: not all places take that. ``answer``: when it is known
    where it is."""

    look: Look = not_ready
    looks_always: Callable[[AnyCall], bool] = _never
    is_transactional: bool = False
    answer: Answer = _as_one


COMMIT: Final = Change(
    # A condition would be held against an older offset than is there.
    looks_always=lambda call: is_conditional(call.request),
    answer=_noting_old_consumers,
)
TXN_COMMIT: Final = Change(is_transactional=True)
DELETION: Final = Change(not_deletable, looks_always=lambda _: True)
"""Of an offset that the log does not have yet it would have nothing to delete."""


def change_in_stores(change: Change, served: Handle, services: Services, call: AnyCall) -> FollowUp | None:
    """About one group."""
    group_id = call.request.group_id
    if change.is_transactional and not services.stores.takes_transactions(group_id):
        call.fail(ErrorCode.GROUP_AUTHORIZATION_FAILED)  # at which clients abort, and no more
        return None
    if not change.looks_always(call) and services.stores.is_ready(group_id):
        return told_after_stores(services, call, [group_id], served, change.answer)

    def ready(refused: dict[str, ErrorCode]) -> FollowUp | None:
        if refused:
            call.fail(refused[group_id])
            return None
        return told_after_stores(services, call, [group_id], served, change.answer)

    return when(call, change.look(services.stores, [group_id]), ready)


def told_after_stores(
    services: Services, call: AnyCall, group_ids: Sequence[str], served: Handle, answer: Answer
) -> FollowUp:
    """Have it decided, now; it is answered when what it has changed is where else that has to be, or cannot be."""
    decided: asyncio.Future[tuple[Any, Awaitable[list[str]]]] = asyncio.get_running_loop().create_future()

    def held(response: Any) -> None:
        if not decided.done():  # it is when the client has gone
            # At once: what has been decided by now is what is to be there.
            decided.set_result((response, services.stores.after(group_ids)))

    async def answered(following: FollowUp | None) -> None:
        if following is not None:
            await following
        response, told = await decided
        answer(services, call, response, await told)

    call.hold(held)
    return answered(served(services, call))
