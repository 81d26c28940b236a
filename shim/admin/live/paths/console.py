"""What is behind the paths of the admin interface that the console asks for, and its files."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import web

from shim.admin.console import PageFile
from shim.admin.live.asked.shim import Shim
from shim.admin.live.guard.access import Access
from shim.admin.live.over_http.answering import ANSWER_SECONDS, json_response
from shim.admin.live.over_http.receiving import query_of
from shim.admin.live.over_http.sending import send_all
from shim.admin.live.requests.choosing import choice_of
from shim.admin.live.requests.fields import BadRequest
from shim.admin.live.requests.paging import page_of
from shim.admin.live.sampled.sampling import Sampler
from shim.admin.live.sampled.summary import summary_of, summary_row
from shim.admin.live.shown.documents import JSON, list_in_pieces
from shim.admin.live.shown.shim_rows import client_row, overview_row

POLICY = {
    "Content-Security-Policy": "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self'",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        )
    ),
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
}
"""The page loads nothing from anywhere else, runs nothing that is written into it, and is in no other page."""


class ConsolePaths:
    """Each takes a request and answers it. Raises BadRequest, NotKnown, Refused, NotReady, and TimeoutError where a
    look takes too long; ``access`` and ``recent_lag`` are answered by a shim that only starts, too."""

    def __init__(self, sampler: Sampler, shim: Shim, access: Access) -> None:
        self._sampler = sampler
        self._shim = shim
        self._access = access

    async def access(self, _: web.Request) -> web.StreamResponse:
        return json_response({"token_for": str(self._access.token_for)})

    async def overview(self, _: web.Request) -> web.StreamResponse:
        seen, ready = self._shim.overview(), not self._shim.missing()
        return json_response({**overview_row(seen, ready=ready), "token_for": str(self._access.token_for)})

    async def clients(self, request: web.Request) -> web.StreamResponse:
        return await send_all(request, JSON, list_in_pieces({}, "clients", map(client_row, self._shim.clients())))

    async def summary(self, request: web.Request) -> web.StreamResponse:
        page = page_of(query_of(request))
        async with asyncio.timeout(ANSWER_SECONDS):
            statuses = await self._sampler.statuses()
        lag, recent = self._sampler.lag, self._sampler.recent
        # All of them are looked at and put in order; clients have their turn meanwhile.
        head, chosen = await asyncio.to_thread(summary_of, statuses, lag, page)
        rows = [summary_row(each, lag, recent) for each in chosen]
        return await send_all(request, JSON, list_in_pieces(head, "groups", rows))

    async def recent_lag(self, request: web.Request) -> web.StreamResponse:
        names = choice_of(query_of(request)).names
        if names is None or len(names) != 1:
            raise BadRequest("one group has to be named: recent?group=…")
        return json_response({"group": names[0], "samples": self._sampler.recent(names[0])})


def file_handler(file: PageFile) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def send(_: web.Request) -> web.StreamResponse:
        return web.Response(body=file.content, content_type=file.content_type, charset="utf-8", headers=POLICY)

    return send
