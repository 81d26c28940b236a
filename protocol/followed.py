"""How far another log has been taken over into this one, said in the batch that was taken over: a header of its record.

A record header, as every reader of the format passes over those that it does not know. The position is durable with
what it is the position of, or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Final, NamedTuple

Header = tuple[str, bytes | None]

POSITION_HEADER: Final = "offset-shim.position"

_POSITION: Final = Struct(">iq")


class Position(NamedTuple):
    """All offsets of that partition below ``next_offset`` have been taken over, or are no concern."""

    partition: int
    next_offset: int


def position_header(position: Position) -> Header:
    """Raises struct.error for numbers beyond an int32 and an int64."""
    return POSITION_HEADER, _POSITION.pack(*position)


def position_of(headers: Iterable[Header]) -> Position | None:
    """What the headers of a record say; None when they say nothing, or it is malformed."""
    for name, value in headers:
        if name == POSITION_HEADER and value is not None and len(value) == _POSITION.size:
            return Position(*_POSITION.unpack(value))
    return None
