"""What is behind the path of the interface's own description."""

from __future__ import annotations

from aiohttp import web

from shim.admin.live.described.openapi import document
from shim.admin.live.over_http.answering import json_response


async def send_description(_: web.Request) -> web.StreamResponse:
    return json_response(document())
