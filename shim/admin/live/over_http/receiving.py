"""What has come of a request: its query, and its body in time."""

from __future__ import annotations

import asyncio
from typing import Final

from aiohttp import web

REQUEST_SECONDS: Final = 10.0
"""How long a request may take to arrive, its head and its body each."""


async def body_of(request: web.Request) -> bytes:
    async with asyncio.timeout(REQUEST_SECONDS):
        return await request.read()


def query_of(request: web.Request) -> str:
    """As it was sent."""
    return request.raw_path.partition("?")[2]
