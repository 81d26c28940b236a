"""What is heard of a ZooKeeper session."""

from __future__ import annotations

import asyncio

from shim.offsets.zookeeper.ensemble import Ensemble
from shim.offsets.zookeeper.znodes import SessionEvent
from tests.offsets.conftest import TIMEOUT_S


class Events:
    """What was heard of a session, in order."""

    def __init__(self, ensemble: Ensemble) -> None:
        self._heard: asyncio.Queue[SessionEvent] = asyncio.Queue()
        ensemble.watch_session(self._heard.put_nowait)

    async def next(self) -> SessionEvent:
        async with asyncio.timeout(TIMEOUT_S):
            return await self._heard.get()

    async def connected(self) -> None:
        """Whatever comes before."""
        while await self.next() is not SessionEvent.CONNECTED:
            pass

    @property
    def none_left(self) -> bool:
        return self._heard.empty()
