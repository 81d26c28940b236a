"""Times as options, and as text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

import click

_EPOCH: Final = datetime.fromtimestamp(0, UTC)


def parse_time(text: str) -> int:
    """Milliseconds since the epoch, from such a number or from ISO 8601, which is in UTC where it names no zone.

    Raises BadParameter.
    """
    try:
        return int(text)
    except ValueError:
        pass
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        message = f"{text!r} is neither in ISO 8601 (2026-03-01T14:05) nor in milliseconds"
        raise click.BadParameter(message) from None
    return ((at if at.tzinfo else at.replace(tzinfo=UTC)) - _EPOCH) // timedelta(milliseconds=1)


def time_shown(timestamp_ms: int | None) -> str:
    """In UTC; ``-`` for none, the bare number for one that is in no year."""
    if timestamp_ms is None or timestamp_ms == -1:
        return "-"
    try:
        at = datetime.fromtimestamp(timestamp_ms // 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{timestamp_ms % 1000:03d}Z"
