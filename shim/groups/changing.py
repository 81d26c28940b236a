"""Changes of a group's offsets at the word of whoever looks after it, decided where the group's own clients have theirs
decided: by the shim's coordinator of a group that it serves, by the cluster's of one that is passed through."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from protocol.errors import ErrorCode
from shim.coordinator import GroupCoordinator, Outcome
from shim.groups.refusal import refusal
from shim.groups.words import NotCertain, Refused
from shim.migration.hands.placements import Placements, Whose
from shim.migration.stores import Stores
from shim.offsets.store import StoreError
from shim.runtime import Runtime
from shim.runtime.own_ticket import OwnTicket

log = logging.getLogger(__name__)

_ALARM_SECONDS: Final = 3.0


class Changing:
    """For the event loop."""

    def __init__(self, runtime: Runtime, placements: Placements, stores: Stores) -> None:
        self._runtime = runtime
        self._placements = placements
        self._stores = stores

    async def decided(self, group: str, operation: Callable[[GroupCoordinator, int, Any], Outcome]) -> Any:
        """What the group's coordinator answers, once that is durable, and where else the group's step has it be. Raises
        Refused where it does not decide, and NotCertain where nobody knows what becomes of it."""
        ticket = _Told(lambda: self._stores.after([group]))
        self._runtime.submit(self._runtime.partition_of(group), operation, ticket)
        answer = await ticket.answered
        if isinstance(answer, ErrorCode):
            if answer in _UNCERTAIN:
                raise NotCertain(f"group {group}: whether it was written is not known: the log does not answer")
            raise refusal(group, answer)
        if ticket.in_stores is not None and await ticket.in_stores:
            raise NotCertain(f"group {group}: it is in the log, and not where else it has to be: {self._why(group)}")
        return answer

    async def told_in_cluster(self, group: str) -> None:
        """Where an alarm asks which of two offsets are right, wait until the cluster has what was decided here: whoever
        looks next is told what is left of it. Not for long, and whatever comes of it: it is tried again."""
        mirror = self._stores.mirror
        if not mirror.alarm(group):
            return
        try:
            async with asyncio.timeout(_ALARM_SECONDS):
                await mirror.fed(group)
        except (StoreError, TimeoutError) as error:
            log.info("group %s: the cluster does not have its offsets yet, and the alarm stays: %r", group, error)

    def _why(self, group: str) -> str:
        return self._stores.why(group) or "the other store does not answer"

    @asynccontextmanager
    async def passing(self, group: str) -> AsyncIterator[None]:
        """Something that changes its offsets is on its way to the cluster: nobody takes the group over meanwhile.
        Raises Refused where somebody is about to, or another shim may have."""
        if not self._placements.surely_here([group]) and (error := await self._placements.confirmed_here([group])):
            raise refusal(group, error)
        if self._placements.of(group) is not Whose.PASSED_THROUGH:
            raise Refused(f"group {group} changes hands now")
        on_its_way: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._placements.passing([group], on_its_way)
        try:
            yield
        finally:
            on_its_way.set_result(b"")


class _Told(OwnTicket[Any]):
    """Has the other places be told at once, so that what has been decided by now is what is to be there."""

    def __init__(self, after: Callable[[], Awaitable[list[str]]]) -> None:
        super().__init__()
        self._after = after
        self.in_stores: Awaitable[list[str]] | None = None

    def answer(self, response: Any) -> None:
        self.in_stores = self._after()
        super().answer(response)


_UNCERTAIN = frozenset(
    # The last is of those that waited when a write failed, or the shim stopped: the records may be on disk.
    {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NOT_COORDINATOR}
)
