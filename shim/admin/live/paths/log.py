"""What is behind the paths of the admin interface that say where the log is, and move it."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from shim.admin.live.asked.shim import Shim
from shim.admin.live.over_http.answering import json_response
from shim.admin.live.over_http.receiving import body_of, query_of
from shim.admin.live.requests.relocation import awaited_of, side_wanted
from shim.admin.live.shown.shim_rows import places_row
from shim.counted import counted
from shim.relocation.words import CannotMove, Relocates, Side

_WHERE: Final = {str(Side.LOCAL): "its data directory", str(Side.KAFKA): "topics of the cluster"}


class LogPaths:
    """Each takes a request and answers it. Raises BadRequest, CannotMove, NotReady."""

    def __init__(self, shim: Shim) -> None:
        self._shim = shim

    @property
    def _relocation(self) -> Relocates:
        """Raises NotReady, CannotMove."""
        found = self._shim.relocation
        if found is None:
            whole = self._shim.overview()
            raise CannotMove(
                f"this shim has its log in one place, {_WHERE[whole.log]} ({counted(whole.partitions, 'partition')}): "
                "started with offsets.log=moving, it moves partitions"
            )
        return found

    async def places(self, request: web.Request) -> web.StreamResponse:
        turn, seconds = awaited_of(query_of(request))
        relocation = self._relocation
        return json_response(
            places_row(relocation.places() if turn is None else await relocation.changed(turn, seconds))
        )

    async def move(self, request: web.Request) -> web.StreamResponse:
        to = side_wanted(await body_of(request))
        return json_response(places_row(await self._relocation.begin(to)))
