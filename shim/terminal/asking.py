"""What is asked before something is done."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from shim.terminal.showing import shown


def is_agreed(question: str, names: Sequence[str] = (), *, yes: bool) -> bool:
    """Asks on a terminal, with what it is about a line each, and nowhere else. False for a no, and for Ctrl-C."""
    if yes or not sys.stdin.isatty():
        return True
    for name in names:
        click.echo(f"  {shown(name)}", err=True)
    try:
        return click.confirm(question, err=True)
    except click.Abort:  # or the end of what is typed
        click.echo(err=True)  # behind the question
        return False
