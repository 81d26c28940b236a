"""At kafka+dual, without ZooKeeper: a commit that is a way back to what both had, and the shim is killed when only a
part of what was decided with it is on the disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from protocol.own.state_log import STATE_TOPIC
from protocol.partition import OFFSETS_TOPIC
from shim.coordinator import GroupCoordinator, Outcome
from shim.migration.dual.log_side import LogSide
from shim.offsets.store import Partition
from shim.runtime.own_ticket import OwnTicket
from tests.migration.simulated import virtual_time
from tests.migration.simulated.disk import WritesOf
from tests.migration.simulated.dual_place import GROUP, DualPlace, at_kafka_dual
from tests.migration.simulated.shim_process import CALLER, TOPIC, NotDone

BOTH_HAD, CARRIED, CLIENTS, CONSUMERS = 9, 50, 60, 70

_Commits = Callable[[DualPlace], Coroutine[Any, Any, None]]


@pytest.fixture(autouse=True)
def _writes_in_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shim.disk_log.writer.WritingThread", WritesOf)


async def _plainly(at: DualPlace) -> None:
    with suppress(NotDone):
        await at.commit({0: BOTH_HAD})


async def _in_a_transaction(at: DualPlace) -> None:
    at.transactions.end()


@pytest.mark.parametrize("torn_before", [OFFSETS_TOPIC, STATE_TOPIC])
@pytest.mark.parametrize("commits", [_plainly, _in_a_transaction])
def test_what_a_consumer_wrote_before_is_older(commits: _Commits, torn_before: str, tmp_path: Path) -> None:
    async def lived() -> None:
        async with at_kafka_dual(tmp_path, BOTH_HAD) as at:
            at.shim.ensemble.lose()
            at.consumer(0, CONSUMERS)
            await at.commit({0: CLIENTS})
            if commits is _in_a_transaction:
                await at.transactions.begin(BOTH_HAD)
            killed = asyncio.Event()
            at.shim.disk.tear(killed.set, torn_before)
            task = asyncio.create_task(commits(at))
            await killed.wait()
            await at.ends_suddenly()
            await task
            assert at.log == at.zookeeper
            assert at.log[0] in (CLIENTS, BOTH_HAD)

    virtual_time.run(lived())


@pytest.mark.parametrize("torn_before", [OFFSETS_TOPIC, STATE_TOPIC])
def test_a_deletion_behind_it_that_is_there_in_part_does_not_make_that_newer(torn_before: str, tmp_path: Path) -> None:
    async def lived() -> None:
        async with at_kafka_dual(tmp_path, BOTH_HAD) as at:
            at.shim.ensemble.lose()
            at.consumer(0, CONSUMERS)
            for offset in (CLIENTS, BOTH_HAD):
                await at.commit({0: offset})
            killed = asyncio.Event()
            at.shim.disk.tear(killed.set, torn_before)
            at.shim.runtime.submit(0, _deleted, OwnTicket())
            await killed.wait()
            await at.ends_suddenly()
            assert at.log in ({0: BOTH_HAD}, {})
            assert at.log == at.zookeeper

    virtual_time.run(lived())


def _deleted(coordinator: GroupCoordinator, now: int, asker: Any) -> Outcome:
    partition = OffsetDeleteRequestPartition(0)
    request = OffsetDeleteRequest(GROUP, (OffsetDeleteRequestTopic(TOPIC, (partition,)),))
    return coordinator.offset_delete(now, CALLER, 0, request, asker)


def test_a_way_back_to_what_was_carried_just_now_is_newer_than_what_a_consumer_wrote_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lived() -> None:
        async with at_kafka_dual(tmp_path, BOTH_HAD) as at:
            begun = asyncio.Event()
            carry = LogSide.carry

            async def carried(self: LogSide, group: str, offsets: Mapping[Partition, int]) -> None:
                carrying = asyncio.ensure_future(carry(self, group, offsets))
                await asyncio.sleep(0)  # it is decided
                begun.set()
                await carrying

            monkeypatch.setattr(LogSide, "carry", carried)
            at.consumer(0, CARRIED)
            await begun.wait()
            at.consumer(0, CONSUMERS)
            await asyncio.gather(*(at.commit({0: offset}) for offset in (CLIENTS, CARRIED)))
            await at.ends_suddenly()
            assert at.log == at.zookeeper == {0: CARRIED}

    virtual_time.run(lived())
