"""Times as options, and as text."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

import click

_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_FEWEST_DIGITS: Final = 13
"""A number with fewer is of 2001 or earlier in milliseconds, and more likely seconds, or a date: 20260301."""
_MOST_DIGITS: Final = 15
"""Up to the year 9999; one with more is more likely in micro- or nanoseconds."""
_MOST_SHOWN: Final = 40


def parse_time(text: str) -> int:
    """Milliseconds since the epoch, from such a number or from ISO 8601, which is in UTC where it names no zone.

    As `offset-shim groups` understands it. Raises BadParameter.
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


def time_shown(timestamp_ms: int | None) -> str:
    """In UTC; ``-`` for none, the bare number for one that is in no year."""
    if timestamp_ms is None or timestamp_ms == -1:
        return "-"
    try:
        at = datetime.fromtimestamp(timestamp_ms // 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{timestamp_ms % 1000:03d}Z"
