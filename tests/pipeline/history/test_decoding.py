"""Columns out of segments say what the general decoder says, of every format that brokers and the shim have written."""

from __future__ import annotations

import struct
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.history.errors import DamagedSegment
from pipeline.history.reading import Question, read_segment
from pipeline.history.schemas import COLUMNS, HISTORY, OFFSETS
from pipeline.history.segments import Wanted, segments_in
from protocol.commit_rows import CommitRows
from protocol.errors import DecodeError
from protocol.offsets_log import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_value,
)
from protocol.own.history_log import (
    DELETED,
    HISTORY_TOPIC,
    NO_OFFSET,
    OffsetHistoryKey,
    OffsetHistoryValue,
    Who,
    encode_history,
)
from protocol.own.history_runs import history_run
from protocol.partition import partition_for
from protocol.records.batches import Compression, Record, batches, decode_records, encode_framed, encode_records
from protocol.records.message_sets import encode_message_set
from protocol.records.record_runs import frame_runs
from tests.examples import examples
from tests.pipeline.history.logs import TIME, Pair, batch, commit, make_ours, plain_history, plain_offset, read, segment

INT64 = st.integers(-(2**63), 2**63 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
NAMES = st.one_of(
    st.sampled_from(["g", "billing", "ö", "a" * 300, ""]),
    st.text(st.characters(codec="utf-8"), max_size=150),
)
METADATA = st.one_of(st.just(""), NAMES, st.just("\udcff"))  # a byte that is no UTF-8


@st.composite
def values(draw: st.DrawFn) -> bytes:
    value = OffsetCommitValue(
        draw(INT64), draw(INT32), draw(METADATA), draw(INT64), draw(st.one_of(st.just(-1), INT64)),
        draw(st.sampled_from([bytes(16), b"x" * 16])),
    )  # fmt: skip
    return encode_value(value, draw(st.integers(0, 4)))


@st.composite
def offset_pairs(draw: st.DrawFn) -> Pair:
    kind = draw(st.sampled_from(["offset"] * 6 + ["tombstone", "group", "other"]))
    if kind == "group":
        metadata = GroupMetadataValue("consumer", 1, "range", "m", 5)
        return encode_key(GroupMetadataKey(draw(NAMES))), draw(st.sampled_from([encode_value(metadata), None]))
    if kind == "other":
        return b"\x00\x03whatever", b"\x00\x01"
    key = encode_key(OffsetCommitKey(draw(NAMES), draw(NAMES), draw(INT32)))
    if draw(st.booleans()):
        key = b"\x00\x00" + key[2:]
    return key, None if kind == "tombstone" else draw(values())


@st.composite
def offset_segments(draw: st.DrawFn) -> tuple[bytes, list[Record]]:
    """A segment, and the records that were put there; gaps as compaction leaves them."""
    parts, all_records, due = [], [], 0
    times = st.integers(0, 2**40)
    for _ in range(draw(st.integers(1, 5))):
        pairs = draw(st.lists(offset_pairs(), min_size=1, max_size=8))
        due += draw(st.integers(0, 3))
        records = []
        for key, value in pairs:
            records.append(Record(key, value, (), draw(times), due))
            due += draw(st.integers(1, 200))
        codec = draw(st.sampled_from(list(Compression)))
        form = draw(st.sampled_from([2, 2, 2, 1, 0]))
        if form == 2:
            if draw(st.booleans()):
                records = [record._replace(headers=(("h", b"v"),)) for record in records]
            parts.append(encode_records(records, compression=codec))
        else:
            codec = Compression.NONE if codec == Compression.ZSTD else codec
            if form == 0:
                records = [record._replace(timestamp=-1) for record in records]
            parts.append(encode_message_set(records, form, compression=codec))
        all_records += records
    return b"".join(parts), all_records


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(offset_segments(), st.lists(st.sampled_from(list(COLUMNS[OFFSETS])), min_size=1, unique=True))
def test_offsets_are_what_the_general_decoder_says(written: tuple[bytes, list[Record]], names: list[str]) -> None:
    raw, records = written
    expected = [row for record in records if (row := plain_offset(record)) is not None]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        segment(path, 0, raw)
        assert read(path) == [{name: row[name] for name in COLUMNS[OFFSETS]} for row in expected]
        assert read(path, names=names) == [{name: row[name] for name in names} for row in expected]
        groups = tuple({row["group"] for row in expected[::2]})
        of_groups = [row for row in expected if row["group"] in groups]
        found = read(path, names=("group", "offset", "metadata"), wanted=Wanted(groups=groups))
        assert found == [{name: row[name] for name in ("group", "offset", "metadata")} for row in of_groups]


WHO = st.builds(
    Who,
    INT32,
    NAMES,
    st.one_of(st.none(), NAMES),
    NAMES,
    NAMES,
    st.one_of(st.just(""), NAMES),
)


@st.composite
def history_segments(draw: st.DrawFn) -> bytes:
    parts, due = [], 0
    for _ in range(draw(st.integers(1, 4))):
        if draw(st.booleans()):
            pairs = []
            for _ in range(draw(st.integers(1, 4))):
                key = OffsetHistoryKey(draw(NAMES), draw(NAMES), draw(INT32), draw(INT64))
                value = OffsetHistoryValue(draw(INT64), draw(INT32), draw(METADATA), draw(INT64), *draw(WHO))
                pairs.append(encode_history((key, value)))
            parts.append(batch(due, *pairs))
            due += len(pairs)
            continue
        framed: list[bytes | bytearray] = []
        count = draw(st.integers(1, 3))
        frame_runs([draw(runs()) for _ in range(count)], framed, 0)
        parts.append(encode_framed(due, count, framed, TIME))
        due += count
    return b"".join(parts)


@st.composite
def runs(draw: st.DrawFn) -> bytes:
    rows = draw(st.lists(st.tuples(INT32, INT64, INT32), min_size=1, max_size=40))
    if draw(st.booleans()):  # as commits are: little of a row is other than in the row before
        (first, offset, epoch), lags = rows[0], draw(st.lists(st.integers(0, 2000), min_size=15, max_size=40))
        rows = [(first ^ at, offset ^ lag, epoch) for at, lag in enumerate(lags)]
    behind = draw(st.sampled_from([b"", b"\x01\x00", b"\x00\x00"]))
    raw = b"".join(
        at.to_bytes(4, "big", signed=True)
        + offset.to_bytes(8, "big", signed=True)
        + epoch.to_bytes(4, "big", signed=True)
        + behind
        for at, offset, epoch in rows
    )
    of_rows = CommitRows(raw, 16 + len(behind), len(rows), "")
    return history_run(draw(NAMES), draw(NAMES), of_rows, draw(INT64), draw(WHO))


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(history_segments(), st.lists(st.sampled_from(list(COLUMNS[HISTORY])), min_size=1, unique=True))
def test_the_history_is_what_the_general_decoder_says(raw: bytes, names: list[str]) -> None:
    records = [record for position, _ in batches(raw) for record in decode_records(raw, position)]
    expected = plain_history(records)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        segment(path, 0, raw, topic=HISTORY_TOPIC)
        assert read(path, what=HISTORY) == expected
        assert read(path, what=HISTORY, names=names) == [{name: row[name] for name in names} for row in expected]
        groups = tuple({row["group"] for row in expected[::2]})
        found = read(path, what=HISTORY, names=("offset", "log_row"), wanted=Wanted(groups=groups))
        assert found == [
            {"offset": row["offset"], "log_row": row["log_row"]} for row in expected if row["group"] in groups
        ]


@settings(max_examples=examples(75), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(runs(), st.booleans(), st.floats(0, 1, exclude_max=True), st.binary(max_size=2), st.integers(0, 2))
def test_a_changed_record_of_many_is_judged_as_the_general_decoder_judges_it(
    run: bytes, in_key: bool, where: float, put: bytes, taken: int
) -> None:
    framed: list[bytes | bytearray] = []
    frame_runs([run], framed, 0)
    (record,) = decode_records(encode_framed(0, 1, framed, TIME))
    assert record.key is not None
    assert record.value is not None
    pair = [record.key, record.value]
    changed = pair[0 if in_key else 1]
    at = int(where * len(changed))
    pair[0 if in_key else 1] = changed[:at] + put + changed[at + taken :]
    raw = batch(0, (pair[0], pair[1]))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        segment(path, 0, raw, topic=HISTORY_TOPIC)
        try:
            expected = plain_history(decode_records(raw))
        except DecodeError:
            with pytest.raises(DamagedSegment):
                read(path, what=HISTORY)
        else:
            assert read(path, what=HISTORY) == expected


def test_rows_of_the_history_come_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One ends amid a record of many."""
    monkeypatch.setattr("pipeline.history.history_rows._MOST_AT_ONCE", 17)
    who = Who(1, "m", None, "c", "/h")
    framed: list[bytes | bytearray] = []
    rows = [b"".join(struct.pack(">iqi", at, at * count, -1) for at in range(count)) for count in (40, 3, 25)]
    frame_runs([history_run("g", "t", CommitRows(raw, 16, len(raw) // 16, ""), TIME, who) for raw in rows], framed, 0)
    raw = encode_framed(0, len(rows), framed, TIME)
    segment(tmp_path, 0, raw, topic=HISTORY_TOPIC)
    assert read(tmp_path, what=HISTORY) == plain_history(decode_records(raw))
    (each,) = segments_in([str(tmp_path)], HISTORY_TOPIC, Wanted())
    pieces = read_segment(each, Question(HISTORY, ("offset",)))
    assert [piece.num_rows for piece in pieces] == [17, 17, 17, 17]


def test_more_than_a_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.history.scanning.WINDOW", 4096)
    records = [commit("g", "t", at, at, metadata="m" * (at % 300)) for at in range(2000)]
    large = batch(2000, *(commit("large", "t", at, at, metadata="y" * 500) for at in range(20)))
    assert len(large) > 4096
    raw = [batch(at, *records[at : at + 7]) for at in range(0, 2000, 7)]
    segment(tmp_path, 0, *raw, large)
    assert [row["offset"] for row in read(tmp_path, names=["offset"])] == [*range(2000), *range(20)]


def test_only_the_partitions_of_a_group_are_opened(tmp_path: Path) -> None:
    """That of another group is damaged, which nobody sees then."""
    make_ours(tmp_path, 4)
    home = partition_for("mine", 4)
    segment(tmp_path, 0, batch(0, commit("mine", "t", 0, 5)), partition=home)
    segment(tmp_path, 0, b"\xff" * 100, batch(0, commit("other", "t", 0, 5)), partition=(home + 1) % 4)
    assert [row["offset"] for row in read(tmp_path, wanted=Wanted(groups=("mine",)))] == [5]
    assert [row["offset"] for row in read(tmp_path, wanted=Wanted(partitions=frozenset([home])))] == [5]


def test_records_of_a_later_version_of_the_history_are_left_out(tmp_path: Path) -> None:
    who: dict[str, Any] = {"generation_id": 1, "member_id": "m", "group_instance_id": None, "client_id": "c"}
    value = OffsetHistoryValue(7, -1, "", TIME, **who, client_host="/h")
    known = encode_history((OffsetHistoryKey("g", "t", 0, TIME), value))
    later: Pair = (b"\x00\x07later", b"\x00\x00")
    segment(tmp_path, 0, batch(0, later, known), topic=HISTORY_TOPIC)
    assert [(row["offset"], row["log_offset"]) for row in read(tmp_path, what=HISTORY)] == [(7, 1)]


def test_what_was_deleted_is_no_commit(tmp_path: Path) -> None:
    key = OffsetHistoryKey("g", "t", 0, TIME)
    who: dict[str, Any] = {"generation_id": -1, "member_id": "", "group_instance_id": None, "client_id": "c"}
    committed = OffsetHistoryValue(7, -1, "", TIME, **who, client_host="/h")
    deleted = committed._replace(offset=NO_OFFSET, cause="the group was deleted", replaced=7, deleted=DELETED)
    pairs = (encode_history((key, each)) for each in (committed, deleted, committed._replace(offset=3)))
    segment(tmp_path, 0, batch(0, *pairs), topic=HISTORY_TOPIC)
    rows = read(tmp_path, what=HISTORY, names=["offset", "log_offset"])
    assert [(row["offset"], row["log_offset"]) for row in rows] == [(7, 0), (3, 2)]
