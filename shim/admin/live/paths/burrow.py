"""What is behind Burrow's paths."""

from __future__ import annotations

import asyncio
import time

from aiohttp import web

from shim.admin.live.asked.migration import NotKnown
from shim.admin.live.asked.shim import Shim
from shim.admin.live.over_http.answering import ANSWER_SECONDS, json_response
from shim.admin.live.over_http.sending import send_all
from shim.admin.live.sampled.as_burrow import Judged, answer, group_row, judged
from shim.admin.live.sampled.sampling import Sampler
from shim.admin.live.shown.documents import JSON, Row, list_in_pieces

_NO_ID = "cluster"
"""What a cluster is called that does not tell its id."""


class BurrowPaths:
    """The one cluster is called by its cluster id. Raises Refused, NotReady, and TimeoutError where a look takes too
    long; what there is not is answered as Burrow does, with 404."""

    def __init__(self, shim: Shim, sampler: Sampler) -> None:
        self._shim = shim
        self._sampler = sampler

    async def clusters(self, request: web.Request) -> web.StreamResponse:
        return _answered(request, "cluster list returned", {"clusters": [self._cluster()]})

    async def consumers(self, request: web.Request) -> web.StreamResponse:
        if self._is_elsewhere(request):
            return _not_found(request, "cluster not found")
        async with asyncio.timeout(ANSWER_SECONDS):
            names = [each.group for each in await self._sampler.statuses()]
        head = answer("consumer list returned", request.path, request.host, {})
        return await send_all(request, JSON, list_in_pieces(head, "consumers", names))

    async def lag(self, request: web.Request) -> web.StreamResponse:
        return await self._group(request, whole=True)

    async def status(self, request: web.Request) -> web.StreamResponse:
        return await self._group(request, whole=False)

    async def _group(self, request: web.Request, *, whole: bool) -> web.StreamResponse:
        if self._is_elsewhere(request):
            return _not_found(request, "cluster not found")
        group = request.match_info["group"]
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                partitions = await self._judged(group)
        except NotKnown:
            return _not_found(request, "cluster or consumer not found")
        row = group_row(self._cluster(), group, partitions, whole=whole)
        return _answered(request, "consumer status returned", {"status": row})

    async def _judged(self, group: str) -> list[Judged]:
        details = await self._shim.groups.details(group, with_last_commit=False)
        return judged(details, self._sampler.recent(group), int(time.time() * 1000))

    def _is_elsewhere(self, request: web.Request) -> bool:
        return request.match_info["cluster"] != self._cluster()

    def _cluster(self) -> str:
        return self._shim.overview().cluster_id or _NO_ID


def _answered(request: web.Request, message: str, more: Row) -> web.Response:
    return json_response(answer(message, request.path, request.host, more))


def _not_found(request: web.Request, message: str) -> web.Response:
    return json_response(answer(message, request.path, request.host, {}, error=True), 404)
