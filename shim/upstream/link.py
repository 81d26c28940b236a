"""A client connection's own way to the broker behind the port that the client came to."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol, cast

from shim.config import HostPort
from shim.logged_once import LoggedOnce
from shim.tls import TlsContext, dial
from shim.upstream.errors import UpstreamError, reason_of
from shim.upstream.read_buffer import READ_BUFFER, worth_keeping
from shim.upstream.turns_of_loop import turns_of_loop
from shim.upstream.unanswered_links import UnansweredLinks

log = logging.getLogger(__name__)


class LinkOwner(Protocol):
    """The client connection, told what happens on its link. Nothing is called after :meth:`BrokerLink.close`."""

    def link_received(self, data: bytes | memoryview) -> None:
        """A view is of memory that the next read may use again, unless it, or a part of it, is kept."""

    def link_writable(self, writable: bool) -> None:
        """False while the link cannot take more bytes: not connected yet, or the broker reads too slowly."""

    def link_lost(self, reason: str, *, orderly: bool) -> None:
        """The last call. ``orderly``: it had been connected, and the broker closed it without an error."""


class BrokerLink(asyncio.BufferedProtocol):
    """Bytes to and from one broker, with backpressure. What is written before it is connected waits.

    ``tls`` is for a broker that speaks it; ``trouble`` is told where it cannot be reached: the shim itself may never
    need that broker, so nobody else may notice. ``unanswered``: those of all clients.
    """

    def __init__(
        self,
        owner: LinkOwner,
        tls: TlsContext | None = None,
        trouble: LoggedOnce | None = None,
        unanswered: UnansweredLinks | None = None,
    ) -> None:
        self._owner: LinkOwner | None = owner
        self._trouble = trouble or LoggedOnce(log)
        self._unanswered = unanswered
        self._address: HostPort | None = None
        self._is_unanswered = False
        self._tls = tls
        self._transport: asyncio.Transport | None = None
        self._waiting = bytearray()
        self._turns = turns_of_loop()
        # Read from unless the owner does not want it, or others are to go on first.
        self._wanted = True
        self._waits = False
        self._connecting: asyncio.Task[None] | None = None

    def connect(self, addresses: Sequence[HostPort], timeout_seconds: float) -> None:
        """Start connecting to the first of ``addresses`` that accepts; the owner hears of it when none does."""
        if self._owner is not None:
            self._owner.link_writable(False)
        self._connecting = asyncio.get_running_loop().create_task(self._connect(addresses, timeout_seconds))

    async def _connect(self, addresses: Sequence[HostPort], timeout_seconds: float) -> None:
        failures = []
        for address in addresses:
            self._address = address
            try:
                if self._unanswered is not None and (why := await self._unanswered.why_not(address)):
                    failures.append(self._failed(address, why))
                    continue
                async with asyncio.timeout(timeout_seconds):
                    await dial(lambda: self, address, self._tls)
            except OSError as error:  # TimeoutError is one
                failures.append(self._failed(address, reason_of(error)))
            except (ValueError, OverflowError) as error:  # brokers may be told to advertise anything
                failures.append(self._failed(address, f"no such address can be: {error}"))
            except Exception:  # nobody awaits this task: the owner would wait for ever
                log.exception("connecting to %s", address)
                failures.append(f"{address}: internal error")
            else:
                self._trouble.went_well(_no_broker(address))
                return
        self._lost("; ".join(failures) or "the broker has left the cluster", orderly=False)

    def _failed(self, address: HostPort, reason: str) -> str:
        self._trouble.failed(_no_broker(address), UpstreamError(reason))
        return f"{address}: {reason}"

    def connection_made(self, made: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, made)  # uvloop's is one in all but its class
        if self._owner is None:
            transport.abort()
            return
        self._transport = transport
        if self._unanswered is not None and self._address is not None:
            self._unanswered.made(self._address)
            self._is_unanswered = True
        if not self._wanted:
            # Not from here: uvloop starts to read when this returns, whatever was said before.
            asyncio.get_running_loop().call_soon(self._pause)
        if self._waiting:
            transport.write(bytes(self._waiting))
            self._waiting.clear()
        self._owner.link_writable(True)

    def get_buffer(self, sizehint: int) -> memoryview:
        return READ_BUFFER.room(self._turns.room(self))

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(READ_BUFFER.taken(nbytes))

    def data_received(self, data: bytes | memoryview) -> None:
        """Of a transport, by way of the buffer, or of TLS."""
        if self._owner is None:
            return
        if self._is_unanswered:
            self._answered()
        self._owner.link_received(data)
        if self._transport is not None:
            self._turns.passed_on(self, len(data))

    def pause_writing(self) -> None:
        if self._owner is not None:
            self._owner.link_writable(False)

    def resume_writing(self) -> None:
        if self._owner is not None:
            self._owner.link_writable(True)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost(reason_of(exc) if isinstance(exc, OSError) else "closed by the broker", orderly=exc is None)

    def _answered(self) -> None:
        """Or it ends."""
        if self._is_unanswered and self._unanswered is not None and self._address is not None:
            self._unanswered.over(self._address)
        self._is_unanswered = False

    def _lost(self, reason: str, *, orderly: bool) -> None:
        self._turns.leave(self)
        self._answered()
        owner, self._owner, self._transport = self._owner, None, None
        if owner is not None:
            owner.link_lost(reason, orderly=orderly)

    def write(self, data: bytes | memoryview) -> None:
        if self._transport is None:
            self._waiting += data
        elif not self._transport.is_closing():
            self._transport.write(worth_keeping(data))

    def _pause(self) -> None:
        if not self._reads and self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def _resume(self) -> None:
        if self._reads and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    @property
    def _reads(self) -> bool:
        return self._wanted and not self._waits

    def set_reading(self, reading: bool) -> None:
        if reading == self._wanted:
            return
        self._wanted = reading
        if reading:
            self._resume()
        elif not self._waits:
            self._pause()

    def wait(self) -> None:
        """It is the turn of others."""
        self._waits = True
        self._pause()

    def go_on(self) -> bool:
        """Its turn has come."""
        self._waits = False
        self._resume()
        return self._wanted

    def close(self) -> None:
        self._turns.leave(self)
        self._answered()
        self._owner = None
        if self._connecting is not None:
            self._connecting.cancel()
        if self._transport is not None:
            self._transport.close()
            self._transport = None


def _no_broker(address: HostPort) -> str:
    return f"clients have no broker at {address}"
