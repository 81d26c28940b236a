"""A client connection's own way to the broker behind the port that the client came to."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol, cast

from shim.config import HostPort
from shim.upstream.errors import reason_of

log = logging.getLogger(__name__)


class LinkOwner(Protocol):
    """The client connection, told what happens on its link. Nothing is called after :meth:`BrokerLink.close`."""

    def link_received(self, data: bytes) -> None: ...

    def link_writable(self, writable: bool) -> None:
        """False while the link cannot take more bytes: not connected yet, or the broker reads too slowly."""

    def link_lost(self, reason: str, *, orderly: bool) -> None:
        """The last call. ``orderly``: it had been connected, and the broker closed it without an error."""


class BrokerLink(asyncio.Protocol):
    """Bytes to and from one broker, with backpressure. What is written before it is connected waits."""

    def __init__(self, owner: LinkOwner) -> None:
        self._owner: LinkOwner | None = owner
        self._transport: asyncio.Transport | None = None
        self._waiting = bytearray()
        self._reading = True
        self._connecting: asyncio.Task[None] | None = None

    def connect(self, addresses: Sequence[HostPort], timeout_seconds: float) -> None:
        """Start connecting to the first of ``addresses`` that accepts; the owner hears of it when none does."""
        if self._owner is not None:
            self._owner.link_writable(False)
        self._connecting = asyncio.get_running_loop().create_task(self._connect(addresses, timeout_seconds))

    async def _connect(self, addresses: Sequence[HostPort], timeout_seconds: float) -> None:
        loop = asyncio.get_running_loop()
        failures = []
        for address in addresses:
            try:
                async with asyncio.timeout(timeout_seconds):
                    await loop.create_connection(lambda: self, address.host, address.port)
            except OSError as error:  # TimeoutError is one
                failures.append(f"{address}: {reason_of(error)}")
            except (UnicodeError, OverflowError) as error:  # brokers may be told to advertise anything
                failures.append(f"{address}: no such address can be: {error}")
            except Exception:  # nobody awaits this task: the owner would wait for ever
                log.exception("connecting to %s", address)
                failures.append(f"{address}: internal error")
            else:
                return
        self._lost("; ".join(failures) or "the broker has left the cluster", orderly=False)

    def connection_made(self, made: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, made)  # uvloop's is one in all but its class
        if self._owner is None:
            transport.abort()
            return
        self._transport = transport
        if not self._reading:
            # Not from here: uvloop starts to read when this returns, whatever was said before.
            asyncio.get_running_loop().call_soon(self._pause)
        if self._waiting:
            transport.write(bytes(self._waiting))
            self._waiting.clear()
        self._owner.link_writable(True)

    def data_received(self, data: bytes) -> None:
        if self._owner is not None:
            self._owner.link_received(data)

    def pause_writing(self) -> None:
        if self._owner is not None:
            self._owner.link_writable(False)

    def resume_writing(self) -> None:
        if self._owner is not None:
            self._owner.link_writable(True)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost(reason_of(exc) if isinstance(exc, OSError) else "closed by the broker", orderly=exc is None)

    def _lost(self, reason: str, *, orderly: bool) -> None:
        owner, self._owner, self._transport = self._owner, None, None
        if owner is not None:
            owner.link_lost(reason, orderly=orderly)

    def write(self, data: bytes) -> None:
        if self._transport is None:
            self._waiting += data
        elif not self._transport.is_closing():
            self._transport.write(data)

    def _pause(self) -> None:
        if not self._reading and self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def set_reading(self, reading: bool) -> None:
        if reading == self._reading:
            return
        self._reading = reading
        if not reading:
            self._pause()
        elif self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def close(self) -> None:
        self._owner = None
        if self._connecting is not None:
            self._connecting.cancel()
        if self._transport is not None:
            self._transport.close()
            self._transport = None
