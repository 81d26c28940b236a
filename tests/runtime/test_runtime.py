"""When the runtime answers: after the disk has what was decided, and never with what the disk may not have."""

from __future__ import annotations

import asyncio
import errno
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import shim.runtime.keeping as keeping_module
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatResponse
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from protocol.messages.offset_commit import OffsetCommitResponse
from protocol.messages.offset_fetch import OffsetFetchResponseGroup
from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue, encode_key, encode_value
from protocol.records.batches import encode_batch
from shim.config import Settings
from shim.coordinator import GroupCoordinator, Outcome, ReadablePartition
from shim.disk_log import DiskBackend
from shim.disk_log.loading import Loader
from shim.log import PartitionWrite
from shim.log.journal.journal import JOURNAL_NAME
from shim.runtime import Clock, Runtime, Ticket
from shim.runtime.backend import Loaded
from tests.coordinator.driving import parked, subscription
from tests.runtime.held_log import WAIT_SECONDS, Answered, HeldLog, Teller
from tests.runtime.running import CALLER, PARTITIONS, TOPIC, Running, offset_in, running
from tests.waiting import until_told

WITHOUT_HISTORY = Settings(offsets_topic_num_partitions=PARTITIONS, offsets_history_retention_minutes=0)


def error_in(response: OffsetCommitResponse) -> int:
    return response.topics[0].partitions[0].error_code


async def served_again(shim: Running, group: str) -> OffsetFetchResponseGroup:
    """Ask for the group's offsets until they are told instead of an error."""

    async def ask() -> OffsetFetchResponseGroup | None:
        answer = await shim.fetch(group).result()
        return answer if isinstance(answer, OffsetFetchResponseGroup) else None

    return await until_told(ask)


async def given_up(shim: Running, group: str) -> None:
    """Ask for the group's offsets until the partition is not being loaded any more, and not served either."""

    async def ask() -> bool:
        return await shim.fetch(group).result() is ErrorCode.COORDINATOR_NOT_AVAILABLE

    await until_told(ask)


async def commit_after(other: Teller, shim: Running, group: str) -> object:
    """What a client is told that commits again as soon as its last commit is answered."""
    await other.result()
    return await shim.commit(group, 3, name="again").result()


def segment(data_dir: Path, partition: int) -> Path:
    return data_dir / f"__consumer_offsets-{partition}" / f"{0:020d}.log"


def fails_once(shim: Running) -> Callable[[Path], None]:
    def fault(path: Path) -> None:
        if path.name != JOURNAL_NAME:
            shim.log.files.heal()
        raise OSError(errno.EIO, "once", str(path))

    return fault


def broken_decision(*_: object) -> Outcome:
    raise RuntimeError("unforeseen")


async def test_a_commit_is_answered_after_the_sync_and_not_before(tmp_path: Path) -> None:
    async with running(tmp_path, WITHOUT_HISTORY) as shim:
        commit = shim.commit("g", 7)
        await shim.log.write_begun()
        assert not commit.told
        assert shim.log.history == []
        shim.log.release()
        assert error_in(await commit.result()) == ErrorCode.NONE
        assert [type(event) for event in shim.log.history] == [str, Answered], "one sync, then the answer"


async def test_commits_that_come_during_a_write_share_the_next_one(tmp_path: Path) -> None:
    async with running(tmp_path, WITHOUT_HISTORY) as shim:
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
        assert shim.log.history.count("synced") == 2, "one for each write"


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
        number = shim.runtime.partition_of("g")
        assert shim.runtime.durable(number) is None
        shim.log.release()
        assert offset_in(await read.result()) == 7
        assert commit.told
        assert shim.runtime.durable(number) is shim.runtime.coordinator(number) is not None


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

        shim.log.files.fail(call, errno.EIO, "__consumer_offsets-0", JOURNAL_NAME)
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


async def test_who_a_broken_decision_had_taken_is_told_and_nobody_twice(tmp_path: Path) -> None:
    def takes_the_parked(coordinator: GroupCoordinator, now: int, asker: Ticket) -> Outcome:
        coordinator.expire(now + 5_000)  # the parked join is answered here, and the answer lost below
        assert not parked(coordinator)
        raise RuntimeError("unforeseen")

    async with running(tmp_path) as shim:
        joining = shim.join("g")
        shim.log.release(2)
        broken = shim.ticket("broken")
        shim.runtime.submit(shim.runtime.partition_of("g"), takes_the_parked, broken)
        assert await broken.result() is ErrorCode.UNKNOWN_SERVER_ERROR
        assert await joining.result() is ErrorCode.NOT_COORDINATOR
        await served_again(shim, "g")
        shim.stop()  # would tell who is still taken to wait


@pytest.mark.parametrize("second", ["in one outcome", "in a later one"])
async def test_a_second_answer_is_never_given(tmp_path: Path, second: str) -> None:
    async with running(tmp_path) as shim:
        ticket, other = shim.ticket("asker"), shim.ticket("other")
        times = 2 if second == "in one outcome" else 1
        shim.runtime.submit(0, lambda *_: Outcome([], [(ticket, HeartbeatResponse())] * times), ticket)
        if times == 2:
            assert await ticket.result() is ErrorCode.UNKNOWN_SERVER_ERROR
        else:
            shim.runtime.submit(0, lambda *_: Outcome([], [(ticket, HeartbeatResponse())]), other)
            assert await ticket.result() == HeartbeatResponse()
            assert await other.result() is ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("by", ["request", "deadline"])
async def test_what_cannot_be_encoded_is_not_served(tmp_path: Path, by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    impossible = OffsetCommitValue(offset=1 << 70)

    def decided(coordinator: GroupCoordinator, *_: object) -> Outcome:
        key = OffsetCommitKey("g", TOPIC, 0)
        coordinator.replay(key, impossible)
        return Outcome([(key, impossible)], [])

    settings = Settings(offsets_topic_num_partitions=1, group_initial_rebalance_delay_ms=30)
    async with running(tmp_path, settings) as shim:
        shim.log.release(3)
        assert error_in(await shim.commit("g", 7).result()) == ErrorCode.NONE
        if by == "deadline":
            monkeypatch.setattr(GroupCoordinator, "expire", decided)
            assert await shim.join("other").result() is ErrorCode.NOT_COORDINATOR
            monkeypatch.undo()
        else:
            ticket = shim.ticket("impossible")
            shim.runtime.submit(0, decided, ticket)
            assert await ticket.result() is ErrorCode.UNKNOWN_SERVER_ERROR
        assert offset_in(await served_again(shim, "g")) == 7


async def test_a_deadline_that_breaks_off_takes_nothing_with_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(offsets_topic_num_partitions=PARTITIONS, group_initial_rebalance_delay_ms=30)
    async with running(tmp_path, settings) as shim:
        shim.log.release(2)
        assert error_in(await shim.commit("g", 7).result()) == ErrorCode.NONE
        monkeypatch.setattr(GroupCoordinator, "expire", broken_decision)
        assert await shim.join("g").result() is ErrorCode.NOT_COORDINATOR
        monkeypatch.undo()
        assert offset_in(await served_again(shim, "g")) == 7
        assert "unforeseen" in caplog.text


async def test_a_question_that_breaks_off_harms_nobody_else(tmp_path: Path) -> None:
    def broken_question(_: ReadablePartition) -> object:
        raise RuntimeError("unforeseen")

    async with running(tmp_path) as shim:
        parked = shim.join(shim.group_in(0))
        ticket = shim.ticket("broken")
        shim.runtime.ask(0, broken_question, ticket)
        assert await ticket.result() is ErrorCode.UNKNOWN_SERVER_ERROR
        assert not parked.told


async def test_a_reload_is_an_error_and_that_it_is_over_is_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "shim.runtime")
    async with running(tmp_path) as shim:
        broken = shim.ticket("broken")
        shim.runtime.submit(0, broken_decision, broken)
        assert await broken.result() is ErrorCode.UNKNOWN_SERVER_ERROR
        await served_again(shim, shim.group_in(0))
    levels = {each.getMessage().partition(": ")[2]: each.levelno for each in caplog.records}
    assert levels["reloading the partition from its log"] == logging.ERROR
    assert levels["reloaded and served again"] == logging.INFO


async def test_a_broken_decision_and_a_failed_write_make_one_reload(tmp_path: Path) -> None:
    async with running(tmp_path) as shim:
        group = shim.group_in(0)
        shim.log.release()
        assert error_in(await shim.commit(group, 1).result()) == ErrorCode.NONE
        recovered = shim.log.files.calls.count(("drop_cache", segment(tmp_path, 0)))

        shim.log.files.faults["fdatasync"] = fails_once(shim)
        await shim.log.write_begun()
        doomed = shim.commit(group, 2)
        await shim.log.write_begun()
        broken = shim.ticket("broken")
        shim.runtime.submit(0, broken_decision, broken)
        assert await broken.result() is ErrorCode.UNKNOWN_SERVER_ERROR
        await shim.read_back()
        assert await shim.fetch(group).result() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "it waits for the write"
        shim.log.release(100)
        assert await doomed.result() is ErrorCode.NOT_COORDINATOR
        assert offset_in(await served_again(shim, group)) == 1
        assert error_in(await shim.commit(group, 3).result()) == ErrorCode.NONE
        await shim.read_back()
        assert offset_in(await shim.fetch(group).result()) == 3
        assert shim.log.files.calls.count(("drop_cache", segment(tmp_path, 0))) == recovered + 1


async def test_a_reload_is_tried_again_until_the_disk_is_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(keeping_module, "RELOAD_RETRY_SECONDS", 0.01)
    loads: list[int] = []
    load = Loader.load

    def counted(self: Loader, number: int) -> Loaded:
        loads.append(number)
        return load(self, number)

    async with running(tmp_path) as shim:
        monkeypatch.setattr(Loader, "load", counted)
        group = shim.group_in(0)
        caplog.set_level(logging.INFO, "shim.runtime.keeping")
        shim.log.release(2)
        assert error_in(await shim.commit(group, 1).result()) == ErrorCode.NONE
        shim.log.files.fail("fdatasync", errno.EIO)
        shim.log.files.fail("fsync", errno.EIO)
        assert await shim.commit(group, 2).result() is ErrorCode.NOT_COORDINATOR

        async def was_tried_again() -> bool:
            assert await shim.fetch(group).result() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return len(loads) >= 3

        await until_told(was_tried_again)
        shim.log.files.heal()
        assert offset_in(await served_again(shim, group)) == 1
    told = [each for each in caplog.messages if "reload failed, trying again" in each]
    assert [each.startswith("this is over: ") for each in told] == [False, True]  # however often it was tried


def damaged(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[30] ^= 1
    path.write_bytes(data)


def another_segment(path: Path) -> None:
    path.with_name(f"{9:020d}.log").write_bytes(b"")


def unreadable_record(path: Path) -> None:
    key = encode_key(OffsetCommitKey("g", TOPIC, 0))
    size = path.stat().st_size
    batch = encode_batch(0, [(key, b"\x00\x09")], 1)  # a value of version 9
    path.write_bytes(encode_batch(0, [(key, b"\x00\x09" + bytes(size - len(batch)))], 1))
    assert path.stat().st_size == size


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (damaged, "is damaged at byte 0"),
        (another_segment, "was not made by this process"),
        (unreadable_record, "__consumer_offsets-0 offset 0: the record cannot be decoded"),
    ],
)
async def test_a_partition_that_cannot_be_read_back_says_so_and_is_not_served(
    tmp_path: Path, damage: Callable[[Path], None], says: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path) as shim:
        shim.log.release(1)
        assert error_in(await shim.commit(shim.group_in(0), 1).result()) == ErrorCode.NONE
        damage(segment(tmp_path, 0))
        shim.runtime.submit(0, broken_decision, shim.ticket("broken"))
        await given_up(shim, shim.group_in(0))
        assert await shim.commit(shim.group_in(0), 2).result() is ErrorCode.COORDINATOR_NOT_AVAILABLE
        (line,) = [
            record for record in caplog.records if "is not served: see offset-shim log verify" in record.getMessage()
        ]
        assert says in line.getMessage()
        assert offset_in(await shim.fetch(shim.group_in(1)).result()) is None


async def test_an_unforeseen_error_while_reloading_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path) as shim:
        shim.log.release(1)
        assert error_in(await shim.commit(shim.group_in(0), 1).result()) == ErrorCode.NONE
        monkeypatch.setattr(GroupCoordinator, "replay", broken_decision)
        shim.runtime.submit(0, broken_decision, shim.ticket("broken"))
        await given_up(shim, shim.group_in(0))
        (line,) = [record for record in caplog.records if "not served until a restart" in record.getMessage()]
        assert line.exc_info is not None


async def test_a_reload_holds_up_no_other_partitions_writes(tmp_path: Path) -> None:
    async with running(tmp_path) as shim:
        shim.log.release(100)
        reading, go_on = threading.Event(), threading.Event()

        def slow(_: Path) -> None:
            reading.set()
            assert go_on.wait(WAIT_SECONDS)

        shim.log.files.faults["open"] = slow
        shim.runtime.submit(0, broken_decision, shim.ticket("broken"))
        try:
            assert await asyncio.to_thread(reading.wait, WAIT_SECONDS)
            assert error_in(await shim.commit(shim.group_in(1), 5).result()) == ErrorCode.NONE
            assert await shim.fetch(shim.group_in(0)).result() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        finally:
            go_on.set()
        await served_again(shim, shim.group_in(0))


async def test_while_the_disk_hangs_refused_commits_are_not_decided(tmp_path: Path) -> None:
    # Long enough for the second one to come before the first has its answer, however busy the machine is.
    settings = replace(WITHOUT_HISTORY, offsets_commit_timeout_ms=1_000)
    async with running(tmp_path, settings) as shim:
        first = shim.commit("g", 1)
        await shim.log.write_begun()
        second = shim.commit("g", 2)
        assert await first.result() is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await second.result() is ErrorCode.COORDINATOR_NOT_AVAILABLE
        for number in range(3, 100):
            assert await shim.commit("g", number).result() is ErrorCode.COORDINATOR_NOT_AVAILABLE
        untouched = next(
            f"h{i}" for i in range(99) if shim.runtime.partition_of(f"h{i}") != shim.runtime.partition_of("g")
        )
        assert offset_in(await shim.fetch(untouched).result()) is None, "a question about what is durable is answered"
        shim.log.release(2)
        await shim.log.write_begun()
        assert offset_in(await served_again(shim, "g")) == 2
        assert [len(write.records) for writes in shim.log.writes for write in writes] == [1, 1]


async def test_a_flight_that_lost_all_its_records_has_its_time_out_anew(tmp_path: Path) -> None:
    settings = Settings(offsets_topic_num_partitions=PARTITIONS, offsets_commit_timeout_ms=1_000)
    async with running(tmp_path, settings) as shim:
        group = shim.group_in(0)
        doomed = shim.commit(group, 1)
        await shim.log.write_begun()
        queued = shim.commit(group, 2)
        shim.log.files.faults["pwrite"] = fails_once(shim)
        shim.log.release(100)
        assert await doomed.result() is ErrorCode.NOT_COORDINATOR
        assert await queued.result() is ErrorCode.NOT_COORDINATOR
        await served_again(shim, group)
        await asyncio.sleep(settings.offsets_commit_timeout_ms / 1000)  # a timer that ends behind the one it had
        assert error_in(await shim.commit(group, 3).result()) == ErrorCode.NONE


async def test_what_another_partition_is_told_first_shows_nothing_of_a_failed_write(tmp_path: Path) -> None:
    """A client that is told, and asks again within that very call, finds all failed partitions gone already."""
    async with running(tmp_path) as shim:
        asked: list[Teller] = []

        class Eager(Teller):
            def answer(self, response: object) -> None:
                super().answer(response)
                asked.extend(shim.fetch(shim.group_in(number)) for number in range(PARTITIONS))

        shim.log.files.fail("fdatasync", errno.EIO)
        shim.ticket = lambda name: (Eager if name == "eager" else Teller)(name, shim.log.history)  # type: ignore[method-assign]
        blocker = shim.commit(shim.group_in(2), 1)
        await shim.log.write_begun()
        eager = [shim.commit(shim.group_in(number), 5, name="eager") for number in range(PARTITIONS)]
        shim.log.release(2)
        for ticket in (blocker, *eager):
            assert await ticket.result() is ErrorCode.NOT_COORDINATOR
        assert len(asked) == PARTITIONS * PARTITIONS
        assert ErrorCode.COORDINATOR_LOAD_IN_PROGRESS in [await fetch.result() for fetch in asked]
        for fetch in asked:
            told = await fetch.result()
            assert isinstance(told, ErrorCode) or offset_in(told) is None
        shim.log.files.heal()


async def test_requests_during_the_load_are_told_so_and_a_stop_ends_it(tmp_path: Path) -> None:
    log = HeldLog.at(tmp_path, 1)
    log.release(100)
    list(log.recover(0))
    key, value = OffsetCommitKey("g", TOPIC, 0), OffsetCommitValue(offset=1)
    assert log.write([PartitionWrite(0, [[(encode_key(key), encode_value(value))]] * 1_000, 1)]) == {}
    replayed = 0
    settings = Settings(offsets_topic_num_partitions=1)
    backend = DiskBackend(log, settings, Clock())
    runtime = Runtime(backend, settings, Clock())
    runtime.admit()
    shim = Running(runtime, backend, log)
    reading, go_on = threading.Event(), threading.Event()

    def slow(_: Path) -> None:
        reading.set()
        assert go_on.wait(WAIT_SECONDS)

    log.files.faults["open"] = slow
    real = GroupCoordinator.replay

    def counted(*args: Any) -> None:
        nonlocal replayed
        replayed += 1
        real(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GroupCoordinator, "replay", counted)
        loading = asyncio.create_task(runtime.load())
        assert await asyncio.to_thread(reading.wait, WAIT_SECONDS)
        assert await shim.commit("g", 2).result() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        shim.stop()
        go_on.set()
        await loading
    assert replayed == 0, "nobody will ask for what is read"
    assert await shim.fetch("g").result() is ErrorCode.NOT_COORDINATOR
    await runtime.close(WAIT_SECONDS)


async def test_closing_does_not_wait_for_a_disk_that_hangs(tmp_path: Path) -> None:
    async with running(tmp_path) as shim:
        shim.commit("g", 1)
        await shim.log.write_begun()
        shim.stop()
        with pytest.raises(TimeoutError):
            await shim.runtime.close(0.05)
        shim.log.release(100)


async def test_records_of_an_unknown_key_type_are_skipped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with running(tmp_path) as shim:
        shim.log.release(1)
        assert error_in(await shim.commit(shim.group_in(0), 1).result()) == ErrorCode.NONE
    with segment(tmp_path, 0).open("ab") as file:
        file.write(encode_batch(1, [(b"\x00\x63 of a later version", b"value")], 1))
    async with running(tmp_path) as shim:
        assert offset_in(await shim.fetch(shim.group_in(0)).result()) == 1
    assert "__consumer_offsets-0 offset 1: key type 99 skipped" in caplog.text


async def test_an_earlier_deadline_is_met_in_time(tmp_path: Path) -> None:
    settings = Settings(offsets_topic_num_partitions=1, group_initial_rebalance_delay_ms=30)
    async with running(tmp_path, settings) as shim:
        shim.log.release(100)
        now = Clock().now()
        shim.runtime.submit(0, partial(with_deadline, now + 60_000), shim.ticket("later"))
        joined = await shim.join("g").result()
        assert isinstance(joined, JoinGroupResponse)


def with_deadline(due: int, coordinator: GroupCoordinator, now: int, asker: Ticket) -> Outcome:
    """A pending member's session is the only deadline then."""
    request = JoinGroupRequest(
        group_id="other",
        session_timeout_ms=due - now,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol("range", subscription(TOPIC)),),
    )
    return coordinator.join_group(now, CALLER, 9, request, asker)


async def test_a_wall_clock_that_is_set_moves_no_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    before = clock.now()
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert 0 <= clock.now() - before < 1_000


async def test_a_deadline_is_met_without_any_request(tmp_path: Path) -> None:
    settings = Settings(offsets_topic_num_partitions=PARTITIONS, group_initial_rebalance_delay_ms=30)
    async with running(tmp_path, settings) as shim:
        shim.log.release()  # the new group's record
        joined = await shim.join("g").result()
        assert isinstance(joined, JoinGroupResponse)
        assert (joined.error_code, joined.generation_id) == (ErrorCode.NONE, 1)


async def test_nobody_is_served_before_the_cluster_is_known(tmp_path: Path) -> None:
    """Offsets of another cluster, were it one, must not be told or taken."""
    async with running(tmp_path, admitted=False) as shim:
        assert await shim.commit("g", 7).result() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert await shim.fetch("g").result() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        shim.runtime.admit()
        commit = shim.commit("g", 7)
        await shim.log.write_begun()
        shim.log.release()
        assert error_in(await commit.result()) == ErrorCode.NONE
