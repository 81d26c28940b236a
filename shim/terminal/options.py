"""Options that mean the same wherever they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def json_option(command: Command) -> Command:
    return click.option("--json", "json_wanted", is_flag=True, help="The same as JSON, for scripts.")(command)


def yes_option(command: Command) -> Command:
    return click.option("--yes", is_flag=True, help="Go on without asking.")(command)


def dry_run_option(command: Command) -> Command:
    return click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")(command)
