"""One broker is asked after the other, and none is waited for that hangs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

from shim.config import HostPort
from shim.upstream.errors import UpstreamError

NEXT_AFTER_SECONDS: Final = 1.0
"""When a broker has not answered by then it may hang: the next one is asked, too, while clients have patience."""

Answer = TypeVar("Answer")


class NoneAnswers(UpstreamError):
    """``failures``: why each of them has not, as it was last. They are told in one order: the same trouble is the same
    line, whoever was asked first."""

    def __init__(self, failures: Iterable[UpstreamError]) -> None:
        self.failures = list(failures)
        super().__init__("; ".join(sorted(map(str, self.failures))) or "no broker is known")


async def first_answer(
    addresses: Iterable[HostPort],
    ask: Callable[[HostPort], Awaitable[Answer]],
    next_after_seconds: float,
    decisive: tuple[type[UpstreamError], ...] = (),
) -> Answer:
    """What the first one says that answers. Where one has not for so long the next one is asked, too: it keeps all the
    time that it has, as all of them may be slow.

    So one that hangs is waited for where all others have failed, as nobody has said anything yet. But not for it alone:
    each time that so much more has gone by they are asked again, as they may be back long before its time is over. When
    all have had their time that is the end, whatever is asked again by then.

    ``decisive``: errors that are an answer. Raises NoneAnswers, and those.
    """
    left = list(dict.fromkeys(addresses))
    asked: dict[asyncio.Future[Answer], HostPort] = {}
    first: set[asyncio.Future[Answer]] = set()
    failures: dict[HostPort, UpstreamError] = {}

    def begin(address: HostPort) -> asyncio.Future[Answer]:
        future = asyncio.ensure_future(ask(address))
        asked[future] = address
        return future

    try:
        while left or first:
            if left:
                first.add(begin(left.pop(0)))
            timeout = next_after_seconds if left or failures else None
            done, _ = await asyncio.wait(asked, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            for answered in done:
                try:
                    return answered.result()
                except decisive:
                    raise
                except UpstreamError as error:
                    failures[asked.pop(answered)] = error
                    first.discard(answered)
            if not done and not left:
                for address in [each for each in failures if each not in asked.values()]:
                    begin(address)
    finally:
        for future in asked:
            future.cancel()
        # Those among them, too, that had failed in the very turn in which one of them answered.
        await asyncio.gather(*asked, return_exceptions=True)
    raise NoneAnswers(failures.values())
