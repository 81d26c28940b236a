"""When the runtime answers: after the disk has what was decided, and never with what the disk may not have."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupResponse
from protocol.messages.offset_commit import OffsetCommitResponse
from protocol.messages.offset_fetch import OffsetFetchResponseGroup
from shim.config import Settings
from shim.coordinator import Outcome
from tests.runtime.held_log import WAIT_SECONDS, Answered, Teller
from tests.runtime.running import PARTITIONS, Running, offset_in, running


def error_in(response: OffsetCommitResponse) -> int:
    return response.topics[0].partitions[0].error_code


async def served_again(shim: Running, group: str) -> OffsetFetchResponseGroup:
    """Ask for the group's offsets until they are told instead of an error."""
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            answer = await shim.fetch(group).result()
            if isinstance(answer, OffsetFetchResponseGroup):
                return answer
            await asyncio.sleep(0.01)


async def commit_after(other: Teller, shim: Running, group: str) -> object:
    """What a client is told that commits again as soon as its last commit is answered."""
    await other.result()
    return await shim.commit(group, 3, name="again").result()


def broken_decision(*_: object) -> Outcome:
    raise RuntimeError("unforeseen")


async def test_a_commit_is_answered_after_the_sync_and_not_before(tmp_path: Path) -> None:
    async with running(tmp_path) as shim:
        commit = shim.commit("g", 7)
        await shim.log.write_begun()
        assert not commit.told
        assert shim.log.history == []
        shim.log.release()
        assert error_in(await commit.result()) == ErrorCode.NONE
        assert [type(event) for event in shim.log.history] == [str, Answered], "one sync, then the answer"


async def test_commits_that_come_during_a_write_share_the_next_one(tmp_path: Path) -> None:
    async with running(tmp_path) as shim:
        first = shim.commit(shim.group_in(0), 1)
        await shim.log.write_begun()
        later = [shim.commit(shim.group_in(0, n), n, name=f"later {n}") for n in range(1, 6)]
        elsewhere = shim.commit(shim.group_in(2), 9)
        shim.log.release()
        await first.result()
        await shim.log.write_begun()
        assert not any(ticket.told for ticket in (*later, elsewhere))
        shim.log.release()
        for ticket in (*later, elsewhere):
            assert error_in(await ticket.result()) == ErrorCode.NONE
        assert [len(writes) for writes in shim.log.writes] == [1, 2]
        assert {write.partition: len(write.records) for write in shim.log.writes[1]} == {0: 5, 2: 1}
        answers = [event.by for event in shim.log.history if isinstance(event, Answered)]
        assert answers[1:6] == [f"later {n}" for n in range(1, 6)], "in the order of the requests"
        assert shim.log.history.count("synced") == 3, "one for the first write, one a partition for the second"


@pytest.mark.parametrize("in_flight", [True, False], ids=["being written", "waiting to be written"])
async def test_a_read_of_a_touched_group_waits_for_the_disk(tmp_path: Path, in_flight: bool) -> None:
    async with running(tmp_path) as shim:
        commit = shim.commit("g", 7)
        if in_flight:
            await shim.log.write_begun()
        read = shim.fetch("g")
        if not in_flight:
            await shim.log.write_begun()
        await shim.heartbeat("g").result()
        assert not read.told
        shim.log.release()
        assert offset_in(await read.result()) == 7
        assert commit.told


async def test_a_heartbeat_and_another_partitions_reads_do_not_wait(tmp_path: Path) -> None:
    async with running(tmp_path) as shim:
        commit = shim.commit(shim.group_in(0), 7)
        await shim.log.write_begun()
        assert (await shim.heartbeat(shim.group_in(0)).result()).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert offset_in(await shim.fetch(shim.group_in(1)).result()) is None
        assert not commit.told
        shim.log.release()
        await commit.result()


@pytest.mark.parametrize("call", ["pwrite", "fdatasync"])
async def test_after_a_failed_write_only_what_is_on_disk_is_served(tmp_path: Path, call: str) -> None:
    async with running(tmp_path) as shim:
        group, neighbour, elsewhere = shim.group_in(0), shim.group_in(0, 1), shim.group_in(1)
        before = shim.commit(group, 1)
        await shim.log.write_begun()
        shim.log.release()
        assert error_in(await before.result()) == ErrorCode.NONE

        shim.log.files.fail(call, errno.EIO, "__consumer_offsets-0")
        doomed = shim.commit(group, 2)
        other = shim.commit(elsewhere, 5)
        await shim.log.write_begun()
        read = shim.fetch(group)
        queued = shim.commit(neighbour, 3)
        # Woken when the failed commit is told, and then at once, before anything else can run.
        meanwhile = asyncio.create_task(commit_after(doomed, shim, group))
        shim.log.release()
        assert await doomed.result() is ErrorCode.NOT_COORDINATOR
        assert await read.result() is ErrorCode.NOT_COORDINATOR
        assert await queued.result() is ErrorCode.NOT_COORDINATOR
        assert error_in(await other.result()) == ErrorCode.NONE, "the other partition's write succeeded"
        assert await meanwhile is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

        shim.log.files.heal()
        answer = await served_again(shim, group)
        assert offset_in(answer) == 1
        assert offset_in(await shim.fetch(neighbour).result()) is None
        assert offset_in(await shim.fetch(elsewhere).result()) == 5
        after = shim.commit(group, 4)
        await shim.log.write_begun()
        shim.log.release()
        assert error_in(await after.result()) == ErrorCode.NONE
        assert offset_in(await shim.fetch(group).result()) == 4


async def test_a_commit_that_takes_too_long_is_told_so_and_may_stand_later(tmp_path: Path) -> None:
    settings = Settings(offsets_topic_num_partitions=PARTITIONS, offsets_commit_timeout_ms=30)
    async with running(tmp_path, settings) as shim:
        commit = shim.commit("g", 7)
        await shim.log.write_begun()
        assert await commit.result() is ErrorCode.COORDINATOR_NOT_AVAILABLE
        # It is still being written: what depends on it cannot be told either way.
        assert await shim.fetch("g").result() is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (await shim.heartbeat("g").result()).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        shim.log.release()
        assert offset_in(await served_again(shim, "g")) == 7


async def test_stop_answers_who_is_parked_and_writes_what_is_in_flight(tmp_path: Path) -> None:
    async with running(tmp_path) as shim:
        parked = shim.join("waiting")
        commit = shim.commit("g", 7)
        await shim.log.write_begun()
        queued = shim.commit("g", 8)
        shim.stop()
        assert await parked.result() is ErrorCode.NOT_COORDINATOR
        assert await shim.commit("late", 1).result() is ErrorCode.NOT_COORDINATOR
        assert not commit.told
        shim.log.release(2)
        assert error_in(await commit.result()) == ErrorCode.NONE
        assert error_in(await queued.result()) == ErrorCode.NONE
    async with running(tmp_path) as shim:
        assert offset_in(await shim.fetch("g").result()) == 8


async def test_a_write_that_fails_after_stop_answers_nobody_twice(tmp_path: Path) -> None:
    async with running(tmp_path) as shim:
        group = shim.group_in(0)
        parked = shim.join(group)
        await shim.log.write_begun()
        shim.log.release()
        commit = shim.commit(shim.group_in(0, 1), 7)
        await shim.log.write_begun()
        shim.log.files.fail("pwrite", errno.EIO)
        shim.stop()
        assert await parked.result() is ErrorCode.NOT_COORDINATOR
        shim.log.release()
        assert await commit.result() is ErrorCode.NOT_COORDINATOR


async def test_a_decision_that_breaks_off_takes_nothing_with_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path) as shim:
        number = shim.runtime.partition_of("g")
        commit = shim.commit("g", 7)
        await shim.log.write_begun()
        broken = shim.ticket("broken")
        shim.runtime.submit(number, broken_decision, broken)
        assert await broken.result() is ErrorCode.UNKNOWN_SERVER_ERROR
        assert await shim.commit("g", 8).result() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        shim.log.release()
        assert error_in(await commit.result()) == ErrorCode.NONE
        assert offset_in(await served_again(shim, "g")) == 7
        assert "unforeseen" in caplog.text


async def test_a_parked_member_is_sent_away_when_its_partition_is_reloaded(tmp_path: Path) -> None:
    async with running(tmp_path) as shim:
        parked = shim.join("g")
        shim.log.files.fail("pwrite", errno.EIO)
        doomed = shim.commit(shim.group_in(shim.runtime.partition_of("g")), 2)
        await shim.log.write_begun()
        assert not parked.told
        shim.log.release()
        assert await doomed.result() is ErrorCode.NOT_COORDINATOR
        assert await parked.result() is ErrorCode.NOT_COORDINATOR
        shim.log.files.heal()
        await served_again(shim, "g")


async def test_a_deadline_is_met_without_any_request(tmp_path: Path) -> None:
    settings = Settings(offsets_topic_num_partitions=PARTITIONS, group_initial_rebalance_delay_ms=30)
    async with running(tmp_path, settings) as shim:
        shim.log.release()  # the new group's record
        joined = await shim.join("g").result()
        assert isinstance(joined, JoinGroupResponse)
        assert (joined.error_code, joined.generation_id) == (ErrorCode.NONE, 1)
