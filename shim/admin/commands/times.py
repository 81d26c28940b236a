"""Times as options."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

_EPOCH: Final = datetime.fromtimestamp(0, UTC)


def time_option(name: str, parameter: str, *, text: str) -> Callable[[Command], Command]:
    return click.option(name, parameter, type=parse_time, metavar="TIME", help=text)


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
