"""Commits as rows are the same messages, records and responses as those that the codec makes."""

from __future__ import annotations

import struct

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from protocol.commit_rows import API, AllCommitted, CommitRows, rows_in
from protocol.errors import DecodeError
from protocol.messages import heartbeat, offset_fetch
from protocol.messages.offset_commit import API as CODEC
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue, commit_runs, encode_key, encode_value
from protocol.own.record_sets import RecordSet, Runs
from protocol.repeated import Repeated
from shim.log.segments.batching import prepare_batches

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
VERSIONS = st.integers(*CODEC.versions)
PLAIN_VERSIONS = st.integers(2, 9)
NAMES = st.one_of(st.sampled_from(["orders", "g", "", "zahlungen-ä", "x" * 126, "x" * 127, "y" * 300]), st.text())
LEADER_EPOCHS = st.one_of(st.just(-1), INT32)


@st.composite
def indexes(draw: st.DrawFn) -> list[int]:
    """Partitions of one topic: mostly consecutive ones, as an assignor gives them."""
    first = draw(st.sampled_from([0, 0, 3, 200, 4090, 70_000, -2]))
    if draw(st.booleans()):
        return list(range(first, first + draw(st.sampled_from([1, 1, 2, 7, 8, 9, 70, 300]))))
    return draw(st.lists(st.one_of(st.integers(0, 50), INT32), min_size=1, max_size=20))


@st.composite
def partitions(draw: st.DrawFn, version: int) -> tuple[OffsetCommitRequestPartition, ...]:
    metadata = draw(st.sampled_from(["", None]))
    offset, epoch = draw(INT64), draw(LEADER_EPOCHS)
    made = [
        OffsetCommitRequestPartition(
            index, (offset + 3 * place) % 2**62, epoch if version >= 6 else -1, committed_metadata=metadata
        )
        for place, index in enumerate(draw(indexes()))
    ]
    if draw(st.integers(0, 3)) == 0:  # one that is not plain
        place = draw(st.integers(0, len(made) - 1))
        other = draw(st.sampled_from(["", None, "m", "x" * 200]))
        tagged = draw(st.sampled_from([(), ((20_307, bytes(8)),), ((0, b""),)])) if version >= 8 else ()
        made[place] = made[place]._replace(committed_metadata=other, tagged=tagged)
    return tuple(made)


@st.composite
def requests(draw: st.DrawFn, version: int) -> OffsetCommitRequest:
    topics = [
        OffsetCommitRequestTopic(draw(NAMES) if version < 10 else "", partitions=draw(partitions(version)))
        for _ in range(draw(st.sampled_from([0, 1, 1, 1, 2, 5])))
    ]
    tagged = draw(st.sampled_from([(), (), (), ((7, b"tag"),)])) if version >= 8 else ()
    return OffsetCommitRequest(
        draw(NAMES),
        draw(INT32) if version >= 1 else -1,
        draw(NAMES) if version >= 1 else "",
        draw(st.one_of(st.none(), NAMES)) if version >= 7 else None,
        draw(st.sampled_from([-1, 60_000])) if 2 <= version <= 4 else -1,
        tuple(topics),
        tagged,
    )


def plain(count: int = 1, first: int = 0, topics: tuple[str, ...] = ("orders",)) -> OffsetCommitRequest:
    rows = tuple(OffsetCommitRequestPartition(p, 1000 + p, 4) for p in range(first, first + count))
    return OffsetCommitRequest(
        "group", 7, "member", topics=tuple(OffsetCommitRequestTopic(name, partitions=rows) for name in topics)
    )


def outcome(api: object, version: int, frame: bytes, pos: int) -> object:
    """The message, or why there is none."""
    try:
        return api.parse_request(version, frame, pos)  # type: ignore[attr-defined]
    except DecodeError as error:
        return error.reason, error.position, error.path


@settings(deadline=None)
@given(st.data(), VERSIONS, INT32, st.one_of(st.none(), NAMES))
def test_the_messages_are_the_codecs(
    data: st.DataObject, version: int, correlation_id: int, client: str | None
) -> None:
    frame = CODEC.request_frame(version, correlation_id, client, data.draw(requests(version)))
    for _ in range(2):  # the second time some is known
        assert API.parse_request(version, frame, 4) == CODEC.parse_request(version, frame, 4)


@settings(deadline=None)
@given(st.data(), PLAIN_VERSIONS)
def test_other_bytes_are_read_as_the_codec_reads_them(data: st.DataObject, version: int) -> None:
    """Cut off, changed and lengthened, before and after a frame like it was seen."""
    frame = bytearray(CODEC.request_frame(version, 5, "client", data.draw(requests(version))))
    if data.draw(st.booleans()):
        API.parse_request(version, bytes(frame), 4)
    for _ in range(data.draw(st.integers(0, 2))):
        frame[data.draw(st.integers(4, len(frame) - 1))] = data.draw(st.sampled_from([0, 1, 2, 127, 128, 255]))
    stop = data.draw(st.integers(12, len(frame) + 1))
    raw = bytes(frame[:stop]) + data.draw(st.binary(max_size=3))
    assert outcome(API, version, raw, 4) == outcome(CODEC, version, raw, 4)


@pytest.mark.parametrize("version", range(2, 10))
@pytest.mark.parametrize("count", [1, 2, 7, 8, 126, 127, 128, 300, 10_000])
@pytest.mark.parametrize("first", [0, 4000])
def test_plain_commits_are_rows(version: int, count: int, first: int) -> None:
    request = plain(count, first, ("orders", "payments"))
    if version < 6:
        topics = tuple(
            topic._replace(partitions=tuple(p._replace(committed_leader_epoch=-1) for p in topic.partitions))
            for topic in request.topics
        )
        request = request._replace(topics=topics)
    for _ in range(2):
        frame = CODEC.request_frame(version, 1, "client", request)
        _, parsed = API.parse_request(version, frame, 4)
        assert parsed == request
        assert API.request_frame(version, 1, "client", parsed) == frame, "to be passed on"
        assert rows_in(parsed.topics) == 2 * count
        rows: object = parsed.topics[0].partitions
        assert isinstance(rows, CommitRows)
        assert (rows.lowest, rows.highest, rows[count - 1]) == (
            first,
            first + count - 1,
            request.topics[0].partitions[-1],
        )


def test_what_is_known_of_a_commit_says_nothing_of_its_end() -> None:
    """A second commit of the same partition, with metadata or a condition."""
    for partition in (
        OffsetCommitRequestPartition(3, 5, 6, committed_metadata="metadata"),
        OffsetCommitRequestPartition(3, 5, 6, tagged=((20_307, bytes(8)),)),
        OffsetCommitRequestPartition(3, 5, 6, committed_metadata=None),
    ):
        for made in (OffsetCommitRequestPartition(3, 9), partition):
            request = OffsetCommitRequest("g", topics=(OffsetCommitRequestTopic("t", partitions=(made,)),))
            assert API.parse_request(9, CODEC.request_frame(9, 1, "c", request), 4)[1] == request


@settings(deadline=None)
@given(
    PLAIN_VERSIONS,
    st.sampled_from([1, 1, 3, 8, 127, 128, 300]),
    INT32,
    st.sampled_from([("orders",), ("a", "b"), ("ä",)]),
)
def test_responses_are_the_codecs(version: int, count: int, correlation_id: int, topics: tuple[str, ...]) -> None:
    frame = CODEC.request_frame(version, correlation_id, "client", _of_version(plain(count, 2, topics), version))
    for _ in range(2):
        _, request = API.parse_request(version, frame, 4)
        assert rows_in(request.topics)
        committed = AllCommitted(request)
        expected = CODEC.response_frame(version, correlation_id, committed.response())
        assert API.response_frame(version, correlation_id, committed) == expected
        assert API.response_frame(version, correlation_id, committed.response()) == expected


def _of_version(request: OffsetCommitRequest, version: int) -> OffsetCommitRequest:
    return CODEC.decode_request(version, CODEC.encode_request(version, request))[0]


def rows_of(partitions: list[tuple[int, int, int]], stride: int) -> CommitRows:
    raw = b"".join(struct.pack(">iqi", *row) + bytes(stride - 16) for row in partitions)
    return CommitRows(raw, stride, len(partitions), "")


@settings(deadline=None)
@given(st.data(), st.sampled_from([1, 5, 8, 63, 64, 65, 200]), st.sampled_from([0, 1, 60, 64, 8_000, 8_190]))
@example(None, 9_000, 3)
def test_records_are_those_that_are_made_one_by_one(data: st.DataObject | None, count: int, before: int) -> None:
    """In any place of a batch, and after records of another kind."""
    row = st.tuples(INT32, INT64, INT32)
    first = data.draw(row) if data is not None else (0, 0, 0)
    names = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
    group, topic = (data.draw(names) if data is not None else "name" for _ in range(2))
    now = data.draw(st.integers(0, 2**62)) if data is not None else 0
    partitions = [((first[0] + i) % 2**31, (first[1] + 7 * i) % 2**63, (first[2] + i) % 2**31) for i in range(count)]
    rows = rows_of(partitions, 16 if count % 2 else 18)
    offsets: list[tuple[bytes, bytes | None]] = []
    for partition, offset, epoch in partitions:
        value = OffsetCommitValue(offset, epoch, "", now)
        offsets.append((encode_key(OffsetCommitKey(group, topic, partition)), encode_value(value)))
    others: RecordSet = [(b"key", None)] * before
    made = prepare_batches(11, [others, Runs(commit_runs(group, topic, rows, now), count), others], 5)
    assert made == prepare_batches(11, [others, offsets, others], 5)


@settings(deadline=None)
@given(st.data(), st.integers(0, 4), INT32)
def test_repeated_requests_are_the_codecs(data: st.DataObject, version: int, correlation_id: int) -> None:
    api = Repeated(heartbeat.API)
    names = st.sampled_from(["a", "b", "x" * 300])
    for _ in range(4):
        request = heartbeat.HeartbeatRequest(data.draw(names), data.draw(st.integers(0, 1)), data.draw(names))
        frame = heartbeat.API.request_frame(version, correlation_id, data.draw(names), request)
        assert api.parse_request(version, frame, 4) == heartbeat.API.parse_request(version, frame, 4)


def test_what_is_kept_of_repeated_requests_is_bounded() -> None:
    api = Repeated(offset_fetch.API)
    for number in range(3_000):
        request = offset_fetch.OffsetFetchRequest(f"group-{number}", None)
        frame = offset_fetch.API.request_frame(7, number, "client", request)
        assert api.parse_request(7, frame, 4) == offset_fetch.API.parse_request(7, frame, 4)
        assert len(api._known) <= 1024


@pytest.mark.parametrize("frame", [b"", bytes(4), bytes(11)])
def test_repeated_requests_that_are_cut_off(frame: bytes) -> None:
    assert outcome(Repeated(heartbeat.API), 4, frame, 4) == outcome(heartbeat.API, 4, frame, 4)
