"""Many requests of a session, as many of them under way at once as it may have."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Any

from shim.offsets.zookeeper.kazoo_client import MOST_UNDER_WAY
from shim.offsets.zookeeper.session import Call, Session
from shim.offsets.zookeeper.znodes import EnsembleError, EnsembleUnavailable, NoZnode


async def ask_many(
    session: Session, asked: Iterable[tuple[str, Call]], wrong: dict[str, EnsembleError] | None
) -> list[Any]:
    """The answers, in the order of ``asked``: for each the path, and the call. None in the place of one that is not
    there; and with ``wrong`` of one that was refused, too: it has, of each of these paths, why.

    Raises :class:`EnsembleUnavailable`, and unless there is ``wrong`` the other :class:`EnsembleError`.
    """
    window: deque[tuple[asyncio.Future[Any], str]] = deque()
    answers: list[Any] = []

    async def oldest() -> None:
        future, path = window.popleft()
        try:
            answers.append(await session.answer(future, path))
        except EnsembleUnavailable:
            raise
        except EnsembleError as error:
            if wrong is not None:
                wrong[path] = error
            elif not isinstance(error, NoZnode):
                raise
            answers.append(None)

    try:
        for path, call in asked:
            if len(window) >= MOST_UNDER_WAY:
                await oldest()
            window.append((await session.send(call, path), path))
        while window:
            await oldest()
    finally:
        for future, _ in window:
            if not future.cancel():
                future.exception()  # nobody will ask for it
    return answers
