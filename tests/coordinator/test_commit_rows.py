"""Plain commits as rows lead to what the same commits lead to offset by offset: state, records, history, answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.commit_rows import API, AllCommitted, rows_in
from protocol.commits_in_a_row import commits_in_a_row
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import API as CODEC
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue, decode_key, decode_value
from protocol.own.conditional_commit import expecting
from protocol.own.history_log import HistoryRecord, decode_history
from protocol.own.history_runs import history_of
from protocol.own.position import Position
from protocol.own.record_sets import Appended, Runs
from protocol.records.batches import decode_records
from shim.coordinator import Caller, CoordinatorSettings, FollowedBatch, GroupCoordinator, Outcome, TransactionEnd
from shim.log.segments.batching import prepare_batches
from shim.runtime.encoding import encoded
from shim.runtime.flight import Ticket
from tests.coordinator.driving import START

CALLER = Caller("client", "/127.0.0.1")
GROUPS = ["g", "other"]
TOPICS = ["orders", "payments"]
TICKET = "ticket"

Operation = Callable[[GroupCoordinator, int], Outcome]


class Carried(NamedTuple):
    """What an outcome has left: records, what the history says, whatever records it has for that, and answers."""

    offsets: list[tuple[bytes | None, bytes | None]]
    history: list[HistoryRecord]
    answers: list[Any]


def carried(outcome: Outcome) -> Carried:
    batches, history, answers, *_ = encoded({TICKET: cast(Ticket, TICKET)}, outcome)
    plain = [response.response() if isinstance(response, AllCommitted) else response for _, response in answers]
    runs = history_of(history)
    told = [each for key, value in _logged([Runs(runs, len(runs))]) for each in decode_history(key or b"", value) or ()]
    return Carried(list(_logged(batches)), told, plain)


def _logged(appended: list[Any]) -> Iterator[tuple[bytes | None, bytes | None]]:
    batches: list[Appended] = appended
    for batch in prepare_batches(5, batches, START):
        yield from ((record.key, record.value) for record in decode_records(batch.data))


@st.composite
def commits(draw: st.DrawFn) -> OffsetCommitRequest:
    version = draw(st.sampled_from([2, 6, 8, 9]))
    topics = []
    for name in draw(st.lists(st.sampled_from(TOPICS), min_size=1, max_size=2)):
        first = draw(st.sampled_from([0, 0, 1, 60]))
        indexes = draw(
            st.one_of(
                st.sampled_from([list(range(first, first + count)) for count in (1, 7, 8, 9, 40)]),
                st.lists(st.sampled_from([0, 1, 2, 5, 9, 1000, -1, 2**31 - 1]), min_size=1, max_size=12),
            )
        )
        epoch = draw(st.sampled_from([3, -1, 0x01020304, 2**31 - 1]))
        offset, metadata = draw(st.integers(-5, 2**62)), draw(st.sampled_from(["", "", "", None, "m"]))
        partitions = [OffsetCommitRequestPartition(p, offset + i, epoch, -1, metadata) for i, p in enumerate(indexes)]
        if version >= 8 and draw(st.integers(0, 4)) == 0:
            partitions[-1] = expecting(partitions[-1], draw(st.sampled_from([-1, offset])))
        if version < 6:
            partitions = [partition._replace(committed_leader_epoch=-1) for partition in partitions]
        topics.append(OffsetCommitRequestTopic(name, partitions=tuple(partitions)))
    retention = draw(st.sampled_from([-1, -1, 10_000])) if version == 2 else -1
    request = OffsetCommitRequest(draw(st.sampled_from(GROUPS)), retention_time_ms=retention, topics=tuple(topics))
    return CODEC.decode_request(version, CODEC.encode_request(version, request))[0]


def as_rows(request: OffsetCommitRequest) -> OffsetCommitRequest:
    """As it comes over the wire."""
    has_condition = any(p.tagged for topic in request.topics for p in topic.partitions)
    version = 2 if request.retention_time_ms != -1 else 9 if has_condition else 8
    _, parsed = API.parse_request(version, CODEC.request_frame(version, 1, "client", request), 4)
    assert parsed == request
    return parsed


def delete(group: str, topic: str, partitions: list[int]) -> Operation:
    asked = tuple(map(OffsetDeleteRequestPartition, partitions))
    request = OffsetDeleteRequest(group, (OffsetDeleteRequestTopic(topic, asked),))
    return lambda coordinator, now: coordinator.offset_delete(now, CALLER, 0, request, TICKET)


def begun(group: str, topic: str, partition: int, at: int) -> Operation:
    """A commit in a transaction, as it is read in the cluster's log."""
    record = (OffsetCommitKey(group, topic, partition), OffsetCommitValue(77, 1, "", START))
    batch = FollowedBatch(9, 0, Position(3, at), (record,))
    return lambda coordinator, now: coordinator.follow(now, batch)


def ended(committed: bool, at: int) -> Operation:
    end = TransactionEnd(9, 0, Position(3, at), committed, 0)
    return lambda coordinator, now: coordinator.follow(now, end)


@st.composite
def steps(draw: st.DrawFn) -> list[OffsetCommitRequest | Operation | str]:
    made: list[OffsetCommitRequest | Operation | str] = []
    for number in range(draw(st.integers(1, 10))):
        group, topic = draw(st.sampled_from(GROUPS)), draw(st.sampled_from(TOPICS))
        match draw(st.sampled_from(["commit"] * 5 + ["delete", "begin", "end", "dump"])):
            case "commit":
                made.append(draw(commits()))
            case "delete":
                made.append(delete(group, topic, draw(st.lists(st.integers(0, 20), max_size=5))))
            case "begin":
                made.append(begun(group, topic, draw(st.integers(0, 9)), 10 + number))
            case "end":
                made.append(ended(draw(st.booleans()), 10 + number))
            case "dump":
                made.append("dump")
    return made


def fetched(coordinator: GroupCoordinator) -> list[OffsetFetchResponseGroup]:
    asked = [OffsetFetchRequestGroup(group, topics=None) for group in GROUPS]
    return [coordinator.offset_fetch(group, require_stable=True) for group in asked]


@settings(deadline=None)
@given(steps(), st.booleans())
def test_rows_lead_to_the_same(made: list[OffsetCommitRequest | Operation | str], has_history: bool) -> None:
    chosen = CoordinatorSettings(
        offset_metadata_max_bytes=4096, offsets_history_retention_minutes=60 if has_history else 0
    )
    one_by_one, in_rows = GroupCoordinator(chosen), GroupCoordinator(chosen)
    recovered = GroupCoordinator(chosen)
    transactional = False
    dumps: list[tuple[Any, Any]] = []
    for number, step in enumerate(made):
        now = START + 1_000 * number
        if isinstance(step, str):  # taken while commits go on
            dumps.append((one_by_one.begin_dump(), in_rows.begin_dump()))
            continue
        if isinstance(step, OffsetCommitRequest):
            plain = carried(one_by_one.offset_commit(now, CALLER, 8, step, TICKET))
            request = as_rows(step)
            outcome = in_rows.offset_commit(now, CALLER, 8, request, TICKET)
            assert bool(outcome.rows) == bool(rows_in(request.topics) and request.retention_time_ms == -1)
            rows = carried(outcome)
        else:
            plain, rows = carried(step(one_by_one, now)), carried(step(in_rows, now))
            transactional = transactional or step.__qualname__.startswith(("begun", "ended"))
        assert rows == plain
        for key, value in rows.offsets if not transactional else ():
            decoded = decode_key(key or b"")
            recovered.replay(decoded, decode_value(decoded, value))  # type: ignore[arg-type]
        assert fetched(in_rows) == fetched(one_by_one)
    for one, other in dumps:
        while one.step():
            pass
        while other.step():
            pass
        if one is dumps[-1][0]:
            assert one.pieces() == other.pieces()
    assert in_rows.dump() == one_by_one.dump()
    if not transactional:
        assert recovered.dump() == in_rows.dump()


@settings(deadline=None)
@given(
    st.lists(st.lists(st.sampled_from([0, 1, 2, 3, 3, 3, 70_000]), min_size=2, max_size=40), min_size=1, max_size=3),
    st.sampled_from([1, 1, 2, 9, 30]),
    st.booleans(),
    st.booleans(),
)
def test_commits_in_a_row_lead_to_the_same(
    runs: list[list[int]], count: int, has_history: bool, is_pending: bool
) -> None:
    """Many commits that are decided as one leave what they leave one after the other."""
    chosen = CoordinatorSettings(offsets_history_retention_minutes=60 if has_history else 0)
    one_by_one, in_a_row = GroupCoordinator(chosen), GroupCoordinator(chosen)
    for coordinator in (one_by_one, in_a_row) if is_pending else ():
        begun("g", "orders", 3, 10)(coordinator, START)
    offset = 0
    for now, partitions in enumerate(runs, START):
        frames = []
        single: list[Carried] = []
        for partition in partitions:
            offset += 1
            committed = tuple(
                OffsetCommitRequestPartition(partition + number, offset + number, offset % 5, -1, "")
                for number in range(count)
            )
            request = OffsetCommitRequest("g", topics=(OffsetCommitRequestTopic("orders", partitions=committed),))
            frames.append(CODEC.request_frame(9, offset, "client", request))
            single.append(carried(one_by_one.offset_commit(now, CALLER, 9, request, TICKET)))
        commits = commits_in_a_row(b"".join(frames), 0, 100)
        assert commits is not None
        several = carried(in_a_row.offset_commit(now, CALLER, 9, commits.request, TICKET))
        # What another one of them overwrites the history alone has.
        kept = single[-1:] if has_history and len(set(partitions)) == 1 else single
        assert several.offsets == [record for each in kept for record in each.offsets]
        assert several.history == [record for each in single for record in each.history]
        assert in_a_row.dump() == one_by_one.dump()
        assert fetched(in_a_row) == fetched(one_by_one)


@pytest.mark.parametrize("version", [8, 9])
def test_what_is_refused_is_refused(version: int) -> None:
    """A commit of a generation that there is not, one that is too large, one for which there is no room."""
    partitions = tuple(OffsetCommitRequestPartition(p, 5) for p in range(20))
    topics = (OffsetCommitRequestTopic("orders", partitions=partitions),)
    no_generation = ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ErrorCode.ILLEGAL_GENERATION
    for request, chosen, error in (
        (OffsetCommitRequest("g", 5, "m", topics=topics), CoordinatorSettings(), no_generation),
        (
            OffsetCommitRequest("g", topics=topics),
            CoordinatorSettings(commit_max_bytes=500),
            ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
        ),
        (
            OffsetCommitRequest("g", topics=topics),
            CoordinatorSettings(group_memory_max_bytes=0),
            ErrorCode.POLICY_VIOLATION,
        ),
    ):
        coordinator = GroupCoordinator(chosen)
        outcome = coordinator.offset_commit(START, CALLER, version, as_rows(request), TICKET)
        ((_, response),) = outcome.answers
        assert [*outcome.rows, *outcome.records, *outcome.history] == []
        assert coordinator.offset_count == 0
        assert {p.error_code for topic in response.topics for p in topic.partitions} == {error}  # type: ignore[union-attr]
