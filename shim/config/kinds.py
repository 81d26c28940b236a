"""What kinds of settings there are: each is a field of a dataclass with what is known of the setting as its metadata.

``kind``: the Python type; ``type``: what Kafka calls it; ``expected``: the allowed values, in words; ``values``: the
same in a table; ``doc``: a sentence; ``reloadable``: whether SIGHUP is enough for a change; ``secret``: whether it is
never shown; ``low`` and ``high``, or ``choices``: what is allowed.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

from shim.config.addresses import INT32_MAX


def integer(default: int, low: int, high: int, doc: str, *, reloadable: bool = False) -> Any:
    kind = "int" if high <= INT32_MAX else "long"
    allowed = f"{low} to {high}"
    return _setting(default, int, kind, f"a whole number from {allowed}", allowed, doc, reloadable, low=low, high=high)


def number(default: float, low: float, high: float, doc: str, *, reloadable: bool = False) -> Any:
    allowed = f"{low} to {high}"
    return _setting(default, float, "double", f"a number from {allowed}", allowed, doc, reloadable, low=low, high=high)


def boolean(default: bool, doc: str, *, reloadable: bool = False) -> Any:
    said = "true or false"
    return _setting(default, bool, "boolean", said, said, doc, reloadable)


def text(default: str, doc: str) -> Any:
    """An empty one counts as not set."""
    return _setting(default, str, "string", "text", "text", doc)


def choice(default: str, choices: tuple[str, ...], doc: str, *, reloadable: bool = False) -> Any:
    """An empty one counts as not set."""
    said = ("one of " if all(choices) else "empty or one of ") + ", ".join(filter(None, choices))
    return _setting(default, str, "string", said, said, doc, reloadable, choices=choices)


def secret(doc: str) -> Any:
    """Never shown: not in a message, not in the settings' own text."""
    return _setting("", str, "password", "text", "text", doc, secret=True)


def _setting(
    default: Any, kind: type, name: str, expected: str, values: str, doc: str, reloadable: bool = False, **more: Any
) -> Any:
    """``name``: of the kind, as Kafka calls it; ``more``: of the metadata."""
    known = {"kind": kind, "type": name, "expected": expected, "values": values, "doc": doc, "reloadable": reloadable}
    return field(default=default, repr=not more.get("secret"), metadata={**known, **more})
