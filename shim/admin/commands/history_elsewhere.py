"""What is said where a history is asked for, and a part of it may be where the log was for a while."""

from __future__ import annotations

from typing import Final

import click

from shim.admin.commands.admin_client import RunningShim
from shim.admin.commands.running_shim import overview_of

HISTORY_ELSEWHERE: Final = (
    "this log is moved between two places, or was: what was committed while a partition was at the other one is in the "
    "history there, which is not looked at (docs/log-on-topics.md, Moving there and back)"
)


def has_history_elsewhere(shim: RunningShim) -> bool:
    """As far as the shim knows."""
    return bool(overview_of(shim)["log_moves"])


def tell_of_history_elsewhere() -> None:
    """On standard error, beside what was found."""
    click.echo(HISTORY_ELSEWHERE, err=True)
