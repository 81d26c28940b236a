"""What the policies have in common: who is refused, and where refusals stand beside what was decided."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from protocol.errors import ErrorCode
from shim.api.authorization import AnyCall, Granted
from shim.api.call import Part, Services
from shim.api.known_topics import merged
from shim.coordinator import ReadablePartition
from shim.security.rights import Need, Right

NO_GROUP: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
NO_TOPIC: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def divided(right: Right, topics: Iterable[Any], granted: Granted) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Those that may be used, and those that are refused."""
    allowed: list[Any] = []
    refused: list[Any] = []
    for topic in topics:
        (allowed if Need(right, topic.name) in granted else refused).append(topic)
    return tuple(allowed), tuple(refused)


def in_a_brokers_order(names: Sequence[str], refused: Sequence[Any], decided: Sequence[Any]) -> tuple[Any, ...]:
    """What was refused before the coordinator came to it, as the request has it, and then the rest."""
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    first = {topic.name for topic in decided if any(p.error_code == missing for p in topic.partitions)}
    early = merged(refused, [topic for topic in decided if topic.name in first])
    place = {name: position for position, name in reversed(list(enumerate(names)))}
    return (
        *sorted(early, key=lambda topic: place[topic.name]),
        *(topic for topic in decided if topic.name not in first),
    )


def group_needs(right: Right, call: AnyCall) -> list[Need]:
    return [Need(right, call.request.group_id)]


def admit_to_group(right: Right, call: AnyCall, granted: Granted) -> bool:
    if Need(right, call.request.group_id) in granted:
        return True
    call.fail(NO_GROUP)
    return False


async def ask_coordinator(services: Services, partition: int, question: Callable[[ReadablePartition], Any]) -> Any:
    """What the partition's coordinator says, when that is durable, or the error."""
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def told(what: Any) -> None:
        if not answer.done():  # the client may have gone
            answer.set_result(what)

    services.runtime.ask(partition, question, Part(told, lambda error: error))
    return await answer
