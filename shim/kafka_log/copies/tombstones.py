"""For how long what was read of the offsets' topic may be gone on with.

Compaction removes a tombstone some time after it has removed what that deletes. Who has read of a key before, and goes
on behind both, would have a deleted offset rise again. Brokers ask nobody who reads, so time is all there is: it is
measured from when nothing was compacted yet that was not read, and half of the least that the topic's
`delete.retention.ms` was since is taken: by what it is when it meets a tombstone the cleaner decides when that goes
(KIP-534; before Kafka 3.1 by what it is when it comes by). What is younger than a minute compaction leaves alone,
whatever that is (`min.compaction.lag.ms`).
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Final

from shim.boottime import boottime
from shim.config import Settings
from shim.kafka_log.reading.read_part import LEFT_ALONE_SECONDS
from shim.kafka_log.topics.ready import look_up_retention
from shim.kafka_log.topics.wanted import TopicsUnfit, TopicsWanted
from shim.upstream import Cluster, UpstreamError

log = logging.getLogger(__name__)

SHARE_OF_RETENTION: Final = 0.5

UNASKED_SECONDS: Final = LEFT_ALONE_SECONDS / 2
"""Younger than that is what was read, and may be the answer by which it is judged: both together are what compaction
leaves alone."""

_ANSWERS_WITHIN_MS: Final = 3_000
"""A broker; whoever takes a partition over asks another one then."""


class AgeNotKnown(UpstreamError):
    """Whether what was read is too old: how long tombstones stay nobody has told."""


class RetentionNotTold(AgeNotKnown):
    """The cluster does not tell it, and it would be no use to ask again at once."""


class Tombstones:
    """Of the offsets' topic. For the event loop. All times are of CLOCK_BOOTTIME. Before anything of the topic is read,
    :meth:`told` is to be called."""

    def __init__(self, cluster: Cluster, settings: Settings, wanted: TopicsWanted) -> None:
        self._cluster = cluster
        self._settings = replace(settings, request_timeout_ms=min(settings.request_timeout_ms, _ANSWERS_WITHIN_MS))
        self._wanted = wanted
        self._told: list[tuple[float, float]] = []
        """Each value of `delete.retention.ms` in seconds, and when it was told first, the oldest first."""
        self._one_asks = asyncio.Lock()
        self._asked_at = self._answered_at = float("-inf")
        self._failed: AgeNotKnown | None = None

    def told(self, retention_seconds: float) -> None:
        """What it is now; looks at the topic say so, too."""
        if not self._told or retention_seconds != self._told[-1][1]:
            self._told.append((boottime(), retention_seconds))

    async def may_be_gone(self, since: float, at: float) -> bool:
        """Whether some that were written after ``since`` may have been removed by ``at``, which is no later than now.
        Raises AgeNotKnown, RetentionNotTold among them."""
        age = at - since
        if age <= UNASKED_SECONDS:
            return False
        await self._ask()
        return age >= self._least_since(since) * SHARE_OF_RETENTION

    def _least_since(self, since: float) -> float:
        """What it was at that time included, as far as this process knows."""
        least = float("inf")
        for told_at, seconds in reversed(self._told):
            least = min(least, seconds)
            if told_at <= since:
                break
        return least

    async def _ask(self) -> None:
        """Unless it was told just now. Many partitions come at once, and one question is theirs, whatever comes of it:
        otherwise each would wait for brokers that hang, one after the other."""
        came_at = boottime()
        async with self._one_asks:
            if self._failed is None and came_at - self._asked_at <= UNASKED_SECONDS:
                return
            if self._answered_at < came_at:
                self._asked_at = boottime()
                self._failed = await self._look()
                self._answered_at = boottime()
            if self._failed is not None:
                raise self._failed

    async def _look(self) -> AgeNotKnown | None:
        try:
            self.told(await look_up_retention(self._cluster, self._settings, self._wanted) / 1000)
        except TopicsUnfit as error:
            return RetentionNotTold(f"delete.retention.ms is not known: {error}")
        except UpstreamError as error:
            return AgeNotKnown(str(error))
        return None


TOO_OLD: Final = "it is older than half of delete.retention.ms of the topic"
"""Why what was read is not gone on with."""
