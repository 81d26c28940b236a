"""What is shown, as text: tables, JSON, and what others chose."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence


def shown(text: str) -> str:
    """Text that others chose, in one line: what would end that, or a terminal would act on or cannot show, is
    escaped."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape", "surrogatepass").decode("ascii")
        for character in text
    )


def table_lines(headings: Sequence[str], rows: Sequence[Sequence[str | int]]) -> Iterator[str]:
    """Columns as wide as they need to be, numbers to the right; two spaces between."""
    cells = [tuple(f"{cell}" if isinstance(cell, int) else shown(cell) for cell in row) for row in rows]
    widths = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]
    numbers = [bool(rows) and all(isinstance(row[at], int) for row in rows) for at in range(len(headings))]
    for row in (headings, *cells):
        padded = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numbers, strict=True)
        ]
        yield "  ".join(padded).rstrip()


def json_text(document: object) -> str:
    """In ASCII, so that any text can be in it, whatever the locale."""
    return json.dumps(document, indent=2)
