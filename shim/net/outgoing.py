"""What goes out to one client."""

from __future__ import annotations

import asyncio
from typing import Final

from shim.metrics import Traffic
from shim.upstream import worth_keeping

GATHERED_BYTES: Final = 16_384
"""Answers often come many at a time, as when a flight has landed. Those that come together are one call to the system,
up to so many bytes; from there on it is written at once, so that a client that does not read is noticed."""


class Departures:
    """The clients that something is gathered for: it goes out when the loop has come round, or at :meth:`send`.

    Who knows that it has answered all that it will calls that: else the answers would wait until the loop has read
    everything that has come meanwhile, which beside much traffic is long.
    """

    def __init__(self) -> None:
        self._waiting: list[Outgoing] = []

    def add(self, outgoing: Outgoing) -> None:
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self.send)
        self._waiting.append(outgoing)

    def send(self) -> None:
        waiting, self._waiting = self._waiting, []
        sent = 0
        try:
            for outgoing in waiting:
                sent += 1
                outgoing.send()
        finally:
            # A transport that breaks off is no reason for others to wait.
            for outgoing in waiting[sent:]:
                self.add(outgoing)


class Outgoing:
    """Gathers what is written until its departure, or between :meth:`begin` and :meth:`end`."""

    __slots__ = ("_begun", "_departures", "_gathered", "_gathered_bytes", "_traffic", "_transport", "moved")

    def __init__(self, departures: Departures, traffic: Traffic | None = None) -> None:
        self._departures = departures
        self._traffic = traffic or Traffic()
        self.moved = False
        """Whether anything went out since somebody last set this to False."""
        self._transport: asyncio.Transport | None = None
        self._gathered: list[bytes] = []
        self._gathered_bytes = 0
        self._begun = False

    def connected(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def begin(self) -> None:
        """What is written from here on waits for :meth:`end`."""
        self._begun = True

    def end(self) -> None:
        self._begun = False
        if self._gathered:
            self.send()

    def write(self, data: bytes | memoryview) -> None:
        """A view is not kept longer than this call, unless the transport keeps it."""
        if len(data) >= GATHERED_BYTES:
            self.send()
            self._send(data)
            return
        self._gathered.append(bytes(data))
        self._gathered_bytes += len(data)
        if self._gathered_bytes >= GATHERED_BYTES:
            self.send()
        elif len(self._gathered) == 1 and not self._begun:
            self._departures.add(self)

    def send(self) -> None:
        """What is gathered, now."""
        gathered = self._gathered
        if gathered:
            self._gathered, self._gathered_bytes = [], 0
            self._send(gathered[0] if len(gathered) == 1 else b"".join(gathered))

    def _send(self, data: bytes | memoryview) -> None:
        self.moved = True
        self._traffic.to_clients += len(data)
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(worth_keeping(data))
