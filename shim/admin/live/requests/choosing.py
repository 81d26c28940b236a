"""Which groups a request is about: some by name, those that fit a pattern, or all."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Sequence
from typing import Final, Generic, NamedTuple, TypeVar, get_args

from shim.admin.live.asked.migration import STEPS, Move, Source, StepMove
from shim.admin.live.requests.fields import BadRequest, cause_in, fields_of, fields_of_body, names_in, names_of, text_of

MOVES: Final[Sequence[Move]] = get_args(Move)
LOOKED_AT: Final[Sequence[StepMove]] = get_args(StepMove)
"""What a start would find is a question of its own."""

M = TypeVar("M", bound=str)

_LONGEST_PATTERN: Final = 1_000


class Choice(NamedTuple):
    """``names``: these, each once, in the order given; None: those that fit ``pattern``, or, without one, all."""

    names: tuple[str, ...] | None = None
    pattern: str | None = None

    def fitting(self, names: Iterable[str]) -> list[str]:
        """Of a choice without names: those of ``names`` that it means, sorted."""
        # As fnmatchcase does, which forgets all but a few patterns.
        fits = re.compile(fnmatch.translate("*" if self.pattern is None else self.pattern)).match
        return sorted(filter(fits, names))


class Meant(NamedTuple, Generic[M]):
    """Whom a move would be made with; ``at``: of those only the ones at that step."""

    move: M
    choice: Choice
    at: str | None


class Wanted(NamedTuple):
    """What a POST asks for; ``cause``: empty where none was given."""

    choice: Choice
    cause: str
    source: Source | None = None
    at: str | None = None


def wanted_of(body: bytes) -> Wanted:
    """Reads ``{"groups": [name…]}``, ``{"pattern": glob}`` or ``{"all": true}``, and with any of them
    ``"cause"`` and ``"from"``, and with one of the latter two ``"at"``.

    Raises :class:`BadRequest`.
    """
    document = fields_of_body(body, ("groups", "pattern", "all", "cause", "from", "at"))
    return Wanted(
        _choice_in(document),
        cause_in(document),
        _source(document["from"]) if "from" in document else None,
        _step(document["at"]) if "at" in document else None,
    )


def look_wanted(body: bytes) -> Meant[StepMove]:
    """Reads which groups, as :func:`wanted_of`, ``"move"``, one of :data:`LOOKED_AT`, and ``"at"``.

    Raises :class:`BadRequest`.
    """
    document = fields_of_body(body, ("groups", "pattern", "all", "move", "at"))
    move, at = _move(document.get("move"), LOOKED_AT), document.get("at")
    return Meant(move, _choice_in(document), None if at is None else _step(at))


def _choice_in(document: dict[str, object]) -> Choice:
    if len(document.keys() & {"groups", "pattern", "all"}) != 1:
        raise BadRequest("one of groups, pattern and all has to be given")
    if document.get("at") is not None and "groups" in document:
        raise BadRequest("groups that are named are tried wherever they are: at is for the others")
    if "all" in document:
        if document["all"] is not True:
            raise BadRequest("all can be true alone")
        return Choice()
    if "pattern" in document:
        return Choice(pattern=text_of(document["pattern"], "pattern", _LONGEST_PATTERN))
    return Choice(names_in(document))


def _step(given: object) -> str:
    if not isinstance(given, str) or given not in STEPS:
        raise BadRequest(f"at has to be one of {', '.join(STEPS)}")
    return given


def _move(given: object, moves: Sequence[M]) -> M:
    for move in moves:
        if given == move:
            return move
    raise BadRequest(f"move has to be one of {', '.join(moves)}")


def _source(given: object) -> Source:
    if not isinstance(given, str) or given not in set(Source):
        raise BadRequest(f"from has to be one of {', '.join(Source)}")
    return Source(given)


def choice_of(query: str) -> Choice:
    """Reads ``group=name&group=name…`` or ``pattern=glob``, percent-encoded; all without either.

    Raises :class:`BadRequest`.
    """
    given = fields_of(query, ("group", "pattern"))
    if len(given["pattern"]) + bool(given["group"]) > 1:
        raise BadRequest("groups by name, or one pattern")
    return Choice(names_of(given["group"])) if given["group"] else _by_pattern(given["pattern"])


def move_of(query: str) -> Meant[Move]:
    """Reads ``move=start`` (or another of :data:`MOVES`), and beside it ``pattern=glob``, all without that, and
    ``at=step``.

    Raises :class:`BadRequest`.
    """
    given = fields_of(query, ("move", "pattern", "at"))
    move = _move(given["move"][0] if len(given["move"]) == 1 else None, MOVES)
    if len(given["pattern"]) > 1:
        raise BadRequest("one pattern")
    if len(given["at"]) > 1:
        raise BadRequest("one step")
    return Meant(move, _by_pattern(given["pattern"]), _step(given["at"][0]) if given["at"] else None)


def _by_pattern(patterns: Sequence[str]) -> Choice:
    """None: all."""
    return Choice(pattern=text_of(patterns[0], "pattern", _LONGEST_PATTERN)) if patterns else Choice()
