"""Times as options, and as they are shown."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final

import click

from shim.terminal.options import Command

_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_FEWEST_DIGITS: Final = 13
"""A number with fewer is of 2001 or earlier in milliseconds, and more likely seconds, or a date: 20260301."""
_MOST_DIGITS: Final = 15
"""Up to the year 9999; one with more is more likely in micro- or nanoseconds."""
_MOST_SHOWN: Final = 40


def time_option(name: str, parameter: str, *, text: str) -> Callable[[Command], Command]:
    return click.option(name, parameter, type=parse_time, metavar="TIME", help=text)


def parse_time(text: str) -> int:
    """Milliseconds since the epoch, from such a number or from ISO 8601, which is in UTC where it names no zone.

    Raises BadParameter.
    """
    if re.fullmatch(r"-?[0-9]+", text):
        return _in_ms(text)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        message = f"{text!r} is neither in ISO 8601 (2026-03-01T14:05) nor in milliseconds"
        raise click.BadParameter(message) from None
    return ((at if at.tzinfo else at.replace(tzinfo=UTC)) - _EPOCH) // timedelta(milliseconds=1)


def _in_ms(text: str) -> int:
    if 1 < len(text) < _FEWEST_DIGITS:
        raise click.BadParameter(
            f"{text!r}: a number is in milliseconds, and this one of 2001 or earlier: is it seconds, or a date? "
            "In ISO 8601 that is 2026-03-01T14:05"
        )
    if len(text) > _MOST_DIGITS:
        raise click.BadParameter(
            f"{text[:_MOST_SHOWN]!r}: a number is in milliseconds, and this one is beyond the year 9999: is it micro- "
            "or nanoseconds?"
        )
    return int(text)


_DURATION: Final = re.compile(
    r"(?P<sign>[-+]?)P(?:(?P<days>[-+]?\d+)D)?"
    r"(?:T(?=[-+\d])(?:(?P<hours>[-+]?\d+)H)?(?:(?P<minutes>[-+]?\d+)M)?(?:(?P<seconds>[-+]?\d+(?:[.,]\d{0,9})?)S)?)?",
    re.IGNORECASE,
)
_MS: Final = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1_000}


def parse_duration(text: str) -> int:
    """Milliseconds, from PnDTnHnMnS as Kafka's tools take it (ISO 8601 as java.time.Duration reads it). Raises
    BadParameter."""
    found = _DURATION.fullmatch(text)
    parts = {name: found[name] for name in _MS if found[name]} if found is not None else {}
    if found is None or not parts:
        raise click.BadParameter(f"{text!r} is no duration: PnDTnHnMnS, such as PT12H or P7D")
    total = sum(Decimal(value.replace(",", ".")) * _MS[name] for name, value in parts.items())
    return int(-total if found["sign"] == "-" else total)


def time_shown(timestamp_ms: int | None) -> str:
    """In UTC; ``-`` for none, the bare number for one that is in no year."""
    if timestamp_ms is None or timestamp_ms == -1:
        return "-"
    try:
        at = datetime.fromtimestamp(timestamp_ms // 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{timestamp_ms % 1000:03d}Z"


def since_shown(timestamp_ms: int | None) -> str:
    """To the second; ``-`` where nobody knows."""
    if timestamp_ms is None:
        return "-"
    return f"{datetime.fromtimestamp(timestamp_ms // 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"
