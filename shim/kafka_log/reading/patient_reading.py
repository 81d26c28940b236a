"""A partition is read on for as long as more comes in time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeVar

from protocol.own.position import Position
from shim.upstream.errors import UpstreamError
from shim.upstream.topic_reader import Fetched

Content = TypeVar("Content")


async def read_patiently(
    reading: AsyncGenerator[Fetched[Content], None], position: Position, patience_seconds: float, where: str
) -> AsyncGenerator[Fetched[Content], None]:
    """What a :class:`TopicReader` reads from ``position`` on, for ever. Raises UpstreamError where no batch comes for
    so long, not counting what who has called makes of each, and where the log is not the one that it was.

    ``where``: the partition, in words.
    """
    loop = asyncio.get_running_loop()
    reached, came_at = position.next_offset, loop.time()
    async with aclosing(reading):
        while True:
            try:
                async with asyncio.timeout_at(came_at + patience_seconds):
                    read = await anext(reading)
            except TimeoutError as error:
                raise UpstreamError(f"{where}: nothing more comes, behind offset {reached}") from error
            if read.is_reset:
                raise UpstreamError(f"{where} is not the log that it was when its reading began")
            yield read
            if read.batches:
                reached, came_at = read.position.next_offset, loop.time()
            elif loop.time() >= came_at + patience_seconds:
                raise UpstreamError(f"{where}: nothing more comes, behind offset {reached}")
