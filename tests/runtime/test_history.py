"""The history: every commit, beside the offsets, in the same flight; and only for as long as is asked for."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path

import pytest

from protocol.commits_in_a_row import commits_in_a_row
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import (
    API,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue, decode_key, decode_value
from protocol.own.history_log import HISTORY_TOPIC, HistoryRecord, OffsetHistoryKey, OffsetHistoryValue, decode_history
from protocol.own.state_log import STATE_TOPIC
from protocol.partition import OFFSETS_TOPIC
from shim.config import Settings
from shim.coordinator import Caller, CoordinatorSettings
from shim.disk_log import backend, open_log
from shim.log import LogError, OffsetsLog
from shim.log.cleaner.retention import Retention
from shim.log.journal.journal import JOURNAL_NAME
from tests.coordinator.driving import START, Driven
from tests.runtime.held_log import Answered
from tests.runtime.running import CALLER, TOPIC, Running, offset_in, running
from tests.runtime.test_runtime import WITHOUT_HISTORY, error_in, served_again
from tests.waiting import until

ONE = Settings(offsets_topic_num_partitions=1, log_cleaner_backoff_ms=10)


async def remembered(shim: Running, number: int = 0) -> list[HistoryRecord]:
    """With what waits."""
    await shim.backend.settle_history(number)
    return written(shim.log, number)


def written(log: OffsetsLog, number: int = 0) -> list[HistoryRecord]:
    return [
        told
        for batch in log.partition_log(number, topic=HISTORY_TOPIC).read()
        for record in batch.records
        for told in decode_history(record.key or b"", record.value) or ()
    ]


async def offsets_remembered(shim: Running) -> list[int]:
    return [value.offset for _, value in await remembered(shim)]


async def test_every_commit_is_there_with_who_made_it(tmp_path: Path) -> None:
    async with running(tmp_path, ONE) as shim:
        shim.log.release(100)
        first = shim.commit("g", 7)
        await first.result()
        await shim.commit("g", 3).result()
        await shim.commit("h", 4).result()
        (oldest, back, other) = await remembered(shim)
        key, value = oldest
        assert key == OffsetHistoryKey("g", TOPIC, 0, key.time)
        assert value == OffsetHistoryValue(7, -1, "", key.time, -1, "", None, *CALLER)
        assert (back[1].offset, other[0].group) == (3, "h")
        assert key.time <= back[0].time <= other[0].time


async def test_offsets_and_their_history_are_one_write(tmp_path: Path) -> None:
    async with running(tmp_path, ONE) as shim:
        commit = shim.commit("g", 7)
        await shim.log.write_begun()
        ((offsets, history),) = shim.log.writes
        assert (offsets.topic, history.topic) == (OFFSETS_TOPIC, HISTORY_TOPIC)
        assert (len(offsets.records), len(history.records)) == (1, 1)
        assert not commit.told
        shim.log.release()
        assert error_in(await commit.result()) == ErrorCode.NONE
        assert [type(event) for event in shim.log.history] == [str, Answered], "one sync for both, then the answer"


@pytest.mark.parametrize("call", ["pwrite", "fdatasync"])
@pytest.mark.parametrize("topic", [OFFSETS_TOPIC, HISTORY_TOPIC])
async def test_neither_is_without_the_other(tmp_path: Path, call: str, topic: str) -> None:
    async with running(tmp_path, ONE) as shim:
        shim.log.release(100)
        assert error_in(await shim.commit("g", 1).result()) == ErrorCode.NONE
        shim.log.files.fail(call, errno.EIO, topic, JOURNAL_NAME)
        assert await shim.commit("g", 2).result() is ErrorCode.NOT_COORDINATOR
        shim.log.files.heal()
        assert offset_in(await served_again(shim, "g")) == 1
        assert await offsets_remembered(shim) == [1]
        assert error_in(await shim.commit("g", 3).result()) == ErrorCode.NONE
        assert await offsets_remembered(shim) == [1, 3]
    async with running(tmp_path, ONE) as shim:
        assert offset_in(await shim.fetch("g").result()) == 3
        assert await offsets_remembered(shim) == [1, 3]


async def test_it_comes_into_its_segment_by_itself(tmp_path: Path) -> None:
    """With nothing else to do for the log, in an hour."""
    async with running(tmp_path, replace(ONE, log_flush_offset_checkpoint_interval_ms=3_600_000)) as shim:
        shim.log.release(2)
        await shim.commit("g", 1).result()
        await shim.commit("g", 2).result()  # the first one begins the segments, so its history does not wait
        await until(lambda: len(written(shim.log)) == 2)


async def test_who_asks_for_it_does_not_wait_for_a_disk_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "_SETTLED_WITHIN_S", 0.1)
    async with running(tmp_path, ONE) as shim:
        shim.log.release(1)
        await shim.commit("g", 1).result()
        await shim.log.write_begun()
        hangs = shim.commit("g", 2)
        await shim.log.write_begun()
        with pytest.raises(LogError, match="the disk hangs"):
            await shim.backend.settle_history(0)
        shim.log.release()
        await hangs.result()
        assert await offsets_remembered(shim) == [1, 2]


IN_A_ROW = [[(0, 5), (1, 6)], [(0, 7), (1, 8)], [(0, 3), (1, 9)]]
ELSEWHERE = [*IN_A_ROW, [(1, 4), (2, 2)]]


@pytest.mark.parametrize(
    ("settings", "commits", "kept"),
    [
        (ONE, IN_A_ROW, IN_A_ROW[-1:]),
        (ONE, ELSEWHERE, ELSEWHERE),
        (replace(ONE, offsets_history_retention_minutes=0), IN_A_ROW, IN_A_ROW),
    ],
    ids=["what is left", "of others, too: all", "without a history: all"],
)
async def test_of_commits_that_are_decided_as_one_the_offsets_have(
    tmp_path: Path, settings: Settings, commits: list[list[tuple[int, int]]], kept: list[list[tuple[int, int]]]
) -> None:
    """Each stands in one of the two at least, and what is read back is what the last of them left."""
    frames = [
        API.request_frame(9, number, "old", OffsetCommitRequest("g", topics=(_of_topic(each),)))
        for number, each in enumerate(commits)
    ]
    in_a_row = commits_in_a_row(b"".join(frames), 0, len(frames))
    assert in_a_row is not None
    assert len(in_a_row.correlation_ids) == len(commits)
    async with running(tmp_path, settings) as shim:
        shim.log.release(100)
        ticket = shim.ticket("commits")
        shim.runtime.submit(
            0,
            lambda coordinator, now, asker: coordinator.offset_commit(now, CALLER, 9, in_a_row.request, asker),
            ticket,
        )
        await ticket.result()
        assert offsets_written(shim.log) == [row for each in kept for row in each]
        if settings is ONE:
            history = [(key.partition, value.offset) for key, value in await remembered(shim)]
            assert history == [row for each in commits for row in each]
    async with running(tmp_path, settings) as shim:
        (topic,) = (await shim.fetch("g").result()).topics
        left = {each.partition_index: each.committed_offset for each in topic.partitions}
        assert left == dict(row for each in commits for row in each)


def _of_topic(rows: list[tuple[int, int]]) -> OffsetCommitRequestTopic:
    return OffsetCommitRequestTopic(
        TOPIC, partitions=tuple(OffsetCommitRequestPartition(*row, -1, -1, "") for row in rows)
    )


def offsets_written(log: OffsetsLog) -> list[tuple[int, int]]:
    found = []
    for batch in log.partition_log(0).read():
        for record in batch.records:
            key = decode_key(record.key or b"")
            value = decode_value(key, record.value)
            assert isinstance(key, OffsetCommitKey)
            assert isinstance(value, OffsetCommitValue)
            found.append((key.partition, value.offset))
    return found


async def test_none_is_kept_where_none_is_asked_for(tmp_path: Path) -> None:
    async with running(tmp_path, WITHOUT_HISTORY) as shim:
        shim.log.release(100)
        assert error_in(await shim.commit("g", 1).result()) == ErrorCode.NONE
        assert all(not written(shim.log, number) for number in range(3))


def test_the_topic_is_there_where_a_history_is_or_was(tmp_path: Path) -> None:
    def topics(retention: int) -> set[str]:
        settings = Settings(offsets_topic_num_partitions=2, offsets_history_retention_minutes=retention)
        log = open_log(tmp_path, settings)
        found = {partition.topic_partition.topic for partition in log.partition_logs()}
        log.close()
        return found

    assert topics(0) == {OFFSETS_TOPIC, STATE_TOPIC}
    assert topics(1) == {OFFSETS_TOPIC, STATE_TOPIC, HISTORY_TOPIC}
    assert topics(0) == {OFFSETS_TOPIC, STATE_TOPIC, HISTORY_TOPIC}


async def filled(shim: Running) -> None:
    shim.log.release(1_000)
    for offset in range(20):
        assert error_in(await shim.commit("g", offset).result()) == ErrorCode.NONE


async def test_what_is_too_old_goes_and_the_offsets_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks, step = 0, Retention.step

    def counted(retention: Retention, now_ms: int) -> int:
        nonlocal looks
        looks += 1
        return step(retention, now_ms)

    monkeypatch.setattr(Retention, "step", counted)
    small = replace(ONE, offsets_topic_segment_bytes=300, log_cleaner_enable=False)
    async with running(tmp_path, small) as shim:
        await filled(shim)
        await shim.backend.settle_history(0)
        before = looks
        await until(lambda: looks > before + 2)
        assert await offsets_remembered(shim) == list(range(20))
    none = replace(small, offsets_history_retention_minutes=0, log_flush_offset_checkpoint_interval_ms=10)
    async with running(tmp_path, none) as shim:
        await until(lambda: not written(shim.log))
        assert offset_in(await shim.fetch("g").result()) == 19
        offsets = shim.log.partition_log(0)
        assert len([record for batch in offsets.read() for record in batch.records]) == 20


async def test_the_history_is_never_compacted(tmp_path: Path) -> None:
    small = replace(ONE, offsets_topic_segment_bytes=300)
    async with running(tmp_path, small) as shim:
        await filled(shim)
        offsets = shim.log.partition_log(0)
        await until(lambda: len([record for batch in offsets.read() for record in batch.records]) < 10)
        assert await offsets_remembered(shim) == list(range(20))
    async with running(tmp_path, small) as shim:
        assert offset_in(await shim.fetch("g").result()) == 19
        assert await offsets_remembered(shim) == list(range(20))


# -- what the coordinator puts into it


def history_of(d: Driven, request: OffsetCommitRequest, caller: Caller = CALLER, version: int = 8) -> list[object]:
    outcome = d.coordinator.offset_commit(d.now, caller, version, request, d.ticket())
    (_, response), *_ = outcome.answers
    assert isinstance(response, OffsetCommitResponse)
    accepted = [p for t in response.topics for p in t.partitions if p.error_code == ErrorCode.NONE]
    assert len(outcome.records) == len(outcome.history) == len(accepted)
    return list(outcome.history)


def test_a_members_commit_says_which_member_and_generation() -> None:
    d = Driven()
    ticket = d.ask_join(instance="i", version=7)
    d.advance(3_000)
    joined = d.joined(ticket)
    d.ask_sync(joined.member_id, joined.generation_id, {}, instance="i")
    partitions = (
        OffsetCommitRequestPartition(0, 5, 2, committed_metadata="m"),
        OffsetCommitRequestPartition(1, 6, committed_metadata="x" * 4097),
        OffsetCommitRequestPartition(2, 7, commit_timestamp=12),
    )
    request = OffsetCommitRequest(
        "g", joined.generation_id, joined.member_id, "i", topics=(OffsetCommitRequestTopic("t", partitions=partitions),)
    )
    who = (joined.generation_id, joined.member_id, "i", "consumer-1", "/10.0.0.7")
    assert history_of(d, request, Caller("consumer-1", "/10.0.0.7")) == [
        (OffsetHistoryKey("g", "t", 0, d.now), OffsetHistoryValue(5, 2, "m", d.now, *who)),
        (OffsetHistoryKey("g", "t", 2, d.now), OffsetHistoryValue(7, -1, "", 12, *who)),
    ]
    assert history_of(d, request._replace(generation_id_or_member_epoch=9)) == []


def test_who_commits_counts_for_the_size_of_a_commit() -> None:
    partitions = tuple(OffsetCommitRequestPartition(number, 1) for number in range(100))
    request = OffsetCommitRequest("g", topics=(OffsetCommitRequestTopic("t", partitions=partitions),))
    caller = Caller("c" * 30_000, "/127.0.0.1")
    small = CoordinatorSettings(commit_max_bytes=1 << 20)
    assert history_of(Driven(small), request, caller) == []
    assert len(history_of(Driven(small), request)) == 100
    without = Driven(CoordinatorSettings(commit_max_bytes=1 << 20, offsets_history_retention_minutes=0))
    outcome = without.coordinator.offset_commit(START, caller, 8, request, without.ticket())
    assert (len(outcome.records), len(outcome.history)) == (100, 0)
