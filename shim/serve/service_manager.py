"""Whoever has started the process and wants to hear how it is: systemd, with `Type=notify` and `WatchdogSec=`.

A datagram a state, as sd_notify(3) has it: two names and a socket, so there is no library for it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from shim.logged_once import LoggedOnce

_OFTENER: Final = 3
"""Times within its patience: one that is late is no reason to be killed."""

_OTHERWISE_SECONDS: Final = 10.0
"""Between the words to one that has no patience to be tried."""

_ALIVE: Final = "WATCHDOG=1"
_NOT_TOLD: Final = "the service manager cannot be told how the shim is"

_log = logging.getLogger("shim")


class ServiceManager:
    """Never blocks, and raises nothing: whether anybody listens changes nothing for clients.

    ``every_seconds``: how often it is to hear that the process is :meth:`alive`; None where there is none.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._trouble = LoggedOnce(_log)
        self._line = self._status = self._untold = ""
        self.every_seconds: float | None = None
        if address:
            patience = _patience_seconds(environment)
            self.every_seconds = _OTHERWISE_SECONDS if patience is None else patience / _OFTENER

    def ready(self, line: str) -> None:
        """It serves; ``line`` is what is shown of it."""
        self._line = self._status = line
        self._tell(f"READY=1\nSTATUS={line}")

    def stopping(self) -> None:
        self._tell("STOPPING=1\nSTATUS=answering what has begun")

    def alive(self) -> None:
        self._tell(_ALIVE)

    async def run(self, missing: Callable[[], Sequence[str]]) -> None:
        """As long as the event loop comes round, it is alive. ``missing``: why it is not ready, if it is not.
        ``every_seconds`` is not None."""
        assert self.every_seconds is not None
        while True:
            lines = missing()
            status = f"not ready: {'; '.join(lines)}" if lines else self._line
            if status != self._status:
                self._status = status
                self._tell(f"STATUS={status}")
            self.alive()
            await asyncio.sleep(self.every_seconds)

    def _tell(self, state: str) -> None:
        """And before it what it could not be told, as it had more to read than it may have: of each kind the last."""
        if not self._address:
            return
        lines = f"{self._untold}\n{state}".strip().split("\n")
        words = "\n".join({line.partition("=")[0]: line for line in lines}.values())
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
                to.setblocking(False)
                to.sendto(words.encode(), self._address)
        except OSError as error:
            self._trouble.failed(_NOT_TOLD, error)
            if state != _ALIVE:
                self._untold = words
        else:
            self._trouble.went_well(_NOT_TOLD)
            self._untold = ""


def _patience_seconds(environment: Mapping[str, str]) -> float | None:
    """None where it waits for nobody, or not for this process."""
    microseconds = environment.get("WATCHDOG_USEC", "")
    waits_for = environment.get("WATCHDOG_PID", str(os.getpid()))
    if not microseconds.isdecimal() or waits_for != str(os.getpid()):
        return None
    return int(microseconds) / 1e6 or None
