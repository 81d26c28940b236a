"""The fields of a query or of a body: what is not known, or not what it should be, is refused with a line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from urllib.parse import parse_qsl

# A name is a string of Kafka's protocol, with a length of 16 bits.
_LONGEST_NAME: Final = 32_767
_LONGEST_CAUSE: Final = 1_000
_MOST_FIELDS: Final = 1_000
INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
_MOST_DIGITS: Final = len(str(INT64_MAX))


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


def number_of(value: object, what: str, least: int = 0, most: int = INT64_MAX) -> int:
    """Of a body. Raises :class:`BadRequest` for what is none from ``least`` to ``most``."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise BadRequest(f"{what} is not a whole number from {least} to {most}")
    return value


def once_in(given: Mapping[str, Sequence[str]], name: str) -> str | None:
    """The value of a field of a query, ``given`` as :func:`fields_of` has it; None where it is not there. Raises
    :class:`BadRequest` where it is there more than once."""
    if len(given[name]) > 1:
        raise BadRequest(f"{name} stands once")
    return given[name][0] if given[name] else None


def number_in(given: Mapping[str, Sequence[str]], name: str, most: int = INT64_MAX) -> int | None:
    """As :func:`once_in`, for a field with a number from 0 to ``most``."""
    text = once_in(given, name)
    return None if text is None else number_of(digits_in(text), name, most=most)


def digits_in(text: str) -> int | None:
    """The number that ``text`` is, in ASCII and no longer than 64 bits need; None where it is none."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS else None


def _quoted(text: str) -> str:
    return json.dumps(text[:50])
