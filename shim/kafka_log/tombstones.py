"""For how long what was read of the offsets' topic may be gone on with.

Compaction removes a tombstone some time after it has removed what that deletes. Who has read of a key before, and goes
on behind both, would have a deleted offset rise again. Brokers ask nobody who reads, so time is all there is: it is
measured from when nothing was compacted yet that was not read, and half of what the topic's `delete.retention.ms` is by
now is taken. What is younger than a minute compaction leaves alone, whatever that is (`min.compaction.lag.ms`).
"""

from __future__ import annotations

from typing import Final

from shim.config import Settings
from shim.kafka_log.lease import boottime
from shim.kafka_log.read_part import LEFT_ALONE_SECONDS
from shim.kafka_log.topics import TopicsUnfit, TopicsWanted, look
from shim.upstream import Cluster, UpstreamError

SHARE_OF_RETENTION: Final = 0.5

_ASKED_AGAIN_SECONDS: Final = 10.0
"""For a start in which many partitions come at once."""


class RetentionNotTold(UpstreamError):
    """How long tombstones stay the cluster does not tell, and it would be no use to ask again at once."""


class Tombstones:
    """Of the offsets' topic. For the event loop. All times are of CLOCK_BOOTTIME."""

    def __init__(self, cluster: Cluster, settings: Settings, wanted: TopicsWanted) -> None:
        self._cluster = cluster
        self._settings = settings
        self._wanted = wanted
        self._asked_at = float("-inf")
        self._stay = 0.0

    async def may_be_gone(self, since: float, at: float) -> bool:
        """Whether some that were written after ``since`` may have been removed by ``at``, which is no later than now.
        Raises UpstreamError, RetentionNotTold among them, where that is not known."""
        age = at - since
        return age > LEFT_ALONE_SECONDS and age >= await self._stay_seconds()

    async def _stay_seconds(self) -> float:
        """As they are told from now on: what was longer before does no harm."""
        asked_at = boottime()
        if asked_at - self._asked_at > _ASKED_AGAIN_SECONDS:
            try:
                found = await look(self._cluster, self._settings, self._wanted)
            except TopicsUnfit as error:
                raise RetentionNotTold(f"delete.retention.ms is not known: {error}") from error
            self._asked_at, self._stay = asked_at, found.delete_retention_ms / 1000 * SHARE_OF_RETENTION
        return self._stay
