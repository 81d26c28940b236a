"""All settings, described: for a terminal, for scripts and for the documentation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from shim.config.environment import variable_of
from shim.config.names import BY_NAME

_HEADINGS: Final = "| name | type | default | values | reload | |\n|---|---|---|---|---|---|\n"


class Described(NamedTuple):
    """``default``: as it is written in a table; ``values``: what is allowed, in words."""

    name: str
    type: str
    default: str
    values: str
    reloadable: bool
    doc: str
    variable: str


def described() -> Iterator[Described]:
    """Every setting, in the order of the table."""
    for name, field in BY_NAME.items():
        data = field.metadata
        default = value_shown(field.default)
        yield Described(name, data["type"], default, data["values"], data["reloadable"], data["doc"], variable_of(name))


def value_shown(value: Any) -> str:
    """As it would be written after ``--set name=``."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def as_markdown() -> str:
    """The table in docs/settings.md."""
    rows = (
        f"| `{each.name}` | {each.type} | {each.default} | {each.values} | {'yes' if each.reloadable else ''} "
        f"| {each.doc} |\n"
        for each in described()
    )
    return _HEADINGS + "".join(rows)


def as_text() -> str:
    """For a terminal: a paragraph for each."""
    return "\n".join(
        f"{each.name} ({each.type})\n    {each.doc}\n    default: {each.default or 'empty'}; values: {each.values}"
        f"{'; taken over on SIGHUP' if each.reloadable else ''}\n    {each.variable}\n"
        for each in described()
    )
