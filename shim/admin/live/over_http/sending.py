"""Answers that may be large: made in pieces, and taken in time, or cut off."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from aiohttp import web

TAKEN_SECONDS: Final = 30.0
"""How long whoever asked may take none of what is sent."""


class Sending:
    """An answer that begins before its end is known. Whoever has asked may go away at any time."""

    def __init__(self, request: web.Request, content_type: str) -> None:
        self._request = request
        self._response = web.StreamResponse(headers={"Content-Type": content_type})

    @property
    def gone(self) -> bool:
        """Whether nobody is there any more."""
        return self._request.transport is None or self._request.transport.is_closing()

    async def begin(self) -> None:
        await self._response.prepare(self._request)

    async def send(self, piece: bytes) -> bool:
        """Whether somebody was there. Who takes none of it for too long is cut off."""
        return await self._taken(lambda: self._response.write(piece))

    async def end(self) -> web.StreamResponse:
        await self._taken(self._response.write_eof)
        return self._response

    async def _taken(self, write: Callable[[], Awaitable[None]]) -> bool:
        if self.gone:
            return False
        try:
            async with asyncio.timeout(TAKEN_SECONDS):
                await write()
        except ConnectionError:
            return False
        except TimeoutError:
            if self._request.transport is not None:
                self._request.transport.abort()
            return False
        return True


async def send_all(request: web.Request, content_type: str, pieces: Iterable[bytes]) -> web.StreamResponse:
    """Each piece is made when the one before is out, and clients of the shim have their turn between them."""
    sending = Sending(request, content_type)
    await sending.begin()
    for piece in pieces:
        if not await sending.send(piece):
            break
        await asyncio.sleep(0)
    return await sending.end()
