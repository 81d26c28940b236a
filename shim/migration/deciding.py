"""What the shim asks of a group's coordinator itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shim.coordinator import GroupCoordinator, Outcome, ReadablePartition
from shim.migration.words import Refused
from shim.runtime import Runtime
from shim.runtime.own_ticket import OwnTicket


def coordinator_of(runtime: Runtime, group: str) -> GroupCoordinator:
    """The group's. Raises Refused while there is none here."""
    number = runtime.partition_of(group)
    coordinator = runtime.coordinator(number)
    if coordinator is None:
        raise Refused(f"the partition of group {group} is {runtime.where_it_is(number)}")
    return coordinator


async def decide(runtime: Runtime, group: str, operation: Callable[[GroupCoordinator, int, Any], Outcome]) -> Any:
    """What the group's coordinator answers, once that is durable; or the ErrorCode for which there is none."""
    decided: OwnTicket[Any] = OwnTicket()
    runtime.submit(runtime.partition_of(group), operation, decided)
    return await decided.answered


async def ask(runtime: Runtime, partition_number: int, question: Callable[[ReadablePartition], Any]) -> Any:
    """Likewise, a question that decides nothing."""
    asked: OwnTicket[Any] = OwnTicket()
    runtime.ask(partition_number, question, asked)
    return await asked.answered
