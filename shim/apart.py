"""Blocking calls that may never come back, as of a file that is a pipe, or on a disk that is far away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import TypeVar, TypeVarTuple

_Arguments = TypeVarTuple("_Arguments")
_Result = TypeVar("_Result")


async def apart(call: Callable[[*_Arguments], _Result], *args: *_Arguments) -> _Result:
    """What it gives, or raises, in a thread of its own, for which nobody waits who does not wait for this: the event
    loop waits at its end for those of :func:`asyncio.to_thread`, and the interpreter for those of an executor."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[_Result] = loop.create_future()

    def give(value: _Result) -> None:
        if not result.done():
            result.set_result(value)

    def fail(error: BaseException) -> None:
        if not result.done():
            result.set_exception(error)

    def run() -> None:
        with suppress(RuntimeError):  # there is no loop any more, and so nobody who waits
            try:
                value = call(*args)
            except BaseException as error:
                loop.call_soon_threadsafe(fail, error)
            else:
                loop.call_soon_threadsafe(give, value)

    Thread(target=run, name=f"apart-{getattr(call, '__name__', 'call')}", daemon=True).start()
    return await result
