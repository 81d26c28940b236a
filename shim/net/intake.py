"""Whether requests are taken from one client, and why not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from shim.upstream import turns_of_loop


class Stop:
    """Why not: bits of :attr:`Intake.stops`. Plain numbers, as each read looks at them."""

    BROKER_FULL: Final = 1
    """The broker does not read, or there is no connection to it yet."""
    TOO_MANY: Final = 2
    """Too many requests are unanswered."""
    CLIENT_FULL: Final = 4
    """The client does not read."""
    UNDECIDED: Final = 8
    """One request has to be decided before those behind it."""
    NO_ROOM: Final = 16
    """There is no room for the next request."""
    NOT_ITS_TURN: Final = 32
    """Others pass their bytes on first."""


class Intake:
    """Pauses the client's transport while there is any reason to. What is passed on to a broker takes turns with what
    others pass on.
    """

    __slots__ = ("_closed", "_go_on", "_paused", "_transport", "_turns", "passed_on", "stops")

    def __init__(self, go_on: Callable[[], None]) -> None:
        """``go_on`` is called when the last reason has gone, before the transport reads again: requests may have been
        read before the stop. It may stop the intake again.
        """
        self.stops = 0
        self.passed_on = 0
        """Bytes of what was read last, to the broker."""
        self._turns = turns_of_loop()
        self._go_on = go_on
        self._transport: asyncio.Transport | None = None
        self._paused = False
        self._closed = False

    def connected(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def stop(self, reason: int) -> None:
        self.stops |= reason
        if not self._paused and self._transport is not None and not self._transport.is_closing():
            self._paused = True
            self._transport.pause_reading()

    def resume(self, reason: int) -> None:
        if self.stops & reason:
            self.stops &= ~reason
            if not self.stops:
                # Not from here: the request reader may be at work.
                asyncio.get_running_loop().call_soon(self._resume)

    @property
    def room(self) -> int:
        """Bytes that a read may bring now."""
        return self._turns.room(self)

    def has_read(self) -> None:
        """What a read brought has been dealt with."""
        passed_on, self.passed_on = self.passed_on, 0
        if passed_on and not self._closed:
            self._turns.passed_on(self, passed_on)

    def hurry(self) -> None:
        """A request has come that the shim answers itself, but not at once, as a commit when it is durable: those that
        pass bytes on shall not keep that long.
        """
        self._turns.hurry()

    def wait(self) -> None:
        """It is the turn of others to pass bytes on."""
        self.stop(Stop.NOT_ITS_TURN)

    def go_on(self) -> bool:
        """Its turn has come to pass bytes on."""
        self.stops &= ~Stop.NOT_ITS_TURN
        self._resume()  # later its whole read would be another turn's
        return not self.stops and not self._closed

    def close(self) -> None:
        """Nothing is called any more, nor kept that was to be."""
        self._closed = True
        self._turns.leave(self)
        self._go_on = lambda: None

    def _resume(self) -> None:
        if self.stops or self._closed:
            return
        self._go_on()
        if not self.stops and self._paused and self._transport is not None and not self._transport.is_closing():
            self._paused = False
            self._transport.resume_reading()
