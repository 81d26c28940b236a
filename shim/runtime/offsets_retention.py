"""Has every partition look for expired offsets, every `offsets.retention.check.interval.ms`."""

from __future__ import annotations

import asyncio
import logging
import time
from datetime import UTC, datetime
from typing import Final

from protocol.errors import ErrorCode
from shim.config import Settings
from shim.coordinator import GroupCoordinator, Outcome, RetentionStep
from shim.counted import counted
from shim.runtime.clock import Clock
from shim.runtime.flight import Ticket
from shim.runtime.own_ticket import OwnTicket
from shim.runtime.runtime import Runtime

log = logging.getLogger(__name__)

_DAY_S: Final = 24 * 3600.0

# So much of the loop's time a look takes at most.
_SHARE: Final = 0.2


class OffsetsRetention:
    """One partition at a time, a step at a time, each an ordinary request to its coordinator.

    What has expired is what has by both clocks, the shim's own and the wall clock: see :class:`Clock`.
    """

    def __init__(self, runtime: Runtime, settings: Settings, clock: Clock) -> None:
        self._runtime = runtime
        self._clock = clock
        self._interval_s = settings.offsets_retention_check_interval_ms / 1000
        self._minutes = settings.offsets_retention_minutes
        self._changed = asyncio.Event()
        self._started = clock.now()

    def take_settings(self, settings: Settings) -> None:
        """The next look comes one interval from now on."""
        self._interval_s = settings.offsets_retention_check_interval_ms / 1000
        self._minutes = settings.offsets_retention_minutes
        self._changed.set()

    async def run(self) -> None:
        """For ever; the first look comes one interval after the start, as a broker's does; and one later still where
        that is told to whoever may set the clock right."""
        await self._pass_interval()
        if await self._tells_of_the_clock():
            await self._pass_interval()
        while True:
            for number in range(self._runtime.num_partitions):
                await self.check(number)
            await self._pass_interval()

    async def _tells_of_the_clock(self) -> bool:
        """Whether, by the clock, nothing was committed before the start for so long that all would have expired: the
        shim was not used, or the clock is ahead."""
        now = self._clock.surely_past()
        newest = await self._newest_commit(now - self._minutes * 60_000)
        if newest is None or now - newest < self._minutes * 60_000:
            return False
        log.warning(
            "it is %s by this machine's clock, and before the start the newest offset was committed at %s, more than "
            "offsets.retention.minutes (%d) ago: offsets of groups without members are deleted in %g s; if the clock "
            "is wrong set it, or stop the shim, before",
            *(_utc(now), _utc(newest), self._minutes, self._interval_s),
        )
        return True

    async def _newest_commit(self, recent: int) -> int | None:
        """When that was, before the start, in groups without members; or when any was that came later than ``recent``.
        None where there is no offset. What was committed since has the time of the clock that is in question. Who still
        commits overwrites what there was, but where a partition stands still, which says nothing of the others."""
        newest: int | None = None
        for number in range(self._runtime.num_partitions):
            coordinator = self._runtime.coordinator(number)
            if coordinator is None:
                continue
            for group in list(coordinator.group_ids()):
                is_without_members = not coordinator.presences(group)
                for each in coordinator.commit_times(group).values():
                    counts = each < self._started and (is_without_members or each > recent)
                    if counts and (newest is None or each > newest):
                        newest = each
                if newest is not None and newest > recent:
                    return newest
                await asyncio.sleep(0)  # clients have their turns
        return newest

    async def check(self, number: int) -> None:
        """Look at one partition, if it is served; a failure ends the look, and the next one begins anew."""
        offsets = groups = 0
        more = True
        while more:
            ticket: OwnTicket[RetentionStep] = OwnTicket()
            begun = time.perf_counter()
            self._runtime.submit(number, self._operation, ticket, after_flight=False)
            # Also between the last step of one partition and the first one of the next.
            await asyncio.sleep((time.perf_counter() - begun) / _SHARE)
            # What was found is durable before more is looked for: nothing piles up while the disk is slow.
            answer = await ticket.answered
            if isinstance(answer, ErrorCode):
                break
            offsets, groups, more = offsets + answer.offsets, groups + answer.groups, answer.more
        if offsets or groups:
            log.info(
                "%s: deleted %s (offsets.retention.minutes is %d), and %s",
                *(self._runtime.name_of(number), counted(offsets, "expired offset"), self._minutes),
                counted(groups, "empty group"),
            )

    def _operation(self, coordinator: GroupCoordinator, now: int, ticket: Ticket) -> Outcome:
        return coordinator.check_retention(min(now, self._clock.surely_past()), ticket)

    async def _pass_interval(self) -> None:
        left = self._interval_s
        while left > 0:
            try:
                # No event loop waits for as long as the setting may ask for.
                async with asyncio.timeout(min(left, _DAY_S)):
                    await self._changed.wait()
            except TimeoutError:
                left -= _DAY_S
            else:
                self._changed.clear()
                left = self._interval_s


def _utc(time_ms: int) -> str:
    """Of any number: a client may have said it (OffsetCommit v1)."""
    try:
        return f"{datetime.fromtimestamp(time_ms // 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms since 1970"
