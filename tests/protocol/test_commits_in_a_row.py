"""Commits in a row are what the codec reads there, frame by frame, and are answered as it would answer them."""

from __future__ import annotations

import gc
from typing import Any, Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from protocol.commit_rows import API, AllCommitted, rows_in
from protocol.commits_in_a_row import MOST, MOST_ROWS, commits_in_a_row
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import API as CODEC
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

VERSION: Final = 9
NOT_IN_A_ROW: Final = (
    "metadata",
    "condition",
    "null metadata of one",
    "member",
    "topic",
    "two topics",
    "one more",
    "client",
    "version",
    "tagged",
    "junk",
)
"""What a commit may have that is not as in the plain ones."""


def request(number: int, kind: str, first: int, count: int) -> OffsetCommitRequest:
    metadata = None if kind == "null metadata" else ""
    partitions = [
        OffsetCommitRequestPartition(first + place, 2**40 * number + place, number - 1, committed_metadata=metadata)
        for place in range(count + (kind == "one more"))
    ]
    match kind:
        case "metadata":
            partitions[-1] = partitions[-1]._replace(committed_metadata="m")
        case "condition":
            partitions[-1] = partitions[-1]._replace(tagged=((20_307, bytes(8)),))
        case "null metadata of one":
            partitions.append(partitions[-1]._replace(committed_metadata=None))
    topic = OffsetCommitRequestTopic("payment" if kind == "topic" else "orders!", partitions=tuple(partitions))
    return OffsetCommitRequest(
        "group",
        7,
        "another" if kind == "member" else "member1",
        topics=(topic, topic) if kind == "two topics" else (topic,),
        tagged=((7, b"tag"),) if kind == "tagged" else (),
    )


def frame(number: int, kind: str, made: OffsetCommitRequest) -> bytes:
    version = VERSION - 1 if kind == "version" else VERSION
    framed = CODEC.request_frame(version, number, "other" if kind == "client" else "admin", made)
    if kind == "junk":
        return (len(framed) - 3).to_bytes(4, "big") + framed[4:] + b"\0"
    return framed


def response(made: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    (topic,) = made.topics
    partitions = tuple(OffsetCommitResponsePartition(p.partition_index, error) for p in topic.partitions)
    return OffsetCommitResponse(topics=(OffsetCommitResponseTopic(topic.name, partitions=partitions),))


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["plain"] * 20 + ["null metadata"] * 9 + list(NOT_IN_A_ROW)),
            st.sampled_from([0, 0, 0, 1, 300, 2**31 - 200]),
        ),
        min_size=1,
        max_size=12,
    ),
    st.sampled_from([1, 1, 2, 9, 100, 127, 128]),
    st.one_of(st.just(0), st.integers(0, 3_000)),
    st.integers(0, 30),
)
@example([("plain", 0), ("plain", 0), ("junk", 0)], 1, 0, 30)
def test_they_are_the_commits_that_follow_one_another(
    made: list[tuple[str, int]], count: int, cut: int, most: int
) -> None:
    """What they are taken for, how far they go, and what they are answered."""
    requests = [request(number, kind, first, count) for number, (kind, first) in enumerate(made)]
    frames = [frame(number, kind, each) for number, ((kind, _), each) in enumerate(zip(made, requests, strict=True))]
    whole = b"before" + b"".join(frames)
    whole = whole[: max(6 + len(frames[0]), len(whole) - cut)]
    found = commits_in_a_row(whole, 6, most)
    taken = 0
    while (
        taken < min(most, len(made))
        and made[taken][0] == made[0][0]
        and 6 + sum(map(len, frames[: taken + 1])) <= len(whole)
    ):
        taken += 1
    alike = made[0][0] in ("plain", "null metadata", "topic", "member", "client", "version", "one more")
    if not alike or taken < 2:
        assert found is None
        return
    assert found is not None
    version = VERSION - 1 if made[0][0] == "version" else VERSION
    client_id = "other" if made[0][0] == "client" else "admin"
    assert (found.version, found.client_id) == (version, client_id)
    assert found.end == 6 + sum(map(len, frames[:taken]))
    assert list(found.correlation_ids) == [number.to_bytes(4, "big") for number in range(taken)]
    (topic,) = found.request.topics
    assert [p[:3] for p in topic.partitions] == [p[:3] for each in requests[:taken] for p in each.topics[0].partitions]
    assert found.request._replace(topics=()) == requests[0]._replace(topics=())
    assert topic._replace(partitions=()) == requests[0].topics[0]._replace(partitions=())
    rows: Any = topic.partitions
    assert rows_in(found.request.topics) == len(rows)
    assert (rows.lowest, rows.highest) == (min(p[0] for p in rows), max(p[0] for p in rows))
    assert {p[0]: p[:3] for p in (rows if rows.last is None else rows.last)} == {p[0]: p[:3] for p in rows}
    for error in (ErrorCode.NONE, ErrorCode.NOT_COORDINATOR):
        expected = b"".join(
            CODEC.response_frame(version, number, response(each, error)) for number, each in enumerate(requests[:taken])
        )
        assert found.answered(response(found.request, error)) == expected
        if error is ErrorCode.NONE:
            assert found.all_committed() == expected
            assert found.answered(AllCommitted(found.request).response()) == expected


@settings(deadline=None)
@given(st.integers(2, 5), st.sampled_from([1, 2, 40]), st.data())
def test_what_is_found_in_changed_bytes_is_what_the_codec_reads_there(
    frames: int, count: int, data: st.DataObject
) -> None:
    single = request(3, "plain", 0, count)
    raw = bytearray().join(frame(number, "plain", single) for number in range(frames))
    size = len(raw) // frames
    API.parse_request(VERSION, bytes(raw[:size]), 4)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.one_of(st.integers(0, len(raw) - 1), st.integers(len(raw) - 20, len(raw) - 1)))
        raw[at] = data.draw(st.sampled_from([0, 1, 2, 9, 127, 128, 255]))
    first_size = int.from_bytes(raw[:4], "big", signed=True)
    if not 8 <= first_size <= len(raw) - 4:  # the first frame is all there, says whoever asks
        return
    found = commits_in_a_row(bytes(raw), 0, 9)
    if found is None:
        return
    pos = 0
    partitions: list[Any] = []
    for correlation_id in found.correlation_ids:
        end = pos + 4 + int.from_bytes(raw[pos : pos + 4], "big")
        header, parsed = CODEC.parse_request(found.version, bytes(raw[pos:end]), 4)
        assert header[:2] == (CODEC.key, found.version)
        assert header.correlation_id.to_bytes(4, "big", signed=True) == correlation_id
        assert header.client_id == found.client_id
        assert parsed._replace(topics=()) == found.request._replace(topics=())
        assert [topic.name for topic in parsed.topics] == [topic.name for topic in found.request.topics]
        partitions += parsed.topics[0].partitions
        pos = end
    assert pos == found.end
    assert [p[:3] for p in found.request.topics[0].partitions] == [p[:3] for p in partitions]


@pytest.mark.parametrize("count", [1, 1000, MOST_ROWS // 2, MOST_ROWS // 2 + 1])
def test_they_are_bounded(count: int) -> None:
    each = frame(1, "plain", request(1, "plain", 0, count))
    found = commits_in_a_row(each * (MOST + 1 if count == 1 else 6), 0, MOST + 10)
    if count > MOST_ROWS // 2:
        assert found is None
    else:
        assert found is not None
        assert rows_in(found.request.topics) == min(MOST, MOST_ROWS // count) * count


def test_nothing_of_them_is_left_to_the_garbage_collector() -> None:
    """It would be some of its work for each commit."""
    frames = frame(1, "plain", request(1, "plain", 0, 3)) * 3
    API.parse_request(VERSION, frames[: len(frames) // 3], 4)
    commits_in_a_row(frames, 0, 9)
    gc.collect()
    API.parse_request(VERSION, frames[: len(frames) // 3], 4)
    commits_in_a_row(frames, 0, 9)
    assert gc.collect() == 0


@pytest.mark.parametrize("version", range(2, 8))
def test_old_versions_are_left_alone(version: int) -> None:
    made = OffsetCommitRequest("g", topics=(OffsetCommitRequestTopic("t", partitions=()),))
    assert commits_in_a_row(CODEC.request_frame(version, 1, "c", made) * 3, 0, 9) is None
