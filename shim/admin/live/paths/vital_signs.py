"""Whether the shim lives, whether it can serve, and its metrics: for those who ask again and again."""

from __future__ import annotations

import asyncio
from typing import Final

from aiohttp import web
from aiohttp.hdrs import ACCEPT

from shim.admin.live.asked.shim import Shim
from shim.admin.live.over_http.answering import json_response
from shim.admin.live.shown.documents import one_line
from shim.admin.live.shown.exposition import exposed

_ANSWER_SECONDS: Final = 20.0


class VitalSigns:
    """Each takes a request and answers it. ``metrics`` raises NotReady, and TimeoutError."""

    def __init__(self, shim: Shim) -> None:
        self._shim = shim

    async def livez(self, _: web.Request) -> web.StreamResponse:
        """That there is an answer says that the event loop turns; whatever it cannot go on after ends the process."""
        return json_response({"alive": True})

    async def readyz(self, _: web.Request) -> web.StreamResponse:
        missing = list(map(one_line, self._shim.missing()))
        return json_response({"ready": not missing, "missing": missing}, 503 if missing else 200)

    async def metrics(self, request: web.Request) -> web.StreamResponse:
        async with asyncio.timeout(_ANSWER_SECONDS):
            series = await self._shim.metrics()
            content_type, body = await asyncio.to_thread(exposed, series, request.headers.get(ACCEPT, ""))
        return web.Response(body=body, headers={"Content-Type": content_type})
