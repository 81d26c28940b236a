"""The turns of each event loop."""

from __future__ import annotations

import asyncio
from typing import Final
from weakref import WeakKeyDictionary, ref

from shim.upstream.turns import Turns

_TURNS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, Turns]] = WeakKeyDictionary()


def turns_of_loop() -> Turns:
    """Those of the loop that runs."""
    loop = asyncio.get_running_loop()
    turns = _TURNS.get(loop)
    if turns is None:
        turns = _TURNS[loop] = _made(loop)
    return turns


def _made(loop: asyncio.AbstractEventLoop) -> Turns:
    of = ref(loop)  # what is in the dictionary must not keep its key

    def soon() -> None:
        if (running := of()) is not None:
            running.call_soon(turns.turn)

    turns = Turns(soon)
    return turns
