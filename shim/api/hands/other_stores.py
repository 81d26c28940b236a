"""Requests that change offsets of a group whose offsets are in another place, too (:mod:`shim.migration.stores`): what
is waited for before they are decided, and before they are answered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import Any, Final

from protocol.apis import ApiKey
from protocol.commit_rows import AllCommitted
from protocol.errors import ErrorCode
from protocol.own.conditional_commit import is_conditional
from shim.api.authorization import AnyCall, Handle
from shim.api.call import Services
from shim.api.hands.when import FollowUp, when

_OF_OLD_CONSUMERS: Final = (1, 2)
"""Versions of OffsetCommit that those of 0.8.2 to 1.1 send, who are in ZooKeeper."""

Answer = Callable[[AnyCall, Any, Collection[str]], None]
"""Of the call, its response, and the groups of which what was decided is not where it has to be."""


def change_in_stores(services: Services, call: AnyCall, key: ApiKey, served: Handle) -> FollowUp | None:
    """About one group."""
    group_id = call.request.group_id
    if key == ApiKey.TXN_OFFSET_COMMIT and not services.stores.takes_transactions(group_id):
        call.fail(ErrorCode.GROUP_AUTHORIZATION_FAILED)  # at which clients abort, and no more
        return None
    of_old_consumers = key == ApiKey.OFFSET_COMMIT and call.version in _OF_OLD_CONSUMERS
    answer: Answer = partial(_noting_old_consumers, services) if of_old_consumers else _as_one
    # Of an offset that the log does not have yet it would have nothing to delete, and a condition would be held against
    # an older one.
    looks_first = key == ApiKey.OFFSET_DELETE or (key == ApiKey.OFFSET_COMMIT and is_conditional(call.request))
    if not looks_first and services.stores.is_ready(group_id):
        return told_after_stores(services, call, [group_id], served, answer)

    def ready(refused: dict[str, ErrorCode]) -> FollowUp | None:
        if refused:
            call.fail(refused[group_id])
            return None
        return told_after_stores(services, call, [group_id], served, answer)

    looked = services.stores.not_deletable if key == ApiKey.OFFSET_DELETE else services.stores.not_ready
    return when(call, looked([group_id]), ready)


def told_after_stores(
    services: Services, call: AnyCall, group_ids: Sequence[str], served: Handle, answer: Answer
) -> FollowUp:
    """Have it decided, now; it is answered when what it has changed is where else that has to be, or cannot be."""
    decided: asyncio.Future[tuple[Any, Awaitable[list[str]]]] = asyncio.get_running_loop().create_future()

    def held(response: Any) -> None:
        if not decided.done():  # it is when the client has gone
            # At once: what has been decided by now is what is to be there.
            decided.set_result((response, services.stores.after(group_ids)))

    call.hold(held)
    return _answered_when_told(call, served(services, call), decided, answer)


async def _answered_when_told(
    call: AnyCall,
    following: FollowUp | None,
    decided: asyncio.Future[tuple[Any, Awaitable[list[str]]]],
    answer: Answer,
) -> None:
    if following is not None:
        await following
    response, told = await decided
    answer(call, response, await told)


def _as_one(call: AnyCall, response: Any, failed: Collection[str]) -> None:
    if failed:
        call.fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    else:
        call.answer(response)


def _noting_old_consumers(services: Services, call: AnyCall, response: Any, failed: Collection[str]) -> None:
    """They commit as nobody in no generation."""
    _as_one(call, response, failed)
    if failed or call.request.member_id or call.request.generation_id_or_member_epoch >= 0:
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
