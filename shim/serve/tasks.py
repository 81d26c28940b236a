"""What goes on beside requests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import Any

log = logging.getLogger("shim")


async def keep_up(what: str, chore: Callable[[], Awaitable[None]], pause: float = 10.0) -> None:
    """Do it for ever, begun again ``pause`` seconds after it broke off: no bug in a chore stops produce and fetch."""
    while True:
        try:
            await chore()
        except Exception:
            log.exception("%s broke off; it begins again in %g s", what, pause)
        await asyncio.sleep(pause)


async def first_of(wanted: asyncio.Future[Any], stop: asyncio.Event, tasks: Collection[asyncio.Task[None]]) -> bool:
    """Wait for ``wanted`` (True; what it raises is raised) or ``stop`` (False).

    ``wanted`` is given up otherwise. A task that ends meanwhile ends the shim.
    """
    stopped = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([wanted, stopped, *tasks], return_when=asyncio.FIRST_COMPLETED)
        if wanted.done():
            wanted.result()
    finally:
        stopped.cancel()
        # What becomes of it after that is nobody's business any more.
        wanted.add_done_callback(lambda given_up: given_up.cancelled() or given_up.exception())
        wanted.cancel()
    for task in tasks:
        if task.done():
            task.result()
            raise RuntimeError(f"the {task.get_name()} task ended by itself")
    return not stop.is_set()
