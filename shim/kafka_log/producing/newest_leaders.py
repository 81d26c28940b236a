"""Who leads the partitions of a topic that is written to.

The newest leader that is known is a hint: one that leads no more refuses, or does not acknowledge, what is written.
Who reads remembers it otherwise, as one that was deposed does not refuse to be read from (docs/decisions/0018).
"""

from __future__ import annotations

import asyncio
from typing import Final

from shim.upstream.topic_leaders import LedTopic, TopicLeaders

_LOOK_UP_S: Final = 3.0
_EACH_ASKED: Final = 4
"""So many attempts in vain, and all brokers are asked who leads: the one that answers first may be cut off from the
others, and not know it."""


class NewestLeaders:
    """For the event loop. ``known``: as they were told last; None where they are to be looked up."""

    def __init__(self, leaders: TopicLeaders) -> None:
        self.known: LedTopic | None = None
        self._leaders = leaders
        self._newest: LedTopic | None = None
        self._one_looks = asyncio.Lock()

    def forget(self) -> None:
        """Whoever hangs is not asked first the next time."""
        self.known = None

    async def after(self, seen: LedTopic | None, partition: int, attempt: int) -> LedTopic:
        """Who leads by now, looked up unless somebody else has done so since ``seen``. ``attempt``: how often a batch
        of that partition was sent in vain. Raises UpstreamError; nobody is known then."""
        async with self._one_looks:
            if self.known is not None and self.known is not seen:
                return self.known
            self.known = None
            if attempt and attempt % _EACH_ASKED == 0:
                # They are believed of an older one, too: the topic may have been put back to an earlier time.
                found = await self._leaders.look_up_at_most_brokers(partition, _LOOK_UP_S)
            else:
                found = (await self._leaders.look_up(_LOOK_UP_S)).newer(self._newest)
            self.known = self._newest = found
            return found
