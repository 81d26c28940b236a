"""Where events of the log go: to standard error, as the settings say."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final, TextIO

from shim.config import BY_NAME, HIDDEN, Settings
from shim.counted import counted
from shim.logs.lines import Conceal, JsonLines, TextLines
from shim.logs.repeats import LeftOut, Repeats, event_of

_LOOKS: Final[Mapping[str, Callable[[Conceal], logging.Formatter]]] = {"text": TextLines, "json": JsonLines}

_SHORTEST_CONCEALED: Final = 4
"""Characters. A secret that is shorter would be found in every word, and hides nothing."""

_WORDY: Final = ("kazoo", "aiohttp", "asyncio")
"""Whose events are logged from ``INFO`` on: at ``DEBUG`` they have what is sent over the wire, passwords among it."""


class LogOutput(logging.Handler):
    """For all threads. What is left out is told when its minute is over, or the process ends."""

    def __init__(self, settings: Settings, secrets: Collection[str] = (), stream: TextIO | None = None) -> None:
        """``secrets``: what is never printed, beside those in ``settings``."""
        super().__init__()
        self._stream = stream or sys.stderr
        self._repeats = Repeats(settings.log_repeat_max_per_minute)
        self._secrets: tuple[str, ...] = ()
        self._timer: threading.Timer | None = None
        self._closed = False
        self._worker: int | None = None
        self.conceal_also(secrets)
        self.take_settings(settings)

    def begin(self) -> None:
        """Have everything that the process logs go here."""
        logging.getLogger().addHandler(self)

    def of_worker(self, number: int) -> None:
        """From now on every line says which of several processes it is from."""
        self._worker = number

    def conceal_also(self, secrets: Collection[str]) -> None:
        """From now on."""
        known = {*self._secrets, *(secret for secret in secrets if len(secret) >= _SHORTEST_CONCEALED)}
        # The longest first: of one that begins with another the rest would be shown. As a whole, as other threads look.
        self._secrets = tuple(sorted(known, key=len, reverse=True))

    def take_settings(self, settings: Settings) -> None:
        """From the next event on."""
        with self._alone():
            self.conceal_also([getattr(settings, f.name) for f in BY_NAME.values() if f.metadata.get("secret")])
            self._repeats.most = settings.log_repeat_max_per_minute
            self.setFormatter(_LOOKS[settings.log_format](self._conceal))
            level = logging.getLevelNamesMapping()[settings.log_level]
            logging.getLogger().setLevel(level)
            for name in _WORDY:
                logging.getLogger(name).setLevel(max(level, logging.INFO))

    def emit(self, record: logging.LogRecord) -> None:
        """Under the handler's lock."""
        try:
            now = time.monotonic()
            if self._worker is not None:
                record.worker = self._worker
            self._tell_left_out(now)
            group = getattr(record, "group", "")
            event = event_of(record.name, record.levelno, str(record.msg), record.getMessage(), group)
            if self._repeats.may_pass(event, now):
                self._write(record)
            elif self._timer is None and not self._closed:
                self._set_timer(now)
        except Exception:
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  # as the library calls it
        """Of a line that cannot be written: without its values, which the library would print as they are."""
        with suppress(OSError, ValueError):  # nobody is left to tell where standard error is gone
            reason = self._conceal(f"{sys.exception()!r}: {record.msg!r}")
            self._stream.write(f"{record.name}: an event could not be logged: {reason}\n")

    def close(self) -> None:
        with self._alone():
            self._closed = True
            if self._timer is not None:
                self._timer.cancel()
            self._tell_left_out(float("inf"))
        super().close()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        self.acquire()
        try:
            yield
        finally:
            self.release()

    def _conceal(self, text: str) -> str:
        for secret in self._secrets:
            if secret in text:
                text = text.replace(secret, HIDDEN)
        return text

    def _write(self, record: logging.LogRecord) -> None:
        self._stream.write(f"{self.format(record)}\n")
        self._stream.flush()

    def _tell_left_out(self, now: float) -> None:
        for left_out in self._repeats.over(now):
            self._write(_line_of(left_out))

    def _set_timer(self, now: float) -> None:
        due = self._repeats.next_over()
        if due is not None:
            self._timer = threading.Timer(max(0.0, due - now), self._when_due)
            self._timer.daemon = True
            self._timer.start()

    def _when_due(self) -> None:
        """In the timer's thread: nothing else may be logged for long."""
        with self._alone():
            self._timer = None
            if not self._closed:
                now = time.monotonic()
                self._tell_left_out(now)
                self._set_timer(now)


def _line_of(left_out: LeftOut) -> logging.LogRecord:
    event, events, groups = left_out
    of_groups = f" of {counted(groups, 'group')}" if groups else ""
    return logging.LogRecord(
        event.logger,
        event.level,
        "",
        0,
        "%d more like this%s were left out in a minute (log.repeat.max.per.minute): %s",
        (events, of_groups, event.template),
        None,
    )
