"""A line of the log, pure: as text, and as JSON."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from shim.terminal.showing import shown

Conceal = Callable[[str], str]
"""Gives a text without the secrets in it."""

_OF_EVERY_RECORD: Final = frozenset(
    {*vars(logging.makeLogRecord({})), "asctime", "message", "taskName"},
)


class TextLines(logging.Formatter):
    """``2026-01-31 12:00:00,123Z LEVEL message``, times in UTC as ``log dump`` shows them, then a traceback; all of it
    in one line, what would end it escaped (``\\n``)."""

    def __init__(self, conceal: Conceal) -> None:
        super().__init__()
        self.converter = time.gmtime
        self._conceal = conceal

    def format(self, record: logging.LogRecord) -> str:
        parts = [record.getMessage()]
        if record.exc_info and record.exc_info[0] is not None:
            parts.append(self.formatException(record.exc_info))
        if record.stack_info:
            parts.append(record.stack_info)
        # Names that clients chose are in it. What is secret is known as it is, and not as it looks once it is escaped.
        said = shown(self._conceal("\n".join(parts)))
        worker = getattr(record, "worker", None)  # of several processes that write to the same place
        return f"{self.formatTime(record)}Z {record.levelname} {'' if worker is None else f'worker {worker}: '}{said}"


class JsonLines(logging.Formatter):
    """An object of ``time`` (RFC 3339, UTC), ``level``, ``logger``, ``message``, ``exception`` where there is one, and
    what the event was given as ``extra``."""

    def __init__(self, conceal: Conceal) -> None:
        super().__init__()
        self._conceal = conceal

    def format(self, record: logging.LogRecord) -> str:
        time_of = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "time": time_of.replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": self._conceal(record.getMessage()),
        }
        if record.exc_info and record.exc_info[0] is not None:
            line["exception"] = self._conceal(self.formatException(record.exc_info))
        if record.stack_info:
            line["stack"] = self._conceal(record.stack_info)
        for name, value in vars(record).items():
            if name not in _OF_EVERY_RECORD and name not in line:
                line[name] = self._concealed(value)
        return json.dumps(line)

    def _concealed(self, value: object) -> object:
        """As JSON has it; what JSON does not know as its text."""
        if isinstance(value, bool | int | float | None):
            return value
        if isinstance(value, Mapping):
            return {self._conceal(str(key)): self._concealed(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [self._concealed(each) for each in value]
        return self._conceal(str(value))
