"""Commands that a line names, as they can be pasted where this one was given."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Final

import click

from shim.config import HostPort

_NAMED: Final = re.compile(r"`((?:groups|migrate|log move)\b[^`\n]*)`")
"""Those that ask a running shim, in lines of its own, too: it does not know where it is reached from here."""

_GIVEN: Final = "offset-shim.given-for-hints"  # where the context of a command has it


def found_at(context: click.Context, option: str, value: HostPort | Path) -> None:
    """The command has been given an option, without which another one would not find that shim, or be let in."""
    context.meta.setdefault(_GIVEN, {})[option] = str(value)


def pasteable(text: str) -> str:
    """```look with `migrate status` ``` as ```look with `offset-shim migrate status --admin H:P` ```; as it is, where
    the command in hand was given nothing that another one needs, too."""
    context = click.get_current_context(silent=True)
    given: dict[str, str] = {} if context is None else context.meta.get(_GIVEN, {})
    if not given:
        return text
    options = " ".join(f"{option} {shlex.quote(value)}" for option, value in sorted(given.items()))
    return _NAMED.sub(lambda named: f"`offset-shim {named[1]} {options}`", text)
