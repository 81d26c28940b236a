"""A look at the topics of the log now and then, while they are in use: at the start they were fit, and may be set to
something else since. What may lose data then is told, and served all the same: that is for people to mend, and a shim
that stopped would help nobody."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from shim.config import Settings
from shim.kafka_log.topics.ready import Looked, look
from shim.kafka_log.topics.wanted import TopicsUnfit, TopicsWanted
from shim.logged_once import LoggedOnce
from shim.upstream import Cluster, UpstreamError

log = logging.getLogger(__name__)

LOOK_SECONDS = 300.0

_NOT_LOOKED_AT: Final = "the topics of the log are not looked at"


class TopicsWatch:
    """For the event loop. ``complaints``: as the topics were found last."""

    def __init__(
        self, cluster: Cluster, settings: Settings, wanted: TopicsWanted, looked: Callable[[Looked], Awaitable[None]]
    ) -> None:
        """``looked`` is called with what is found each time."""
        self._cluster = cluster
        self._settings = settings
        self._wanted = wanted
        self._looked = looked
        self._trouble = LoggedOnce(log)
        self.complaints: Sequence[str] = ()

    async def run(self) -> None:
        """For ever."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                found = await look(self._cluster, self._settings, self._wanted)
            except TopicsUnfit as error:
                self._found([str(error)])
            except UpstreamError as error:  # whether they are fit still, nobody knows
                self._trouble.failed(_NOT_LOOKED_AT, error)
            except Exception:
                log.exception(_NOT_LOOKED_AT)
            else:
                self._trouble.went_well(_NOT_LOOKED_AT)
                await self._looked(found)
                self._found(found.complaints)

    def _found(self, complaints: Sequence[str]) -> None:
        """A line where that is something else than before."""
        before, self.complaints = self.complaints, tuple(complaints)
        if self.complaints == before:
            return
        if self.complaints:
            log.error("what is committed may be lost: %s", "; ".join(self.complaints))
        else:
            log.info("the topics of the log are as they should be again")
