"""Expired offsets and deleted groups on their way to the disk."""

from __future__ import annotations

import asyncio
import errno
import logging
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeletableGroupResult
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.own.history_log import HISTORY_TOPIC
from protocol.own.state_log import STATE_TOPIC
from shim.config import Settings
from shim.coordinator import CoordinatorSettings
from shim.runtime import Clock, OffsetsRetention
from tests.runtime.held_log import WAIT_SECONDS, Teller
from tests.runtime.running import CALLER, PARTITIONS, TOPIC, Running, offset_in, running
from tests.waiting import until, until_told

SETTINGS = Settings(offsets_topic_num_partitions=PARTITIONS)
WEEK_MS = 7 * 24 * 3_600_000
YEAR_MS = 365 * 24 * 3_600_000


class SetForward(Clock):
    """The machine's clock was ahead by so much at the start, and was then set right."""

    def __init__(self, ms: int) -> None:
        super().__init__()
        self._offset_ns += ms * 1_000_000


async def commit_at(shim: Running, group: str, timestamp: int, partitions: int = 1, first: int = 0) -> None:
    request = OffsetCommitRequest(
        group_id=group,
        topics=(
            OffsetCommitRequestTopic(
                TOPIC,
                partitions=tuple(
                    OffsetCommitRequestPartition(n, 5, commit_timestamp=timestamp)
                    for n in range(first, first + partitions)
                ),
            ),
        ),
    )
    ticket = shim.ticket("commit")
    shim.runtime.submit(
        shim.runtime.partition_of(group),
        lambda coordinator, now, asker: coordinator.offset_commit(now, CALLER, 1, request, asker),
        ticket,
    )
    assert (await ticket.result()).topics[0].partitions[0].error_code == ErrorCode.NONE


def delete(shim: Running, group: str) -> Teller:
    ticket = shim.ticket("delete")
    shim.runtime.submit(
        shim.runtime.partition_of(group),
        lambda coordinator, now, asker: coordinator.delete_group(now, CALLER, group, asker),
        ticket,
    )
    return ticket


async def offset_count(shim: Running, group: str) -> int:
    fetched = await shim.fetch(group).result()
    return sum(len(topic.partitions) for topic in fetched.topics)


async def gone(shim: Running, group: str) -> None:
    """Ask for the group's offset until there is none."""

    async def ask() -> bool:
        return offset_in(await shim.fetch(group).result()) is None

    await until_told(ask)


async def test_expired_offsets_are_gone_after_a_restart_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "shim.runtime.offsets_retention")
    clock = Clock()
    async with running(tmp_path) as shim:
        shim.log.release(1_000)
        old, new = shim.group_in(1), shim.group_in(1, 1)
        await commit_at(shim, old, clock.now() - WEEK_MS, 3_000)
        await commit_at(shim, new, clock.now() - WEEK_MS + 3_600_000)
        async with asyncio.timeout(WAIT_SECONDS):
            await OffsetsRetention(shim.runtime, SETTINGS, clock).check(1)
        (told,) = (each.getMessage() for each in caplog.records)
        assert "deleted 3,000 expired offsets (" in told
        assert told.endswith(", and 1 empty group")
        assert offset_in(await shim.fetch(old).result()) is None
        assert offset_in(await shim.fetch(new).result()) == 5
        tombstones = [
            key
            for writes in shim.log.writes
            for write in writes
            for records in write.records
            if isinstance(records, list)
            for key, value in records
            if value is None
        ]
        assert len(tombstones) == 3_001, "of its offsets, and of the group"
    async with running(tmp_path) as shim:
        shim.log.release(1_000)
        assert offset_in(await shim.fetch(old).result()) is None
        assert offset_in(await shim.fetch(new).result()) == 5


async def test_a_clock_that_was_wrong_at_the_start_expires_nothing(tmp_path: Path) -> None:
    clock = SetForward(YEAR_MS)
    async with running(tmp_path) as shim:
        shim.log.release(1_000)
        group = shim.group_in(1)
        await commit_at(shim, group, clock.surely_past())
        async with asyncio.timeout(WAIT_SECONDS):
            await OffsetsRetention(shim.runtime, SETTINGS, clock).check(1)
        assert offset_in(await shim.fetch(group).result()) == 5
        behind = SetForward(-YEAR_MS)  # and so one that was behind
        await commit_at(shim, group, clock.surely_past() - WEEK_MS)
        async with asyncio.timeout(WAIT_SECONDS):
            await OffsetsRetention(shim.runtime, SETTINGS, behind).check(1)
        assert offset_in(await shim.fetch(group).result()) == 5


@pytest.mark.parametrize(
    ("newest", "is_right"),
    [(2 * WEEK_MS, False), (-60_000, False), (1, True)],
    ids=["a clock that may be wrong", "one that a client has committed by since", "one that is right"],
)
async def test_where_everything_would_go_at_the_first_look_that_is_told_one_before(
    newest: int, is_right: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    retention: OffsetsRetention
    looks: list[int] = []

    async def looked(number: int) -> None:
        looks.append(len(caplog.messages))

    async with running(tmp_path) as shim:
        shim.log.release(1_000)
        await commit_at(shim, shim.group_in(0), clock.now() - WEEK_MS)
        await commit_at(shim, shim.group_in(1), clock.now() - newest)
        caplog.clear()
        quick = replace(SETTINGS, offsets_retention_check_interval_ms=1)
        retention = OffsetsRetention(shim.runtime, quick, clock)
        monkeypatch.setattr(retention, "check", looked)
        looking = asyncio.create_task(retention.run())
        await until(lambda: len(looks) > 2 * PARTITIONS)
        looking.cancel()
        await asyncio.wait({looking})
    if is_right:
        assert caplog.messages == []
        return
    (told,) = caplog.messages
    assert looks[0] == 1, "told before"
    assert f"before the start the newest offset was committed at {_shown(clock.now() - WEEK_MS)}" in told
    assert told.startswith(f"it is {_shown(clock.now())}")


def _shown(time_ms: int) -> str:
    """The day, and not the time, which may be a second later by now."""
    return datetime.fromtimestamp(time_ms // 1000, UTC).date().isoformat()


async def test_every_partition_is_looked_at_again_and_again(tmp_path: Path) -> None:
    clock = Clock()
    settings = Settings(offsets_topic_num_partitions=PARTITIONS, offsets_retention_check_interval_ms=1)
    async with running(tmp_path) as shim:
        shim.log.release(1_000)
        groups = [shim.group_in(number) for number in range(PARTITIONS)]
        looking = asyncio.create_task(OffsetsRetention(shim.runtime, settings, clock).run())
        for _ in range(2):
            for group in groups:
                await commit_at(shim, group, clock.now() - WEEK_MS)
            for group in groups:
                await gone(shim, group)
        assert not looking.done()
        looking.cancel()
        await asyncio.wait({looking})


async def test_a_partition_that_is_not_served_is_passed_over(tmp_path: Path) -> None:
    async with running(tmp_path, admitted=False) as shim:
        async with asyncio.timeout(WAIT_SECONDS):
            await OffsetsRetention(shim.runtime, SETTINGS, Clock()).check(1)
        shim.runtime.admit()
        shim.stop()
        async with asyncio.timeout(WAIT_SECONDS):
            await OffsetsRetention(shim.runtime, SETTINGS, Clock()).check(1)


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shim.log.segments.batching.MAX_BATCH_BYTES", 4_000)
    small = CoordinatorSettings(commit_max_bytes=4_000)
    monkeypatch.setattr(CoordinatorSettings, "of", classmethod(lambda *_: small))


async def group_of_many(shim: Running) -> str:
    group = shim.group_in(1)
    for first in range(0, 600, 20):
        await commit_at(shim, group, Clock().now(), 20, first)
    return group


@pytest.mark.usefixtures("small_batches")
async def test_a_group_whose_tombstones_take_many_batches_is_gone_when_the_last_is_durable(tmp_path: Path) -> None:
    async with running(tmp_path) as shim:
        shim.log.release(30)
        group = await group_of_many(shim)
        written = len(shim.log.writes)
        shim.log.history.clear()
        deleted = delete(shim, group)
        # Whoever asks meanwhile sees all of it gone, and waits until that is so.
        left = shim.fetch(group)
        assert not deleted.told
        shim.log.release()
        assert await deleted.result() == DeletableGroupResult(group, ErrorCode.NONE)
        assert offset_in(await left.result()) is None
        [[word, write, told]] = shim.log.writes[written:]
        assert (told.topic, len(told.records)) == (HISTORY_TOPIC, 600)
        assert (word.topic, len(word.records)) == (STATE_TOPIC, 1), "that it was served"
        assert len(write.records) > 5
        assert sum(map(len, write.records)) == 601
        assert all(len(records) < 100 for records in write.records)
        assert shim.log.history[:-2] == ["synced"] * len(write.records), "one after the other, and then the answers"
    async with running(tmp_path) as shim:
        assert await offset_count(shim, group) == 0


@pytest.mark.usefixtures("small_batches")
async def test_a_disk_that_fails_between_two_batches_leaves_a_group_to_be_deleted_again(tmp_path: Path) -> None:
    async with running(tmp_path) as shim:
        shim.log.release(1_000)
        group = await group_of_many(shim)
        writes = 0

        def third_fails(path: Path) -> None:
            nonlocal writes
            writes += path.suffix == ".log"
            if writes == 3:
                shim.log.files.heal()
                raise OSError(errno.EIO, "once", str(path))

        shim.log.files.faults["pwrite"] = third_fails
        assert await delete(shim, group).result() is ErrorCode.NOT_COORDINATOR
        assert writes == 3

        async def again() -> DeletableGroupResult | None:
            answer = await delete(shim, group).result()
            assert answer is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS or isinstance(answer, DeletableGroupResult)
            return None if isinstance(answer, ErrorCode) else answer

        assert await until_told(again) == DeletableGroupResult(group, ErrorCode.NONE)
    async with running(tmp_path) as shim:
        assert await offset_count(shim, group) == 0


async def test_another_interval_and_retention_hold_at_once(tmp_path: Path) -> None:
    clock = Clock()
    never = Settings(offsets_topic_num_partitions=PARTITIONS, offsets_retention_check_interval_ms=2**62)
    async with running(tmp_path) as shim:
        shim.log.release(1_000)
        group = shim.group_in(1)
        await commit_at(shim, group, clock.now() - 120_000)
        retention = OffsetsRetention(shim.runtime, never, clock)
        looking = asyncio.create_task(retention.run())
        await asyncio.sleep(0)  # it waits
        assert offset_in(await shim.fetch(group).result()) == 5
        at_once = replace(never, offsets_retention_check_interval_ms=1, offsets_retention_minutes=1)
        shim.runtime.take_settings(at_once)
        retention.take_settings(at_once)
        await gone(shim, group)
        looking.cancel()
        await asyncio.wait({looking})
