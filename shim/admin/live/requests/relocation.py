"""What a request about the places of the log asks for."""

from __future__ import annotations

from typing import Final

from shim.admin.live.requests.fields import BadRequest, fields_of, fields_of_body, number_in
from shim.relocation.words import Side

_WAITS_SECONDS: Final = 5.0
"""For another turn than the one that is given, at most."""


def awaited_of(query: str) -> tuple[int | None, float]:
    """Reads ``turn=number`` and ``seconds=number``: another turn than which one is waited for, None where nothing is,
    and how long. Raises :class:`BadRequest`."""
    given = fields_of(query, ("turn", "seconds"))
    turn, seconds = number_in(given, "turn"), number_in(given, "seconds")
    return turn, min(_WAITS_SECONDS, _WAITS_SECONDS if seconds is None else seconds)


def side_wanted(body: bytes) -> Side:
    """Reads ``{"to": SIDE}``. Raises :class:`BadRequest`."""
    to = fields_of_body(body, ("to",)).get("to")
    if not isinstance(to, str) or to not in set(Side):
        raise BadRequest(f"to has to be one of {', '.join(Side)}")
    return Side(to)
