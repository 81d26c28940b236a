"""A response that tells a client that topics were made or deleted is kept until the shim has noticed it, too: such a
client need not ask where they are before it commits, or asks what is committed.

The brokers may hear of it later than whoever has made the response, and that by moments: so they are asked again. Where
no broker has shown it in time the response goes on, as it cannot be taken back. But it says that what was known is
not there any more: then the topic is in doubt, until all brokers say the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar

from protocol.api import Api
from protocol.errors import DecodeError
from protocol.wire import ZERO_UUID
from shim.api.call import SIZE_FIELD, Services

Changes = Mapping[str, bytes | None]
"""Of topics: the id with which each was made, zero where that is not told; None of one that was deleted."""

Response = TypeVar("Response", bound=tuple[Any, ...])

_AGAIN_FOR_SECONDS: Final = 1.0
_PAUSE_SECONDS: Final = 0.02
_LONGEST_SECONDS: Final = 3.0
"""With the looks of other processes: as long as for Metadata."""


def kept(
    services: Services, api: Api[Any, Response], version: int, frame: bytes, changes: Callable[[Response], Changes]
) -> bytes | Coroutine[Any, Any, bytes]:
    """The frame as it is; later, where there is something to be noticed."""
    try:
        _, response = api.parse_response(version, frame, SIZE_FIELD)
    except DecodeError:
        return frame
    its = _of_concern(services, changes(response))
    return _kept(services, its, frame) if its else frame


async def _kept(services: Services, changes: Changes, frame: bytes) -> bytes:
    await noticed(services, changes)
    return frame


def _of_concern(services: Services, changes: Changes) -> Changes:
    return changes if services.elsewhere is not None else services.topics.of_concern(changes)


async def noticed(services: Services, changes: Changes) -> None:
    """By this process and by all others that have partitions."""
    changes = _of_concern(services, changes)
    begun = asyncio.get_running_loop().time()
    left = changes
    try:
        left = await services.topics.look_for(left)
        while left and asyncio.get_running_loop().time() - begun < _AGAIN_FOR_SECONDS:
            await asyncio.sleep(_PAUSE_SECONDS)  # between two requests
            left = await services.topics.look_for(left)
    finally:  # also where the client has left: it comes again
        services.topics.suspect(left)
    if services.elsewhere is None or not changes:
        return
    # What a broker has shown here it shows them, too.
    with suppress(TimeoutError):
        async with asyncio.timeout_at(begun + _LONGEST_SECONDS):
            if made := {name: ZERO_UUID for name, its in changes.items() if its is not None}:
                await services.elsewhere.looked_at(made, has_ids=False)
            if deleted := changes.keys() - made.keys():
                await services.elsewhere.looked_for(deleted)
