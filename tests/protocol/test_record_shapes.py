"""Records that are read a shape at a time become the same messages as number by number, or the same error."""

from __future__ import annotations

import struct
from collections.abc import Callable
from random import Random
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.records import record_messages
from protocol.records.batch_errors import BatchError
from protocol.records.batch_messages import BatchMessages, batch_messages
from protocol.records.batch_reading import varint
from protocol.records.batches import Compression, Record, encode_records, read_header
from protocol.records.message_sets import decode_message_set, encode_message_set
from protocol.records.record_shapes import NUMBERS, SIZES, own_times, shape_at
from tests.examples import examples

NOW = 1_767_225_600_123
MAGICS = [0, 1]
KEYS = [None, b"", b"k" * 8, b"k" * 63, b"k" * 64, b"k" * 200, b"k" * 9000]
VALUES = [None, b"", b"v" * 30, b"v" * 63, b"v" * 64, b"v" * 1000, b"v" * 8100, b"v" * 9000]
HEADERS = ((), (), (("h", b"1"), ("i", None)), (("h", b"x" * 70),))
TIMES_BETWEEN = [0, 1, -1, 63, 70, 9000, -(10**6), 2**40]
OFFSETS_BETWEEN = [1, 1, 1, 2, 63, 70, 9000]
BASE_TIMESTAMP_AT, MAX_TIMESTAMP_AT, RECORD_COUNT_AT = 27, 35, 57


def rows(rng: Random) -> list[Record]:
    """A few rows of records that have much in common, or little."""
    records: list[Record] = []
    offset, time = rng.choice([0, 5, 2**40]), NOW
    for _ in range(rng.randint(1, 4)):
        key, value, headers = rng.choice(KEYS), rng.choice(VALUES), rng.choice(HEADERS)
        between, gap = rng.choice(TIMES_BETWEEN), rng.choice(OFFSETS_BETWEEN)
        mixed = rng.random() < 0.3
        for _ in range(rng.choice([1, 2, 5, 30])):
            if mixed:
                key, value, headers = rng.choice(KEYS[:5]), rng.choice(VALUES[:6]), rng.choice(HEADERS)
            if value and rng.random() < 0.5:
                value = value[: rng.randint(len(value) // 2, len(value))]
            records.append(Record(key, value, headers, time, offset))
            offset += gap
            time = max(-1, time + between)
    return records


def number_by_number(make: Callable[[], BatchMessages]) -> BatchMessages:
    with patch.object(record_messages, "shape_at", return_value=None):
        return make()


def outcome(make: Callable[[], BatchMessages]) -> BatchMessages | tuple[type, str]:
    try:
        return make()
    except BatchError as error:
        return type(error), str(error)


@settings(deadline=None, max_examples=examples(75))
@given(
    st.randoms(use_true_random=False),
    st.sampled_from(MAGICS),
    st.sampled_from(list(Compression)),
    st.booleans(),
    st.floats(0, 1),
)
def test_the_same_messages(rng: Random, magic: int, codec: Compression, append_time: bool, skipped: float) -> None:
    records = rows(rng)
    first = records[int(skipped * (len(records) - 1))].offset
    time = NOW + 7 if append_time else None
    batch = b"before" + encode_records(records, compression=codec, log_append_time=time) + b"behind"
    header = read_header(batch, 6)

    def make() -> BatchMessages:
        return batch_messages(batch, 6, header, magic, first)

    made = make()
    assert made == number_by_number(make)
    kept = [each for each in records if each.offset >= first]
    own = time if magic and not codec else None
    plain = [each._replace(headers=(), timestamp=each.timestamp if magic else -1) for each in kept]
    found = decode_message_set(b"".join(made.parts)).records
    assert found == [
        each._replace(offset=each.offset - made.base_offset, timestamp=each.timestamp if own is None else own)
        for each in plain
    ]
    if not codec:
        assert made.joined(made.size, codec) == encode_message_set(plain, magic, log_append_time=own)


@settings(deadline=None, max_examples=examples(75))
@given(st.randoms(use_true_random=False), st.sampled_from(MAGICS), st.booleans())
def test_the_same_error_or_messages_of_bad_bytes(rng: Random, magic: int, append_time: bool) -> None:
    records = rows(rng)
    batch = bytearray(encode_records(records, log_append_time=NOW if append_time else None))
    for _ in range(rng.randint(1, 3)):
        batch[rng.randrange(61, len(batch))] = rng.choice([0, 1, 2, 3, 127, 128, 255, rng.randrange(256)])
    if rng.random() < 0.3:
        count = rng.choice([0, 1, len(records) // 2, len(records) + 1, len(records) + 70])
        batch[RECORD_COUNT_AT : RECORD_COUNT_AT + 4] = struct.pack(">i", count)
    raw, header = bytes(batch), read_header(encode_records(records))
    header = header._replace(
        record_count=struct.unpack_from(">i", raw, RECORD_COUNT_AT)[0],
        attributes=struct.unpack_from(">h", raw, 21)[0],
    )
    first = rng.choice([-(2**63), records[len(records) // 2].offset])

    def make() -> BatchMessages:
        return batch_messages(raw, 0, header, magic, first)

    assert outcome(make) == outcome(lambda: number_by_number(make))


@pytest.mark.parametrize("magic", MAGICS)
@pytest.mark.parametrize("size", [20, 100])
@pytest.mark.parametrize("key", [None, b"key", b"k" * 70])
def test_the_same_of_a_row_with_any_byte_changed_before_a_value(key: bytes | None, size: int, magic: int) -> None:
    """In the middle of the batch and at its end, with something behind it that could be taken for a part of it."""
    batch = encode_records([Record(key, b"v" * size, (), NOW + i, i) for i in range(12)])
    header, behind = read_header(batch), bytes(300)
    record_size = (len(batch) - 61) // 12
    before_value = record_size - size - 1  # the number of headers
    value_length_at = before_value - (2 if size > 63 else 1)
    key_at = value_length_at - len(key or b"")
    places = [at for at in range(before_value) if not key_at <= at < value_length_at]
    outcomes = []
    for start in (61 + 6 * record_size, 61 + 11 * record_size):
        for at in [start + place for place in places]:
            for byte in {
                0,
                1,
                2,
                3,
                126,
                127,
                128,
                129,
                254,
                255,
                *((batch[at] + step) % 256 for step in range(-4, 5)),
            }:
                raw = batch[:at] + bytes((byte,)) + batch[at + 1 :] + behind

                def make(raw: bytes = raw) -> BatchMessages:
                    return batch_messages(raw, 0, header, magic, 0)

                outcomes.append(outcome(make))
                assert outcomes[-1] == outcome(lambda: number_by_number(make))
    assert 50 < sum(isinstance(made, BatchMessages) for made in outcomes) < len(outcomes) - 50


@pytest.mark.parametrize("magic", MAGICS)
@pytest.mark.parametrize("append_time", [True, False])
@pytest.mark.parametrize(
    "base", [edge + step for edge in (2**63 - 1, -(2**63)) for step in range(-9000, 9001, 500)] + [0, -1, 2**63 - 9]
)
def test_timestamps_at_the_ends_of_64_bits(base: int, append_time: bool, magic: int) -> None:
    if not -(2**63) <= base < 2**63:
        return
    records = [Record(b"k", b"v", (), NOW + 700 * i, i) for i in range(12)]
    batch = bytearray(encode_records(records, log_append_time=NOW if append_time else None))
    batch[BASE_TIMESTAMP_AT:MAX_TIMESTAMP_AT] = struct.pack(">q", base)
    raw = bytes(batch)
    header = read_header(raw)

    def make() -> BatchMessages:
        return batch_messages(raw, 0, header, magic, 0)

    made = outcome(make)
    assert made == outcome(lambda: number_by_number(make))
    is_beyond = base + 700 * 11 >= 2**63 and not (append_time and magic)
    assert isinstance(made, BatchMessages) != is_beyond


@pytest.mark.parametrize("magic", MAGICS)
def test_a_shape_is_looked_for_as_often_as_it_changes(magic: int) -> None:
    """And seldom where there is none."""
    alike = [Record(b"key%04d" % i, b"v" * (100 + i % 90), (), NOW + 2 * i, i) for i in range(1000)]
    unlike = [Record(b"k" * 9000, b"", (), NOW + i, i) for i in range(1000)]
    looks = []
    for records in (alike, unlike):
        batch = encode_records(records)
        header = read_header(batch)
        with patch.object(record_messages, "shape_at", side_effect=shape_at) as look:
            assert batch_messages(batch, 0, header, magic, 0).size == 1000
        looks.append(look.call_count)
    assert looks[0] == 3, "the first; from 32 on the time takes two bytes, from 64 on the offset"
    assert looks[1] <= 7 + 1000 // 64


def test_numbers_are_those_of_varints() -> None:
    for width, numbers in NUMBERS.items():
        assert len(numbers) == 128**width
        for code, number in numbers.items():
            zigzag, end = varint(code.to_bytes(width, "big"), 0)
            assert ((zigzag >> 1) ^ -(zigzag & 1), end) == (number, width)
        assert {code: number for code, number in numbers.items() if number >= 0} == SIZES[width]


@pytest.mark.parametrize("magic", MAGICS)
def test_a_number_of_one_byte_where_two_were_is_not_taken_for_one_with_the_next_byte(magic: int) -> None:
    """0 and the number of headers behind it, read as one number, would be that of a byte again."""
    values = [b"v" * 70] * 6 + [b""] + [b"v" * 70] * 6
    records = [Record(b"k", value, (("h", b"x" * 100),), NOW + 100 * i, 70 * i) for i, value in enumerate(values)]
    batch = encode_records(records)
    made = batch_messages(batch, 0, read_header(batch), magic, 0)
    plain = [each._replace(headers=(), timestamp=each.timestamp if magic else -1) for each in records]
    assert made.joined(made.size, Compression.NONE) == encode_message_set(plain, magic)


def test_what_is_cut_off_has_no_shape() -> None:
    record = encode_records([Record(b"k" * 70, b"v" * 70, (), NOW, 0)])[61:]
    code = own_times(NOW).code
    before_value = 2 + 1 + 1 + 1 + 2 + 70
    for length in range(before_value + 1):
        assert shape_at(record[:length], 0, code) is None
    shape = shape_at(record[: before_value + 1], 0, code)
    assert shape is not None
    assert (shape.size, shape.key_length, shape.around_value) == (before_value + 2, 70, 4 + 2 + 8 + 4 + 70 + 4)
