"""JSON as the admin interface sends it: everything is ASCII, in one line."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

JSON: Final = "application/json"
LINES: Final = "application/x-ndjson"
"""JSON in lines, a document each."""

_ROWS_A_PIECE: Final = 500

Row = dict[str, Any]
"""Of one group, mostly; with ``error`` (a line) and ``kind`` where something could not be done with it."""


def encoded(document: object) -> bytes:
    """Without an end of line."""
    return json.dumps(document, separators=(",", ":")).encode("ascii")


def list_in_pieces(document: Row, name: str, rows: Iterable[Row | str]) -> Iterator[bytes]:
    """``document``, and in it at last the list ``name`` of all ``rows``: each piece is some milliseconds' work."""
    left = iter(rows)
    separator = encoded({**document, name: []})[:-2]
    while some := list(itertools.islice(left, _ROWS_A_PIECE)):
        yield separator + encoded(some)[1:-1]
        separator = b","
    yield b"]}" if separator == b"," else separator + b"]}"


def renamed(row: Row, names: Mapping[str, str]) -> Row:
    """In the same order. ``names``: what is shown under another name."""
    return {names.get(name, name): value for name, value in row.items()}


def one_line(error: object) -> str:
    return " ".join(str(error).split())
