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
    return field(
        default=default,
        metadata={
            "kind": int,
            "type": "int" if high <= INT32_MAX else "long",
            "expected": f"a whole number from {low} to {high}",
            "values": f"{low} to {high}",
            "low": low,
            "high": high,
            "doc": doc,
            "reloadable": reloadable,
        },
    )


def number(default: float, low: float, high: float, doc: str, *, reloadable: bool = False) -> Any:
    return field(
        default=default,
        metadata={
            "kind": float,
            "type": "double",
            "expected": f"a number from {low} to {high}",
            "values": f"{low} to {high}",
            "low": low,
            "high": high,
            "doc": doc,
            "reloadable": reloadable,
        },
    )


def boolean(default: bool, doc: str, *, reloadable: bool = False) -> Any:
    said = "true or false"
    return field(
        default=default,
        metadata={
            "kind": bool,
            "type": "boolean",
            "expected": said,
            "values": said,
            "doc": doc,
            "reloadable": reloadable,
        },
    )


def text(default: str, doc: str) -> Any:
    """An empty one counts as not set."""
    return field(
        default=default,
        metadata={
            "kind": str,
            "type": "string",
            "expected": "text",
            "values": "text",
            "doc": doc,
            "reloadable": False,
        },
    )


def choice(default: str, choices: tuple[str, ...], doc: str, *, reloadable: bool = False) -> Any:
    """An empty one counts as not set."""
    said = ("one of " if all(choices) else "empty or one of ") + ", ".join(filter(None, choices))
    return field(
        default=default,
        metadata={
            "kind": str,
            "type": "string",
            "expected": said,
            "values": said,
            "choices": choices,
            "doc": doc,
            "reloadable": reloadable,
        },
    )


def secret(doc: str) -> Any:
    """Never shown: not in a message, not in the settings' own text."""
    return field(
        default="",
        repr=False,
        metadata={
            "kind": str,
            "type": "password",
            "expected": "text",
            "values": "text",
            "secret": True,
            "doc": doc,
            "reloadable": False,
        },
    )
