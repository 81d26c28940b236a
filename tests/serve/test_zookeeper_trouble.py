"""A ZooKeeper that is away at the start is a line, and that it is there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import cast

import pytest

from shim.migration.dual.lookup import Lookup
from shim.offsets.store import StoreUnavailable
from shim.offsets.zookeeper.ensemble import Ensemble
from shim.offsets.zookeeper.znodes import EnsembleUnavailable
from shim.serve import zookeeper


class _Away:
    """For two times that it is asked."""

    def __init__(self, error: Exception) -> None:
        self._errors = [error] * 2

    def _answer(self) -> None:
        if self._errors:
            raise self._errors.pop()

    async def start(self, _: float) -> None:
        self._answer()

    async def groups(self) -> list[str]:
        self._answer()
        return ["g"]


async def _begin(over: asyncio.Event) -> None:
    ensemble = cast(Ensemble, _Away(EnsembleUnavailable("it is away")))
    await zookeeper.begin_session(ensemble, asyncio.Event(), over, waits=False)


async def _look(over: asyncio.Event) -> None:
    async def found() -> None:
        over.set()

    session = asyncio.Event()
    session.set()
    lookup = cast(Lookup, _Away(StoreUnavailable("it is away")))
    await zookeeper.look_for_groups(lookup, session, found, "z:2181")


@pytest.mark.parametrize(
    ("run", "what"),
    [(_begin, "offsets in ZooKeeper are not served"), (_look, "what groups are in ZooKeeper is not known")],
)
async def test_that_it_is_there_is_a_line(
    run: Callable[[asyncio.Event], Awaitable[None]],
    what: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.INFO, "shim")
    monkeypatch.setattr(zookeeper, "_START_SECONDS", 0.001)
    over = asyncio.Event()
    running = asyncio.ensure_future(run(over))
    async with asyncio.timeout(30):
        await over.wait()
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert caplog.messages[:2] == [f"{what} for now: it is away", f"this is over: {what}"]
