"""Metrics pushed as StatsD datagrams. Nobody waits for them, and what cannot be sent is counted and forgotten."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import asyncio_dgram

from shim.config import HostPort
from shim.logged_once import LoggedOnce
from shim.metrics import Series
from shim.metrics.statsd import DIALECTS, Deltas, datagrams
from shim.upstream import reason_of

log = logging.getLogger(__name__)

QUEUED: Final = 1024
"""Datagrams that wait to be sent, at most."""

_RESOLVED_SECONDS: Final = 60.0
"""A name is looked up again after that: nobody tells a sender of datagrams that the receiver has moved."""

_HEARD_SECONDS: Final = 1.0
"""By then a sender knows that a datagram was refused, where anybody tells."""

_TROUBLE: Final = "metrics are not received"


class StatsdPush:
    """For the event loop. ``sent`` and ``dropped``: datagrams; one that was sent and refused there counts as both."""

    def __init__(
        self, address: HostPort, interval_seconds: float, dialect: str, look: Callable[[], Awaitable[Sequence[Series]]]
    ) -> None:
        """``dialect``: of :data:`shim.metrics.statsd.DIALECTS`."""
        self.sent = self.dropped = 0
        self._address = address
        self._interval_seconds = interval_seconds
        self._look = look
        self._deltas = Deltas(DIALECTS[dialect])
        self._queue: asyncio.Queue[bytes] = asyncio.Queue(QUEUED)
        self._stream: asyncio_dgram.aio.DatagramClient | None = None
        self._connected_at = 0.0
        self._well_since: float | None = None
        """When the first was sent on this socket of those of which none was refused."""
        # So that each lives until it is known whether what was sent on it was refused.
        self._resolved_seconds = max(_RESOLVED_SECONDS, 2 * interval_seconds)
        self._trouble = LoggedOnce(log)

    async def run(self) -> None:
        """Until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._send_all())
                while True:
                    await asyncio.sleep(self._interval_seconds)
                    await self._push()
        finally:
            self._disconnect()

    async def _push(self) -> None:
        for datagram in datagrams(self._deltas.lines(await self._look())):
            if self._queue.full():
                self.dropped += 1
            else:
                self._queue.put_nowait(datagram)
            await asyncio.sleep(0)  # it is sent, and clients have their turn

    async def _send_all(self) -> None:
        while True:
            datagram = await self._queue.get()
            try:
                await self._send(datagram)
            except (OSError, asyncio_dgram.TransportClosed) as error:
                self._disconnect()
                reason = reason_of(error) if isinstance(error, OSError) else "the socket was closed"
                self._trouble.failed(_TROUBLE, OSError(f"{self._address}: {reason}"))
                self.dropped += 1 + self._queue.qsize()
                while not self._queue.empty():  # they would fare no better
                    self._queue.get_nowait()

    async def _send(self, datagram: bytes) -> None:
        stream = await self._connected()
        while True:
            try:
                await stream.send(datagram)
            except ConnectionRefusedError:  # one before this: its sender hears of it now
                self.dropped += 1
                self._well_since = None
                self._trouble.failed(_TROUBLE, OSError(f"{self._address}: nobody listens"))
            else:
                self.sent += 1
                self._not_refused()
                return

    def _not_refused(self) -> None:
        """None of those that were sent a while ago on this socket, or its sender had heard now."""
        now = time.monotonic()
        if self._well_since is None:
            self._well_since = now
        elif now - self._well_since >= _HEARD_SECONDS:
            self._trouble.went_well(_TROUBLE)

    async def _connected(self) -> asyncio_dgram.aio.DatagramClient:
        if self._stream is not None and time.monotonic() - self._connected_at > self._resolved_seconds:
            self._disconnect()
        if self._stream is None:
            self._stream = await asyncio_dgram.connect(tuple(self._address))
            self._connected_at = time.monotonic()
        return self._stream

    def _disconnect(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = self._well_since = None
