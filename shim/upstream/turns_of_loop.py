"""The turns of each event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final
from weakref import WeakKeyDictionary, ref

from shim.upstream.turns import Turns

_TURNS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, Turns]] = WeakKeyDictionary()

_BEFORE_EACH: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, Callable[[], object]]] = WeakKeyDictionary()


def before_each_turn(call: Callable[[], object] | None) -> None:
    """Of the loop that runs: it has much to pass on, and others may want the core that it has. None: nothing any
    more. Whoever says that keeps the loop until then."""
    loop = asyncio.get_running_loop()
    _BEFORE_EACH.pop(loop, None)
    if call is not None:
        _BEFORE_EACH[loop] = call


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
            # By itself: what it raises is no reason for those who wait to stand still.
            if (before := _BEFORE_EACH.get(running)) is not None:
                running.call_soon(before)
            running.call_soon(turns.turn)

    turns = Turns(soon)
    return turns
