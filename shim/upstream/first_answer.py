"""One broker is asked after the other, and none is waited for that hangs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from shim.config import HostPort
from shim.upstream.errors import UpstreamError

Answer = TypeVar("Answer")


class NoneAnswers(UpstreamError):
    """``failures``: why each of them has not. They are told in one order: the same trouble is the same line, whoever
    was asked first."""

    def __init__(self, failures: Sequence[UpstreamError]) -> None:
        super().__init__("; ".join(sorted(map(str, failures))) or "no broker is known")
        self.failures = failures


async def first_answer(
    addresses: Iterable[HostPort],
    ask: Callable[[HostPort], Awaitable[Answer]],
    next_after_seconds: float,
    decisive: tuple[type[UpstreamError], ...] = (),
) -> Answer:
    """What the first one says that answers. Where one has not for so long the next one is asked, too: it keeps all the
    time that it has, as all of them may be slow.

    ``decisive``: errors that are an answer. Raises NoneAnswers, and those.
    """
    left = list(dict.fromkeys(addresses))
    asked: set[asyncio.Future[Answer]] = set()
    done: set[asyncio.Future[Answer]] = set()
    failures = []
    try:
        while left or asked:
            if left:
                asked.add(asyncio.ensure_future(ask(left.pop(0))))
            done, asked = await asyncio.wait(
                asked, timeout=next_after_seconds if left else None, return_when=asyncio.FIRST_COMPLETED
            )
            for answered in done:
                try:
                    return answered.result()
                except decisive:
                    raise
                except UpstreamError as error:
                    failures.append(error)
    finally:
        for future in asked:
            future.cancel()
        # Those among them, too, that had failed in the very turn in which one of them answered.
        await asyncio.gather(*asked, *done, return_exceptions=True)
    raise NoneAnswers(failures)
