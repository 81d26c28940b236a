"""Records that are read in columns are the same as record by record, and where they are not plain nothing is said."""

from __future__ import annotations

import struct
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from protocol.commit_rows import CommitRows
from protocol.offsets_log import commit_runs
from protocol.records.batches import (
    BatchError,
    Record,
    decode_records,
    encode_framed,
    encode_records,
    read_header,
    records_of,
    rewrite_batch,
    rewrite_framed,
)
from protocol.records.column_reading import record_columns
from protocol.records.record_columns import RecordColumns
from protocol.records.record_runs import frame_runs
from tests.examples import examples
from tests.protocol.batches_in_rows import NOW, batch_in_rows

MAX_SIZE = 1 << 24


def commits(sizes: list[int], group: str = "group") -> bytes:
    """A batch as the log has it of commits of so many partitions."""
    parts: list[bytes | bytearray] = []
    count = 0
    for place, size in enumerate(sizes):
        raw = b"".join(struct.pack(">iqi", partition, 7 * partition, 6) for partition in range(size))
        count = frame_runs(
            commit_runs(f"{group}-{10**place}", "orders", CommitRows(raw, 16, size, ""), NOW), parts, count
        )
    return encode_framed(1 << 33, count, parts, NOW)


def assert_same(columns: RecordColumns, records: list[Record]) -> None:
    assert columns.keys == [record.key for record in records]
    assert columns.offsets == [record.offset for record in records]
    assert columns.has_tombstones == any(record.value is None for record in records)
    assert {columns.timestamp} == {record.timestamp for record in records}


@given(seed=st.integers(0, 1 << 32), place=st.integers(0, 3))
@settings(max_examples=examples(100), deadline=None)
def test_columns_are_those_of_the_records(seed: int, place: int) -> None:
    header, raw = batch_in_rows(seed)
    columns = record_columns(bytes(place) + raw + b"behind", place, header)
    if columns is None:
        return
    records = records_of(raw, 0, header)
    assert_same(columns, records)
    assert list(columns) == records
    assert columns[-1] == records[-1]
    kept = [Random(seed).random() < 0.5 for _ in records]
    copied = rewrite_framed(header, sum(kept), columns.framed(kept))
    assert copied == rewrite_batch(header, [record for record, stays in zip(records, kept, strict=True) if stays])


@pytest.mark.parametrize(
    "sizes",
    [
        [4],
        [8],
        [63],
        [64],
        [65],
        [66],
        [100],
        [8191],
        [8192],
        [8, 8, 8],
        [100, 1, 100],
        [10, 20, 3],
        [9, 1],
        [1, 79],
        [40, 1],
    ],
)
def test_commits_are_read_in_columns(sizes: list[int]) -> None:
    raw = commits(sizes)
    header = read_header(raw)
    columns = record_columns(raw, 0, header)
    assert columns is not None
    assert_same(columns, decode_records(raw))


@pytest.mark.parametrize("size", [30, 100, 300, 8000])
def test_what_compaction_has_thinned_out_is_read_in_columns(size: int) -> None:
    raw = commits([size])
    thinned = rewrite_batch(read_header(raw), decode_records(raw)[1::3])
    columns = record_columns(thinned, 0, read_header(thinned))
    assert columns is not None
    assert_same(columns, decode_records(thinned))


@pytest.mark.parametrize(("value", "is_one"), [(None, True), (b"v", False)])
def test_tombstones_are_known(value: bytes | None, is_one: bool) -> None:
    records = [Record(b"key%d" % place, value if place > 50 else b"v", (), NOW, place) for place in range(10, 60)]
    columns = record_columns(raw := encode_records(records), 0, read_header(raw))
    assert columns is not None
    assert columns.has_tombstones == is_one
    assert_same(columns, records)


@pytest.mark.parametrize("sizes", [[1] * 60, [2] * 30, [1], [3]])
def test_where_nothing_is_gained_nothing_is_said(sizes: list[int]) -> None:
    raw = commits(sizes, "g" * 5)
    assert record_columns(raw, 0, read_header(raw)) is None


@given(seed=st.integers(0, 1 << 32))
@example(seed=1480736)  # an offset before the batch's first one
@settings(max_examples=examples(100), deadline=None)
def test_damaged_records_are_none_or_those_that_are_read(seed: int) -> None:
    rng = Random(seed)
    raw = bytearray(commits(rng.choice([[8], [70], [5, 5, 5], [20, 1, 20]])))
    for _ in range(rng.choice([1, 1, 2])):
        raw[rng.randrange(61, len(raw))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
    damaged = bytes(raw)
    header = read_header(damaged)
    columns = record_columns(damaged, 0, header)
    if columns is None:
        return
    try:
        records = records_of(damaged, 0, header)
    except BatchError as error:
        raise AssertionError("it has columns and no records") from error
    assert_same(columns, records)
    offsets = [header.base_offset - 1, *columns.offsets, header.next_offset]
    assert offsets == sorted(set(offsets))
    assert rewrite_framed(header, len(columns), columns.framed([True] * len(columns))) == rewrite_batch(header, records)


@pytest.mark.parametrize("at", [61, 62, 63, 64, 65, -1])
def test_a_byte_that_all_records_have_is_looked_at_in_each(at: int) -> None:
    """Length, attributes, timestamp delta, offset delta, the key's length, the number of headers; of any record."""
    raw = commits([30])
    size = (len(raw) - 61) // 30
    for place in range(30):
        damaged = bytearray(raw)
        damaged[(at if at > 0 else 61 + size - 1) + place * size] ^= 0x02
        assert record_columns(bytes(damaged), 0, read_header(bytes(damaged))) is None


def test_numbers_of_more_bytes_than_they_take_are_not_plain() -> None:
    """They are read, and would be written with fewer."""
    record = b"\x00\x00%b\x02k\x02v\x00"
    for deltas in ([b"\x00", b"\x02", b"\x04", b"\x06", b"\x08"], [b"\x80\x00", b"\x82\x00", b"\x84\x00", b"\x86\x00"]):
        parts: list[bytes | bytearray] = [bytes((2 * len(record % delta),)) + record % delta for delta in deltas]
        raw = encode_framed(5, len(deltas), parts, NOW)
        header = read_header(raw)
        assert [found.offset for found in records_of(raw, 0, header)] == list(range(5, 5 + len(deltas)))
        assert (record_columns(raw, 0, header) is None) == (len(deltas[0]) == 2)
    long = [b"\x90\x00" + record % bytes((2 * place,)) for place in range(6)]
    raw = encode_framed(5, 6, [*long], NOW)
    assert len(records_of(raw, 0, read_header(raw))) == 6
    assert record_columns(raw, 0, read_header(raw)) is None
