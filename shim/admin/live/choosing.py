"""Which groups a request is about: some by name, those that fit a pattern, or all."""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Iterable
from typing import Final, NamedTuple
from urllib.parse import parse_qsl

from shim.admin.live.migrating import GroupStatus

# A name is a string of Kafka's protocol, with a length of 16 bits.
_LONGEST_NAME: Final = 32_767
_LONGEST_PATTERN: Final = 1_000
_LONGEST_CAUSE: Final = 1_000
_MOST_FIELDS: Final = 1_000


class BadRequest(ValueError):
    """A request that cannot be understood; the message is one line."""


class Choice(NamedTuple):
    """``names``: these, each once, in the order given; None: those that fit ``pattern``, or, without one, all."""

    names: tuple[str, ...] | None = None
    pattern: str | None = None

    def fitting(self, statuses: Iterable[GroupStatus], storage: str | None = None) -> list[GroupStatus]:
        """Of a choice without names, by name; ``storage``: only those of which it is the ``offsets.storage``."""
        # As fnmatchcase does, which forgets all but a few patterns.
        fits = re.compile(fnmatch.translate("*" if self.pattern is None else self.pattern)).match
        found = (each for each in statuses if storage in (None, each.storage) and fits(each.group))
        return sorted(found, key=lambda each: each.group)


class Wanted(NamedTuple):
    """What a POST asks for; ``cause``: empty where none was given."""

    choice: Choice
    cause: str


def wanted_of(body: bytes) -> Wanted:
    """Reads ``{"groups": [name…]}``, ``{"pattern": glob}`` or ``{"all": true}``, and with any of them ``"cause"``.

    Raises :class:`BadRequest`.
    """
    try:
        document = json.loads(body.decode())
    except (ValueError, RecursionError):
        raise BadRequest("the body is not JSON") from None
    if not isinstance(document, dict):
        raise BadRequest("the body is not a JSON object")
    if unknown := sorted(document.keys() - {"groups", "pattern", "all", "cause"}):
        raise BadRequest(f"{_quoted(unknown[0])} is not known: groups, pattern, all and cause are")
    if len(document.keys() - {"cause"}) != 1:
        raise BadRequest("one of groups, pattern and all has to be given")
    cause = _text(document.get("cause", ""), "cause", _LONGEST_CAUSE)
    if "all" in document:
        if document["all"] is not True:
            raise BadRequest("all can be true alone")
        return Wanted(Choice(), cause)
    if "pattern" in document:
        return Wanted(Choice(pattern=_text(document["pattern"], "pattern", _LONGEST_PATTERN)), cause)
    names = document["groups"]
    if not isinstance(names, list) or not names:
        raise BadRequest("groups is not a list of names")
    return Wanted(Choice(_each_once(names)), cause)


def choice_of(query: str) -> Choice:
    """Reads ``group=name&group=name…`` or ``pattern=glob``, percent-encoded; all without either.

    Raises :class:`BadRequest`.
    """
    names: list[str] = []
    patterns: list[str] = []
    for name, value in _fields_of(query):
        if name == "group":
            names.append(value)
        elif name == "pattern":
            patterns.append(value)
        else:
            raise BadRequest(f"{_quoted(name)} is not known: group and pattern are")
    if len(patterns) + bool(names) > 1:
        raise BadRequest("groups by name, or one pattern")
    if patterns:
        return Choice(pattern=_text(patterns[0], "pattern", _LONGEST_PATTERN))
    return Choice(_each_once(names)) if names else Choice()


def _fields_of(query: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(
            query, keep_blank_values=True, strict_parsing=bool(query), errors="strict", max_num_fields=_MOST_FIELDS
        )
    except ValueError:
        raise BadRequest("the query is not name=value&… in percent-encoded UTF-8") from None


def _each_once(names: Iterable[object]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_text(name, "a group's name", _LONGEST_NAME) for name in names))


def _text(value: object, what: str, longest: int) -> str:
    if not isinstance(value, str):
        raise BadRequest(f"{what} is not text")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise BadRequest(f"{what} is not Unicode: it has half of a pair of surrogates") from None
    if size > longest:
        raise BadRequest(f"{what} is longer than {longest} bytes")
    return value


def _quoted(text: str) -> str:
    return json.dumps(text[:50])
