"""The fields of a query or of a body: what is not known, or not what it should be, is refused with a line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Final
from urllib.parse import parse_qsl

# A name is a string of Kafka's protocol, with a length of 16 bits.
_LONGEST_NAME: Final = 32_767
_LONGEST_CAUSE: Final = 1_000
_MOST_FIELDS: Final = 1_000


class BadRequest(ValueError):
    """A request that cannot be understood; the message is one line."""


def fields_of(query: str, known: Sequence[str]) -> dict[str, list[str]]:
    """The values of each of the ``known`` fields, in the order given."""
    try:
        fields = parse_qsl(
            query, keep_blank_values=True, strict_parsing=bool(query), errors="strict", max_num_fields=_MOST_FIELDS
        )
    except ValueError:
        raise BadRequest("the query is not name=value&… in percent-encoded UTF-8") from None
    given: dict[str, list[str]] = {name: [] for name in known}
    for name, value in fields:
        if name not in given:
            raise BadRequest(f"{_quoted(name)} is not known: {', '.join(known[:-1])} and {known[-1]} are")
        given[name].append(value)
    return given


def fields_of_body(body: bytes, known: Sequence[str]) -> dict[str, object]:
    """Of a JSON object with none but the ``known`` ones. Raises :class:`BadRequest`."""
    try:
        document = json.loads(body.decode())
    except (ValueError, RecursionError):
        raise BadRequest("the body is not JSON") from None
    if not isinstance(document, dict):
        raise BadRequest("the body is not a JSON object")
    if unknown := sorted(document.keys() - set(known)):
        raise BadRequest(f"{_quoted(unknown[0])} is not known: {', '.join(known[:-1])} and {known[-1]} are")
    return document


def cause_in(document: dict[str, object]) -> str:
    """Empty where none was given. Raises :class:`BadRequest`."""
    return text_of(document.get("cause", ""), "cause", _LONGEST_CAUSE)


def group_in(document: dict[str, object]) -> str:
    """Raises :class:`BadRequest`."""
    return text_of(document.get("group"), "group", _LONGEST_NAME)


def names_in(document: dict[str, object]) -> tuple[str, ...]:
    """As :func:`names_of`."""
    names = document.get("groups")
    if not isinstance(names, list) or not names:
        raise BadRequest("groups is not a list of names")
    return names_of(names)


def names_of(names: Iterable[object]) -> tuple[str, ...]:
    """Of groups, each once. Raises :class:`BadRequest`."""
    return tuple(dict.fromkeys(text_of(name, "a group's name", _LONGEST_NAME) for name in names))


def text_of(value: object, what: str, longest: int) -> str:
    """Raises :class:`BadRequest` for what is none, or longer than so many bytes."""
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
