"""At kafka+dual, without ZooKeeper: a commit that is a way back to what both had, and the shim is killed when only a
part of what was decided with it is on the disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue
from protocol.own.position import Position
from protocol.own.state_log import STATE_TOPIC
from shim.coordinator import FollowedBatch, TransactionEnd
from shim.log import OFFSETS_TOPIC
from tests.migration.simulated import virtual_time
from tests.migration.simulated.disk import WritesOf
from tests.migration.simulated.dual_place import GROUP, SOON, DualPlace, at_kafka_dual
from tests.migration.simulated.shim_process import TOPIC, NotDone

BOTH_HAD, CLIENTS, CONSUMERS = 9, 60, 70

_FOLLOWED: Final = 3
_Commits = Callable[[DualPlace], Coroutine[Any, Any, None]]


@pytest.fixture(autouse=True)
def _writes_in_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shim.runtime.writer.WritingThread", WritesOf)


async def _plainly(at: DualPlace) -> None:
    with suppress(NotDone):
        await at.commit({0: BOTH_HAD})


def _follow(at: DualPlace, read: FollowedBatch | TransactionEnd) -> None:
    at.shim.runtime.decide(0, lambda coordinator, now: coordinator.follow(now, read))


def _end() -> TransactionEnd:
    return TransactionEnd(1, 0, Position(_FOLLOWED, 2), committed=True, coordinator_epoch=0)


async def _in_a_transaction(at: DualPlace) -> None:
    _follow(at, _end())


async def _begins(at: DualPlace) -> None:
    records = [(OffsetCommitKey(GROUP, TOPIC, 0), OffsetCommitValue(BOTH_HAD))]
    _follow(at, FollowedBatch(1, 0, Position(_FOLLOWED, 1), records))
    await at.shim.runtime.settled(0)


@pytest.mark.parametrize("torn_before", [OFFSETS_TOPIC, STATE_TOPIC])
@pytest.mark.parametrize("commits", [_plainly, _in_a_transaction])
def test_what_a_consumer_wrote_before_is_older(commits: _Commits, torn_before: str, tmp_path: Path) -> None:
    async def lived() -> None:
        async with at_kafka_dual(tmp_path, BOTH_HAD) as at:
            at.shim.ensemble.lose()
            at.consumer(0, CONSUMERS)
            await at.commit({0: CLIENTS})
            if commits is _in_a_transaction:
                await _begins(at)
            killed = asyncio.Event()
            at.shim.disk.tear(killed.set, torn_before)
            task = asyncio.create_task(commits(at))
            await killed.wait()
            await at.ends_suddenly()
            await task
            if commits is _in_a_transaction:
                (coordinator,) = filter(None, [at.shim.runtime.coordinator(0)])
                coordinator.caught_up(_FOLLOWED)
                await commits(at)  # as it may not have been taken over
                await asyncio.sleep(SOON)
            assert at.log == at.zookeeper
            assert at.log[0] in (CLIENTS, BOTH_HAD)

    virtual_time.run(lived())
