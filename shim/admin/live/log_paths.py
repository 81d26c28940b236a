"""What is behind the paths of the admin interface that say where the log is, and move it."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from shim.admin.live.asked.watched import Watched
from shim.admin.live.over_http.answering import error_response, json_response
from shim.admin.live.over_http.receiving import body_of, query_of
from shim.admin.live.requests.fields import BadRequest, fields_of, fields_of_body
from shim.admin.live.shown.documents import Row, one_line
from shim.counted import counted
from shim.relocation.words import CannotMove, LogPlaces, Relocates, Side

_WAITS_SECONDS: Final = 5.0
"""For another turn than the one that is given, at most."""
_LONGEST_NUMBER: Final = 18
_WHERE: Final = {str(Side.LOCAL): "its data directory", str(Side.KAFKA): "topics of the cluster"}


class LogPaths:
    """Each takes a request and answers it. Raises BadRequest, NotReady."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched

    @property
    def _relocation(self) -> Relocates:
        """Raises NotReady, CannotMove."""
        found = self._watched.relocation
        if found is None:
            whole = self._watched.overview()
            raise CannotMove(
                f"this shim has its log in one place, {_WHERE[whole.log]} ({counted(whole.partitions, 'partition')}): "
                "started with offsets.log=moving, it moves partitions"
            )
        return found

    async def places(self, request: web.Request) -> web.StreamResponse:
        turn, seconds = _awaited(query_of(request))
        try:
            relocation = self._relocation
        except CannotMove as error:
            return error_response(409, one_line(error))
        return _document(relocation.places() if turn is None else await relocation.changed(turn, seconds))

    async def move(self, request: web.Request) -> web.StreamResponse:
        to = fields_of_body(await body_of(request), ("to",)).get("to")
        if not isinstance(to, str) or to not in set(Side):
            raise BadRequest(f"to has to be one of {', '.join(Side)}")
        try:
            return _document(await self._relocation.begin(Side(to)))
        except CannotMove as error:
            return error_response(409, one_line(error))


def _awaited(query: str) -> tuple[int | None, float]:
    """Raises BadRequest."""
    given = fields_of(query, ("turn", "seconds"))
    numbers: list[int | None] = []
    for name, values in given.items():
        if len(values) > 1 or any(not each.isdecimal() or len(each) > _LONGEST_NUMBER for each in values):
            raise BadRequest(f"{name} is a number")
        numbers.append(int(values[0]) if values else None)
    turn, seconds = numbers
    return turn, min(_WAITS_SECONDS, _WAITS_SECONDS if seconds is None else seconds)


def _document(found: LogPlaces) -> web.StreamResponse:
    row: Row = {
        "partitions": [each._asdict() for each in found.partitions],
        "to": None if found.to is None else str(found.to),
        "turn": found.turn,
        "warning": found.warning,
    }
    return json_response(row)
