"""Where partitions end, for those who want to know again and again."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from protocol.topic_partition import Partition
from shim.logged_once import LoggedOnce
from shim.upstream.errors import UpstreamError
from shim.upstream.log_ends import Asked, NotLed, log_ends

log = logging.getLogger(__name__)

_KEPT_INTERVALS: Final = 10

_TROUBLE: Final = "where partitions end cannot be asked"


class LogEnds:
    """What brokers have said is believed for an interval. Nobody is asked while nobody wants to know.

    For the event loop.
    """

    def __init__(self, brokers: Asked, interval_seconds: float) -> None:
        self._brokers = brokers
        self._interval_s = interval_seconds
        self._turn = asyncio.Lock()
        self._asking: set[asyncio.Task[None]] = set()
        self._ends: dict[Partition, int] = {}
        self._asked_at: dict[Partition, float] = {}
        self._trouble = LoggedOnce(log)
        self.last_asked_at: float | None = None
        """When brokers were asked last, of time.monotonic()."""

    def known(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """The high watermarks that brokers have told of, newly or long ago; those of which none has are missing."""
        return {at: self._ends[at] for at in partitions if at in self._ends}

    async def of(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """As :meth:`known`, once brokers were asked for those that are out of date. What fails is logged, once, and not
        tried again before its time."""
        asking = asyncio.get_running_loop().create_task(self._ask_for_due(partitions))
        self._asking.add(asking)
        asking.add_done_callback(self._asking.discard)
        # Whoever waits may lose patience: the brokers' answer is for the next one then.
        await asyncio.shield(asking)
        return self.known(partitions)

    async def _ask_for_due(self, partitions: Collection[Partition]) -> None:
        async with self._turn:
            now = time.monotonic()
            due = [at for at in partitions if now - self._asked_at.get(at, -self._interval_s) >= self._interval_s]
            if due:
                self._asked_at.update(dict.fromkeys(due, now))
                self.last_asked_at = now
                self._forget_old(now)
                await self._ask(due)

    def _forget_old(self, now: float) -> None:
        for at in [at for at, asked in self._asked_at.items() if now - asked > _KEPT_INTERVALS * self._interval_s]:
            del self._asked_at[at]
            self._ends.pop(at, None)

    async def _ask(self, partitions: Sequence[Partition]) -> None:
        try:
            answers = await log_ends(self._brokers, partitions)
        except UpstreamError as error:
            self._trouble.failed(_TROUBLE, error)
            return
        failed = None
        for at, end in answers.items():
            if isinstance(end, NotLed):
                self._ends.pop(at, None)
            elif isinstance(end, UpstreamError):
                failed = end
            else:
                self._ends[at] = end
        if failed is not None:
            self._trouble.failed(_TROUBLE, failed)
        else:
            self._trouble.went_well(_TROUBLE)

    def close(self) -> None:
        for asking in self._asking:
            asking.cancel()
