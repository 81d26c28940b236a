"""In whose hands groups are: written with the log, and read back from it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from protocol.errors import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue
from protocol.own.state_log import STATE_TOPIC, GroupHandsKey, GroupHandsValue, Hands, Step, WrittenValue, encode_state
from shim.config import Settings
from shim.coordinator import Caller, GroupCoordinator, Outcome
from shim.disk_log import DiskBackend, open_log
from shim.log import PartitionWrite
from shim.log.segments import batching
from shim.runtime import Clock, Runtime, flight

SETTINGS = Settings(offsets_topic_num_partitions=3)
WAIT_SECONDS = 30


class Told:
    """A ticket."""

    def __init__(self) -> None:
        self.outcome: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def answer(self, response: Any) -> None:
        self.outcome.set_result(response)

    def fail(self, error: ErrorCode) -> None:
        self.outcome.set_result(error)


@asynccontextmanager
async def runtime_at(data_dir: Path) -> AsyncIterator[Runtime]:
    runtime = Runtime(DiskBackend(open_log(data_dir, SETTINGS), SETTINGS, Clock()), SETTINGS, Clock())
    runtime.admit()
    await runtime.load()
    writing = asyncio.create_task(runtime.run())
    try:
        yield runtime
    finally:
        runtime.stop()
        async with asyncio.timeout(WAIT_SECONDS):
            await writing
        await runtime.close(WAIT_SECONDS)


async def decided(runtime: Runtime, group: str, operation: Any) -> Any:
    told = Told()
    runtime.submit(runtime.partition_of(group), operation, told)
    async with asyncio.timeout(WAIT_SECONDS):
        return await told.outcome


def take(group: str, hands: Hands, coordinator: GroupCoordinator, now: int, asker: Any) -> Outcome:
    return coordinator.take_in_hand(now, group, hands, f"test of {hands.name}", asker)


def hands_of(runtime: Runtime, group: str) -> Hands | None:
    coordinator = runtime.coordinator_of(group)
    assert coordinator is not None
    return coordinator.hands_of(group)


async def test_it_is_there_after_a_restart(tmp_path: Path) -> None:
    groups = {f"group-{number}": Hands(number % 2) for number in range(20)}
    async with runtime_at(tmp_path) as runtime:
        for group, hands in groups.items():
            assert (await decided(runtime, group, partial(take, group, hands))).done
        turned = next(iter(groups))
        groups[turned] = Hands.SERVED
        assert (await decided(runtime, turned, partial(take, turned, Hands.SERVED))).done
    async with runtime_at(tmp_path) as runtime:
        assert {group: hands_of(runtime, group) for group in groups} == groups
        assert hands_of(runtime, "another") is None
        coordinator = runtime.coordinator_of(turned)
        assert coordinator is not None
        assert coordinator.hands()[turned].cause == "test of SERVED"


async def test_offsets_that_came_with_it_are_too(tmp_path: Path) -> None:
    offsets = [(OffsetCommitKey("g", "t", number), OffsetCommitValue(number)) for number in range(5)]
    async with runtime_at(tmp_path) as runtime:
        await decided(runtime, "g", partial(take, "g", Hands.PASSED_THROUGH))
        adopted = await decided(runtime, "g", lambda its, now, asker: its.adopt(now, "g", offsets, None, asker))
        assert adopted.done
        await decided(runtime, "g", partial(take, "g", Hands.SERVED))
    async with runtime_at(tmp_path) as runtime:
        coordinator = runtime.coordinator_of("g")
        assert coordinator is not None
        assert (hands_of(runtime, "g"), coordinator.offset_count) == (Hands.SERVED, 5)


@pytest.mark.parametrize(
    "record",
    [
        (b"\0\7", b"\0\0"),
        encode_state((GroupHandsKey("group-of-another-partition"), GroupHandsValue(1, 0))),
    ],
)
async def test_a_partition_whose_hands_are_not_known_is_not_served(
    tmp_path: Path, record: tuple[bytes, bytes], caplog: pytest.LogCaptureFixture
) -> None:
    async with runtime_at(tmp_path) as runtime:
        wrong = (runtime.partition_of("group-of-another-partition") + 1) % 3
    log = open_log(tmp_path, SETTINGS)
    for number in range(3):
        list(log.recover(number, topic=STATE_TOPIC))
    assert log.write([PartitionWrite(wrong, [[record]], 0, STATE_TOPIC)]) == {}
    log.close()
    async with runtime_at(tmp_path) as runtime:
        assert [runtime.coordinator(number) is None for number in range(3)] == [number == wrong for number in range(3)]
    assert f"__offset_shim_state-{wrong}" in caplog.text


async def test_what_is_said_beside_offsets_is_on_its_way_before_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Were the offsets of a group gone, and not yet that it is served, those that the cluster has would rise again."""
    topic = OffsetCommitRequestTopic("t", partitions=(OffsetCommitRequestPartition(0, 7),))
    request = OffsetCommitRequest("g", topics=(topic,))
    caller = Caller("client", "/127.0.0.1")
    appended: list[str] = []
    async with runtime_at(tmp_path) as runtime:
        await decided(runtime, "g", lambda its, now, asker: its.offset_commit(now, caller, 8, request, asker))
        for name in ("append", "append_state"):
            monkeypatch.setattr(runtime._writes_of(0), name, lambda *_, name=name: appended.append(name))
        await decided(runtime, "g", lambda its, now, asker: its.delete_group(now, caller, "g", asker))
    assert appended == ["append_state", "append"]


async def test_notes_of_many_offsets_are_more_than_one_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log takes none beyond a limit, and there is none on how many partitions a group has."""
    monkeypatch.setattr(batching, "MAX_BATCH_BYTES", 4_000)
    monkeypatch.setattr(batching, "MAX_RECORD_SET_BYTES", 6_000)
    monkeypatch.setattr(flight, "SET_BYTES", 2_000)
    notes: dict[tuple[str, int], WrittenValue | None] = {("t", at): WrittenValue(at, 1) for at in range(300)}
    async with runtime_at(tmp_path) as runtime:
        await decided(
            runtime, "g", lambda its, now, asker: its.take_in_hand(now, "g", Hands.SERVED, "", asker, Step.KAFKA_DUAL)
        )
        noted = await decided(runtime, "g", lambda its, now, asker: its.note_written(now, "g", notes, asker))
        assert noted.done
    async with runtime_at(tmp_path) as runtime:
        coordinator = runtime.coordinator_of("g")
        assert coordinator is not None
        assert coordinator.written("g") == notes
