"""A step that the cluster keeps waiting: clients of the group are told to ask again meanwhile, so it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from protocol.own.state_log import Step
from shim.migration.moving import stepping
from shim.migration.moving.locks import GroupLocks
from shim.migration.moving.stepping import Stepping
from shim.migration.reader import GroupReader
from shim.migration.stores import Stores
from shim.offsets.store import StoreUnavailable


class Waits:
    """Of all three: a group at ``before``, and a cluster that does not say what it has."""

    group = "g"

    def __init__(self, before: Step) -> None:
        self.mirror = self
        self.before = before
        self.taken: list[Step] = []

    @asynccontextmanager
    async def locked(self, *_: object) -> AsyncIterator[Waits]:
        yield self

    def coordinator(self, _group: str) -> Waits:
        return self

    def step_of(self, _group: str) -> Step:
        return self.before

    def from_zookeeper(self, _group: str) -> bool:
        return False

    async def quiet(self) -> None: ...

    async def in_cluster(self, _group: str) -> str:
        return ""

    def try_nowhere(self, _group: str) -> None: ...

    async def fed(self, _group: str) -> None:
        await asyncio.get_running_loop().create_future()

    async def take_in_hand(self, _hands: object, _cause: str, step: Step, **_: Any) -> None:
        self.taken.append(step)


async def test_towards_the_cluster_it_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stepping, "_STEP_SECONDS", 0.01)
    waits = Waits(Step.KAFKA)
    with pytest.raises(StoreUnavailable, match=r"has not said in 0\.01 s that it has the newest offsets"):
        await Stepping(cast(GroupLocks, waits), cast(GroupReader, waits), cast(Stores, waits)).move(
            "g", Step.UPSTREAM_DUAL, "a test"
        )
    assert waits.taken == []


async def test_on_the_way_back_it_is_taken_without_that(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(stepping, "_STEP_SECONDS", 0.01)
    waits = Waits(Step.UPSTREAM_DUAL)
    await Stepping(cast(GroupLocks, waits), cast(GroupReader, waits), cast(Stores, waits)).move(
        "g", Step.KAFKA, "a test"
    )
    assert waits.taken == [Step.KAFKA]
    assert "is not compared to the cluster on its way back: the cluster has not said in 0.01 s" in caplog.text
