"""Keys and values of `__offset_shim_history`, byte by byte."""

import struct
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.commit_rows import API, CommitRows
from protocol.errors import DecodeError
from protocol.generated import varint
from protocol.messages import offset_commit
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.own import history_runs
from protocol.own.history_log import (
    DELETED,
    NO_OFFSET,
    OffsetHistoryKey,
    OffsetHistoryValue,
    Who,
    decode_history,
    encode_history,
    is_known,
)
from protocol.own.history_runs import Commit, history_of, history_run
from protocol.own.record_sets import Runs
from protocol.records.batches import decode_records
from shim.log.segments.batching import prepare_batches

START = 1_767_225_600_123
KEY = OffsetHistoryKey("group", "topic", 3, START)
VALUE = OffsetHistoryValue(5, 6, "é\udcff", START, 4, "member", None, "client", "/127.0.0.1")


def test_the_bytes_of_version_0() -> None:
    key, value = encode_history((KEY, VALUE))
    assert key == b"\0\0" + b"\x06group" + b"\x06topic" + b"\0\0\0\x03" + START.to_bytes(8, "big") + b"\0"
    assert value == b"".join(
        (
            b"\0\0" + (5).to_bytes(8, "big") + (6).to_bytes(4, "big"),
            b"\x04\xc3\xa9\xff" + START.to_bytes(8, "big") + (4).to_bytes(4, "big"),
            b"\x07member" + b"\0" + b"\x07client" + b"\x0b/127.0.0.1" + b"\0",
        )
    )


def test_who_the_cluster_has_accepted_is_a_field_that_older_history_does_not_have() -> None:
    of_nobody = encode_history((KEY, VALUE))
    key, value = encode_history((KEY, VALUE._replace(principal="User:zoë")))
    assert (key, value) == (of_nobody[0], of_nobody[1][:-1] + b"\x01\x00\x0a\x0aUser:zo\xc3\xab")
    assert decode_history(key, value) == [(KEY, VALUE._replace(principal="User:zoë"))]
    assert decode_history(*of_nobody) == [(KEY, VALUE)]


def test_an_offset_that_was_deleted() -> None:
    gone = VALUE._replace(offset=NO_OFFSET, metadata="", cause="why", replaced=7, deleted=DELETED)
    key, value = encode_history((KEY, gone))
    fields = (b"\x01\x04\x04why", b"\x02\x08" + (7).to_bytes(8, "big"), b"\x03\x01\x01")
    assert value.endswith(b"\x0b/127.0.0.1" + b"\x03" + b"".join(fields))
    assert decode_history(key, value) == [(KEY, gone)]
    without = VALUE._replace(metadata="", deleted=DELETED)
    assert decode_history(*encode_history((KEY, without))) == [(KEY, without)], "nothing else that is out of the plain"


texts = st.text(max_size=5)
int64s = st.integers(-(2**63), 2**63 - 1)
int32s = st.integers(-(2**31), 2**31 - 1)


@given(
    st.builds(OffsetHistoryKey, texts, texts, int32s, int64s, st.just(())),
    st.builds(
        OffsetHistoryValue,
        *(int64s, int32s, texts, int64s, int32s, texts, st.none() | texts, texts, texts, texts),
        *(texts, int64s, st.integers(-128, 127), st.just(())),
    ),
)
def test_what_is_encoded_is_decoded(key: OffsetHistoryKey, value: OffsetHistoryValue) -> None:
    assert decode_history(*encode_history((key, value))) == [(key, value)]


ROW = st.tuples(int32s, int64s, int32s)


def changed(row: tuple[int, int, int], by: int) -> tuple[int, int, int]:
    """The two lower bytes of its offset and of its partition, and nothing else."""
    partition, offset, leader_epoch = row
    return partition ^ (by & 0xFFFF), offset ^ (by >> 16 & 0xFFFF), leader_epoch


def rows_record(rows: Sequence[tuple[int, int, int]], who: Who, *, stride: int = 18) -> tuple[bytes, bytes]:
    """Key and value of the record that these rows have."""
    rest = b"\x01\x00" if stride == 18 else b""
    raw = b"".join(struct.pack(">iqi", *row) + rest for row in rows)
    return record_of(history_run("group", "topic", CommitRows(raw, stride, len(rows), ""), START, who))


def record_of(run: bytes) -> tuple[bytes, bytes]:
    (batch,) = prepare_batches(0, [Runs([run], 1)], START)
    (record,) = decode_records(batch.data)
    assert record.key is not None
    assert record.value is not None
    return record.key, record.value


def test_the_bytes_of_many_offsets() -> None:
    key, value = rows_record([(0, 5, -1), (3, 7, 2)], Who(4, "member", None, "client", "/127.0.0.1", "User:a"))
    assert key == b"\0\1" + b"\x06group" + b"\x06topic" + START.to_bytes(8, "big") + b"\0"
    assert value == b"".join(
        (
            b"\0\0" + (4).to_bytes(4, "big") + b"\x07member" + b"\0" + b"\x07client" + b"\x0b/127.0.0.1",
            b"\x03" + struct.pack(">iqi", 0, 5, -1) + b"\x01\0" + struct.pack(">iqi", 3, 7, 2) + b"\x01\0",
            b"\x01\x00\x07\x07User:a",
        )
    )


OFTEN = sum(1 << place for place in (3, 9, 10, 11))
"""What varies in most commits: the lowest byte of the partition, and the three lower ones of the offset."""
RISING, SAME = bytes(range(30)), bytes(30)


@pytest.mark.parametrize(
    ("row", "varying", "columns"),
    [
        (lambda at: (at, 0x0100 * at, -1), OFTEN, (RISING, SAME, RISING, SAME)),
        (lambda at: (at, at << 32, -1), 1 << 3 | 1 << 7, (RISING, RISING)),
        (lambda at: (0x0100 * at, 0, -1), 1 << 2 | 1 << 3, (RISING, SAME)),
        (lambda at: (at, 0, at), 1 << 3 | 1 << 15, (RISING, RISING)),
    ],
    ids=["as in most commits", "large offsets", "many partitions", "leader epochs"],
)
def test_the_bytes_of_many_offsets_more(row: Any, varying: int, columns: tuple[bytes, ...]) -> None:
    who = Who(4, "member", None, "client", "/127.0.0.1", "User:a")
    key, value = rows_record([row(at) for at in range(30)], who)
    assert key == b"\0\2" + b"\x06group" + b"\x06topic" + START.to_bytes(8, "big") + b"\0"
    assert value == b"".join(
        (
            b"\0\0" + (4).to_bytes(4, "big") + b"\x07member" + b"\0" + b"\x07client" + b"\x0b/127.0.0.1",
            varying.to_bytes(2, "big") + varint(17 + 30 * len(columns)),
            struct.pack(">iqi", *row(0)) + b"".join(columns),
            b"\x01\x00\x07\x07User:a",
        )
    )


def test_many_times_the_same_offset() -> None:
    record = rows_record([(7, 5, 1)] * 20, Who(-1, "", None, "", ""))
    assert (
        decode_history(*record)
        == [(KEY._replace(partition=7), OffsetHistoryValue(5, 1, "", START, -1, "", None, "", ""))] * 20
    )


def test_nothing_is_kept_of_a_commit_of_very_many_offsets() -> None:
    """One of half a million, again and again of other offsets, would be kept some hundred times."""
    kept = history_runs._repeated.cache_info().misses
    rows = [(7, 1 << 40 | at, 1) for at in range(4097)]
    assert [value.offset for _, value in decode_history(*rows_record(rows, Who(-1, "", None, "", ""))) or ()] == [
        offset for _, offset, _ in rows
    ]
    assert history_runs._repeated.cache_info().misses == kept


def of_columns(varying: int, columns: bytes) -> tuple[bytes, bytes]:
    """Key and value."""
    value = b"\0\0" + bytes(4) + b"\x01\0\x01\x01" + varying.to_bytes(2, "big") + varint(len(columns) + 1) + columns
    return b"\0\2" + b"\x06group" + b"\x06topic" + bytes(9), value + b"\0"


@pytest.mark.parametrize(
    ("varying", "columns"),
    [
        (0, bytes(16)),
        (1 << 2, bytes(17)),
        (1 << 3, bytes(15)),
        (1 << 3 | 1 << 11, bytes(19)),
        (0xFFFF, bytes(31)),
    ],
)
def test_columns_of_another_length_are_damage(varying: int, columns: bytes) -> None:
    with pytest.raises(DecodeError, match="vary"):
        decode_history(*of_columns(varying, columns))


def test_columns_of_a_single_row_and_of_none() -> None:
    assert len(decode_history(*of_columns(0xFFFF, bytes(32))) or ()) == 1
    assert decode_history(*of_columns(1 << 3, bytes(16))) == []


@given(
    st.lists(ROW, min_size=1, max_size=200)
    | st.builds(lambda row, places: [changed(row, place) for place in places], ROW, st.lists(int32s, min_size=20)),
    st.builds(Who, int32s, texts, st.none() | texts, texts, texts, texts),
    st.sampled_from([16, 18]),
)
def test_many_offsets_are_decoded_as_if_each_had_a_record(
    rows: list[tuple[int, int, int]], who: Who, stride: int
) -> None:
    assert decode_history(*rows_record(rows, who, stride=stride)) == [
        (
            OffsetHistoryKey("group", "topic", partition, START),
            OffsetHistoryValue(offset, leader_epoch, "", START, *who),
        )
        for partition, offset, leader_epoch in rows
    ]


@pytest.mark.parametrize("metadata", ["", None])
@pytest.mark.parametrize("version", range(2, 10))
@pytest.mark.parametrize("count", [1, 2, 300])
def test_plain_commits_of_every_version_are_remembered(version: int, metadata: str | None, count: int) -> None:
    partitions = tuple(
        OffsetCommitRequestPartition(number, 7 * number, 2 if version >= 6 else -1, committed_metadata=metadata)
        for number in range(count)
    )
    request = OffsetCommitRequest("group", topics=(OffsetCommitRequestTopic("topic", partitions=partitions),))
    frame = offset_commit.API.request_frame(version, 1, "client", request)
    rows: Any = API.parse_request(version, frame, 4)[1].topics[0].partitions
    assert isinstance(rows, CommitRows)
    who = Who(-1, "", None, "client", "/h")
    assert decode_history(*record_of(history_run("group", "topic", rows, START, who))) == [
        (
            OffsetHistoryKey("group", "topic", partition.partition_index, START),
            OffsetHistoryValue(partition.committed_offset, partition.committed_leader_epoch, "", START, *who),
        )
        for partition in partitions
    ]


@pytest.mark.parametrize("version", [8, 9])
def test_a_commit_that_is_repeated_is_remembered_as_any_other(version: int) -> None:
    """What is the same in each is kept, and not taken for another one's."""
    commits: list[bytes | Commit] = [b"as it is"]
    expected: list[bytes] = [b"as it is"]
    repeated = []
    for client, principal, offset, partition in [
        *(("a", "User:x", offset, 3) for offset in (5, 6)),
        *((client, principal, 7, 3) for client in "ab" for principal in ("User:x", "User:y", "User:x")),
        *(("a", "User:x", offset, 4) for offset in (8, 9)),
    ]:
        of_topic = OffsetCommitRequestTopic(
            "topic", partitions=(OffsetCommitRequestPartition(partition, offset, committed_metadata=""),)
        )
        group = f"of version {version}"  # what is kept is kept for all
        asked = OffsetCommitRequest(group, 2, "member", None, topics=(of_topic,))
        request = API.parse_request(version, offset_commit.API.request_frame(version, 1, client, asked), 4)[1]
        rows: Any = request.topics[0].partitions
        caller = client, "/127.0.0.1", principal
        repeated.append(rows.known is not None)
        commits.append((request, "topic", rows, START + offset, caller))
        expected.append(history_run(group, "topic", rows, START + offset, Who(2, "member", None, *caller)))
    assert repeated == [False, True, True, True, True, False, True, True, False, True]
    assert history_of(commits) == expected
    assert [value.offset for run in expected[1:] for _, value in decode_history(*record_of(run)) or ()] == [
        *(5, 6, 7, 7, 7, 7, 7, 7, 8, 9)
    ]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        encode_history((KEY, VALUE)),
        rows_record([(0, 5, -1), (3, 7, 2)], Who(4, "m", None, "c", "/h", "User:a")),
        rows_record([(at, 7 * at, 2) for at in range(20)], Who(4, "m", None, "c", "/h", "User:a")),
    ],
)
def test_what_is_no_history_is_refused_and_what_is_newer_left_alone(key: bytes, value: bytes) -> None:
    assert decode_history(b"\0\3" + key[2:], value) is None
    assert decode_history(key, b"\0\1" + value[2:]) is None
    assert decode_history(key, None) is None
    assert is_known(key, value)
    assert not any((is_known(b"\0\3" + key[2:], value), is_known(key, b"\0\1" + value[2:]), is_known(key, None)))
    for size in range(len(key)):
        with pytest.raises(DecodeError):
            decode_history(key[:size], value)
    for size in range(len(value)):
        with pytest.raises(DecodeError):
            decode_history(key, value[:size])
    for longer in ((key + b"\0", value), (key, value + b"\0")):
        with pytest.raises(DecodeError, match="too many"):
            decode_history(*longer)
