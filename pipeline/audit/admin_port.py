"""The shim's admin port as it is given on the command line: where it is, and the token that it may want."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import click

from pipeline.audit.addresses import address
from pipeline.audit.brokers import Address

_SHORTEST: Final = 16
_LONGEST: Final = 4096
_TOKEN_OPTION: Final = "--admin-token-file"  # noqa: S105  # what it is called


@dataclass(frozen=True, slots=True)
class AdminPort:
    """``token``: "" where none is at hand; it is in no text that is made of this."""

    address: Address
    token: str = field(default="", repr=False)


def admin_port(text: str, token_file: Path | None) -> AdminPort:
    """``text``: ``host:port``; ``token_file``: as docs/admin.md has it.

    Raises :class:`click.BadParameter`, with nothing of what is in the file.
    """
    return AdminPort(address("--admin", text), "" if token_file is None else _token_in(token_file))


def _token_in(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            text = opened.read(_LONGEST + 2).decode("ascii").strip()
    except OSError as error:
        raise click.BadParameter(f"{file}: {error.strerror}", param_hint=_TOKEN_OPTION) from None
    except UnicodeDecodeError:
        text = ""
    if not _SHORTEST <= len(text) <= _LONGEST or not all("!" <= each <= "~" for each in text):
        raise click.BadParameter(
            f"{file}: expected a token, {_SHORTEST} to {_LONGEST} ASCII characters in a line, none of them a space",
            param_hint=_TOKEN_OPTION,
        )
    return text
