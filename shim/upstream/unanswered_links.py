"""Links on which the broker has answered nothing yet: of many to one address they may all be the same request, which
goes round in a circle where that address leads back to the shim, or to another one that leads here: each time round
takes a connection more, until nobody has any.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Final

from protocol.messages import metadata
from shim.config import HostPort, Settings
from shim.upstream.connection import BrokerConnection
from shim.upstream.errors import UpstreamError

MOST: Final = 64
"""To one address. While there are so many, a question of the shim's own is to be answered there before any more."""
_ANSWERED_WITHIN_SECONDS: Final = 3.0


class UnansweredLinks:
    """For the event loop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._counts = Counter[HostPort]()
        self._suspected: set[HostPort] = set()
        """Where that question was not answered the last time."""
        self._asking: dict[HostPort, asyncio.Task[str]] = {}

    async def why_not(self, address: HostPort) -> str:
        """To be asked before a link there is made; "" where it may be."""
        if self._counts[address] < MOST and address not in self._suspected:
            return ""
        if address not in self._asking:
            self._asking[address] = asyncio.get_running_loop().create_task(self._ask(address))
        return await asyncio.shield(self._asking[address])  # others may wait for it, too

    def made(self, address: HostPort) -> None:
        self._counts[address] += 1

    def over(self, address: HostPort) -> None:
        """One of those is answered, or has ended."""
        self._counts[address] -= 1
        if not self._counts[address]:
            del self._counts[address]

    async def _ask(self, address: HostPort) -> str:
        connection = BrokerConnection(address, self._settings, _ANSWERED_WITHIN_SECONDS)
        try:
            await connection.open()
            await connection.ask(metadata.API, metadata.MetadataRequest(topics=()))
        except UpstreamError as error:
            self._suspected.add(address)
            return f"many clients wait there for their first answer, and it may lead back here: {error}"
        finally:
            del self._asking[address]
            connection.close()
        self._suspected.discard(address)
        return ""
