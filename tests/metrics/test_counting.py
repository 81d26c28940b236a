"""Histograms and counts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.commit_rows import AllCommitted
from protocol.errors import ErrorCode
from protocol.messages import describe_groups, heartbeat, leave_group, offset_commit, offset_fetch
from shim.api import OFFERED, ROUTES, Served
from shim.api.counting import count_answer
from shim.metrics import AnswerCounts, Histogram, SoftwareSeen
from shim.metrics.clients import OTHER
from shim.metrics.counts import MOST_SOFTWARE

BOUNDS = (0.5, 1.0, 2.0)


@given(st.lists(st.tuples(st.floats(0, 4), st.integers(1, 5))))
def test_a_histogram_counts_what_is_at_or_below_each_bound(observed: list[tuple[float, int]]) -> None:
    histogram = Histogram(BOUNDS)
    for value, times in observed:
        histogram.observe(value, times)
    read = histogram.read()
    expected = [("0.5", 0.5), ("1.0", 1.0), ("2.0", 2.0), ("+Inf", float("inf"))]
    assert read.cumulative() == [
        (text, sum(times for value, times in observed if value <= bound)) for text, bound in expected
    ]
    assert read.observations == sum(times for _, times in observed)
    assert read.total == pytest.approx(sum(value * times for value, times in observed))


def test_software_that_clients_make_up_does_not_pile_up() -> None:
    seen = SoftwareSeen()
    for number in range(2 * MOST_SOFTWARE):
        seen.add("client", f"1.{number}")
    seen.add("client", "1.0")
    seen.add('a"b\n', "x" * 200)
    assert len(seen.connections) == MOST_SOFTWARE + 1
    assert seen.connections["client", "1.0"] == 2
    assert seen.connections[OTHER, OTHER] == MOST_SOFTWARE + 1


def _committed(*codes: int) -> offset_commit.OffsetCommitResponse:
    partitions = tuple(offset_commit.OffsetCommitResponsePartition(n, code) for n, code in enumerate(codes))
    return offset_commit.OffsetCommitResponse(
        topics=(offset_commit.OffsetCommitResponseTopic("t", partitions=partitions),)
    )


def _request(partitions: int) -> offset_commit.OffsetCommitRequest:
    of_topic = tuple(offset_commit.OffsetCommitRequestPartition(n, 1) for n in range(partitions))
    return offset_commit.OffsetCommitRequest(
        "g", topics=(offset_commit.OffsetCommitRequestTopic("t", partitions=of_topic),)
    )


UNKNOWN_MEMBER, TOO_LARGE = ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.OFFSET_METADATA_TOO_LARGE


@pytest.mark.parametrize(
    ("api", "response", "answers", "errors", "offsets"),
    [
        (offset_commit, AllCommitted(_request(3)), 1, {}, 3),
        (offset_commit, _committed(0, TOO_LARGE, TOO_LARGE, 0), 1, {TOO_LARGE: 1}, 2),
        (offset_commit, _committed(UNKNOWN_MEMBER, UNKNOWN_MEMBER), 2, {UNKNOWN_MEMBER: 2}, 0),
        (heartbeat, heartbeat.HeartbeatResponse(error_code=UNKNOWN_MEMBER), 1, {UNKNOWN_MEMBER: 1}, 0),
        (heartbeat, heartbeat.HeartbeatResponse(error_code=0), 1, {}, 0),
        (heartbeat, heartbeat.HeartbeatResponse(error_code=-1), 1, {0xFFFF: 1}, 0),
        (
            offset_fetch,
            offset_fetch.OffsetFetchResponse(groups=(offset_fetch.OffsetFetchResponseGroup("g", (), UNKNOWN_MEMBER),)),
            1,
            {UNKNOWN_MEMBER: 1},
            0,
        ),
        (describe_groups, describe_groups.DescribeGroupsResponse(), 1, {}, 0),
        (
            leave_group,
            leave_group.LeaveGroupResponse(members=(leave_group.MemberResponse("m", None, UNKNOWN_MEMBER),)),
            1,
            {UNKNOWN_MEMBER: 1},
            0,
        ),
    ],
)
def test_what_answers_say(api: Any, response: Any, answers: int, errors: dict[int, int], offsets: int) -> None:
    counts = AnswerCounts()
    key = api.API.key
    served = ROUTES[key << 16 | OFFERED[key].last].disposition
    assert isinstance(served, Served)
    count_answer(counts, key, served.codes, response, answers)
    assert counts.errors == {api.API.key << 16 | code: count for code, count in errors.items()}
    assert counts.offsets_committed == offsets
