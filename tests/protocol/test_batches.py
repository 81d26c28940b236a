"""Record batches against the builders and readers of two clients, against themselves, and against hostile bytes."""

from __future__ import annotations

import random
import struct
import warnings
from typing import Any

import google_crc32c
import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol import batches
from protocol.batches import (
    HEADER_SIZE,
    BatchHeader,
    Compression,
    ControlRecordType,
    CorruptBatch,
    Record,
    TruncatedBatch,
    UnsupportedBatch,
    control_record_type,
    decode_records,
    encode_batch,
    encoded_size,
    read_header,
    rewrite_batch,
)

with warnings.catch_warnings():
    # kafka-python 3.0 reads its schemas by functions that Python 3.11 and 3.12 call deprecated.
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
    from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
    from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

NOW = 1_767_225_600_123
BUILDERS = [KafkaPythonBuilder, AiokafkaBuilder]
READERS = [KafkaPythonBatch, AiokafkaBatch]

contents = st.one_of(st.none(), st.binary(max_size=80), st.binary(min_size=60, max_size=70).map(lambda b: b * 150))
unhurried = settings(deadline=None, max_examples=60)  # how long an example takes depends on what else the machine does
pairs = st.lists(st.tuples(contents, contents), min_size=1, max_size=20)
timestamps = st.one_of(st.just(-1), st.integers(0, 2**62))
record_headers = st.lists(st.tuples(st.text(max_size=70), contents), max_size=3)


def built(builder_class: Any, records: list[Record], *, transactional: bool = False, producer_id: int = -1) -> bytes:
    """A batch at base offset 0 by a client's own builder."""
    builder = builder_class(
        magic=2,
        compression_type=0,
        is_transactional=transactional,
        producer_id=producer_id,
        producer_epoch=-1 if producer_id < 0 else 3,
        base_sequence=-1 if producer_id < 0 else 9,
        batch_size=1 << 30,
    )
    for record in records:
        appended = builder.append(record.offset, record.timestamp, record.key, record.value, list(record.headers))
        assert appended is not None
    return bytes(builder.build())


def with_crc(batch: bytes | bytearray) -> bytes:
    """The batch with the CRC that its bytes have."""
    crc: int = google_crc32c.value(bytes(batch[21:]))
    return bytes(batch[:17]) + crc.to_bytes(4, "big") + bytes(batch[21:])


def with_field(batch: bytes, position: int, code: str, value: int) -> bytes:
    changed = bytearray(batch)
    struct.pack_into(">" + code, changed, position, value)
    return with_crc(changed)


def with_body(body: bytes, count: int = 1) -> bytes:
    """A batch of one offset a record with these bytes as its records."""
    template = encode_batch(0, [(b"k", b"v")] * max(count, 1), NOW)[:HEADER_SIZE]
    sized = with_field(template + body, 8, "i", HEADER_SIZE - 12 + len(body))
    return with_field(sized, 57, "i", count)


# --- as others write and read them -----------------------------------------------------------------------------------


@pytest.mark.parametrize("builder", BUILDERS)
@unhurried
@given(records=pairs, timestamp=st.integers(0, 2**62))
def test_bytes_are_those_of_other_builders(
    builder: Any, records: list[tuple[bytes | None, bytes | None]], timestamp: int
) -> None:
    theirs = built(builder, [Record(k, v, (), timestamp, i) for i, (k, v) in enumerate(records)])
    # Clients leave the leader epoch, which no CRC covers, to the broker; each fills in a number of its own.
    epoch = read_header(theirs).partition_leader_epoch
    assert encode_batch(0, records, timestamp, leader_epoch=epoch) == theirs


@pytest.mark.parametrize("builder", BUILDERS)
@unhurried
@given(
    records=st.lists(st.tuples(contents, contents, record_headers, st.integers(0, 2**62)), min_size=1, max_size=10),
    transactional=st.booleans(),
)
def test_batches_of_other_builders_are_read_and_rewritten(
    builder: Any, records: list[tuple[Any, Any, Any, int]], transactional: bool
) -> None:
    expected = [Record(k, v, tuple(h), t, i) for i, (k, v, h, t) in enumerate(records)]
    theirs = built(builder, expected, transactional=transactional, producer_id=77 if transactional else -1)
    assert decode_records(theirs) == expected
    header = read_header(theirs)
    assert header.is_transactional == transactional
    assert header.producer_id == (77 if transactional else -1)
    assert header.max_timestamp == max(t for *_, t in records)
    assert rewrite_batch(header, expected) == theirs


@pytest.mark.parametrize("reader", READERS)
@unhurried
@given(base_offset=st.integers(0, 2**62), records=pairs, timestamp=timestamps)
def test_other_readers_read_them(
    reader: Any, base_offset: int, records: list[tuple[bytes | None, bytes | None]], timestamp: int
) -> None:
    batch = reader(encode_batch(base_offset, records, timestamp, leader_epoch=5))
    assert batch.validate_crc()
    assert batch.base_offset == base_offset
    assert batch.next_offset == base_offset + len(records)
    got = [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in batch]
    assert got == [(base_offset + i, timestamp, k, v, []) for i, (k, v) in enumerate(records)]


def test_fields_stand_where_kafka_has_them() -> None:
    batch = encode_batch(0x0102030405060708, [(b"k", b"vv"), (None, None)], NOW, leader_epoch=9)
    assert batch[:8] == bytes(range(1, 9))
    assert int.from_bytes(batch[8:12], "big") == len(batch) - 12
    assert batch[12:17] == b"\0\0\0\x09\x02"
    assert int.from_bytes(batch[17:21], "big") == google_crc32c.value(batch[21:])
    assert batch[21:23] == b"\0\0"
    assert batch[23:27] == b"\0\0\0\x01"
    assert batch[27:43] == NOW.to_bytes(8, "big") * 2
    assert batch[43:57] == b"\xff" * 14
    assert batch[57:61] == b"\0\0\0\x02"
    assert batch[61:] == b"\x12\0\0\0\x02k\x04vv\0" + b"\x0c\0\0\x02\x01\x01\0"


# --- round trips -----------------------------------------------------------------------------------------------------


@unhurried
@given(
    base_offset=st.integers(0, 2**63 - 100),
    records=pairs,
    timestamp=st.integers(-(2**63), 2**63 - 1),
    epoch=st.integers(-(2**31), 2**31 - 1),
    attributes=st.sampled_from([0, 0x10, 0x20, 0x30, 0x40]),
)
def test_round_trip(
    base_offset: int, records: list[tuple[bytes | None, bytes | None]], timestamp: int, epoch: int, attributes: int
) -> None:
    batch = encode_batch(base_offset, records, timestamp, leader_epoch=epoch, attributes=attributes)
    header = read_header(batch)
    assert header.size == len(batch) <= HEADER_SIZE + encoded_size(records)
    assert (header.base_offset, header.partition_leader_epoch, header.attributes) == (base_offset, epoch, attributes)
    assert header.next_offset == base_offset + len(records)
    decoded = decode_records(b"xyz" + batch + b"tail", 3)
    assert decoded == [Record(k, v, (), timestamp, base_offset + i) for i, (k, v) in enumerate(records)]
    assert rewrite_batch(header, decoded) == batch


def test_many_records_have_long_offset_deltas() -> None:
    records = [(b"k%d" % i, b"v") for i in range(20_000)]
    assert [r.offset for r in decode_records(encode_batch(7, records, NOW))] == list(range(7, 20_007))
    assert [(r.key, r.value) for r in decode_records(encode_batch(7, records, NOW))] == records


@unhurried
@given(records=st.lists(st.tuples(contents, contents), min_size=2, max_size=20), keep=st.sets(st.integers(0, 19)))
def test_rewriting_fewer_records_keeps_offsets(
    records: list[tuple[bytes | None, bytes | None]], keep: set[int]
) -> None:
    batch = encode_batch(100, records, NOW)
    kept = [r for r in decode_records(batch) if r.offset - 100 in keep]
    smaller = rewrite_batch(read_header(batch), kept)
    assert decode_records(smaller) == kept
    assert read_header(smaller).next_offset == 100 + len(records)
    assert read_header(smaller).record_count == len(kept)
    assert [(r.offset, r.key) for r in KafkaPythonBatch(smaller)] == [(r.offset, r.key) for r in kept]


def test_attributes_are_named() -> None:
    header = read_header(encode_batch(0, [(b"k", b"v")], NOW))
    assert header.compression == Compression.NONE
    assert (header.is_transactional, header.is_control, header.is_log_append_time) == (False, False, False)
    assert header.delete_horizon is None
    transactional = header._replace(attributes=0x10)
    assert transactional.is_transactional
    assert not transactional.is_control
    assert header._replace(attributes=0x40).delete_horizon == NOW


def test_log_append_time_is_that_of_the_batch() -> None:
    batch = encode_batch(0, [(b"k", b"v")] * 2, NOW, attributes=0x08)
    assert [r.timestamp for r in decode_records(with_field(batch, 35, "q", NOW + 5))] == [NOW + 5] * 2


def test_control_records() -> None:
    key = struct.pack(">hh", 0, ControlRecordType.COMMIT)
    batch = encode_batch(3, [(key, b"\0\0\0\0\0\0")], NOW, attributes=0x30, producer_id=4, producer_epoch=1)
    header = read_header(batch)
    assert header.is_control
    assert header.is_transactional
    (record,) = decode_records(batch)
    assert control_record_type(record) == ControlRecordType.COMMIT
    for bad in (None, b"", b"\0\0\0", b"\xff\xff\0\x01"):
        with pytest.raises(CorruptBatch):
            control_record_type(Record(bad, None))


def test_consecutive_batches() -> None:
    first = encode_batch(0, [(b"a", b"1")], NOW)
    second = encode_batch(1, [(b"b", None)] * 3, NOW)
    found = list(batches.batches(first + second))
    assert [(pos, header.base_offset) for pos, header in found] == [(0, 0), (len(first), 1)]
    partial = batches.batches(first + second[:-1])
    assert next(partial)[0] == 0
    with pytest.raises(TruncatedBatch) as truncated:
        next(partial)
    assert (truncated.value.position, truncated.value.size) == (len(first), len(second))
    assert list(batches.batches(b"")) == []


# --- what is refused -------------------------------------------------------------------------------------------------


def test_compressed_batches_are_told_from_damaged_ones() -> None:
    batch = encode_batch(0, [(b"k", b"v")], NOW)
    for codec in range(1, 8):
        with pytest.raises(UnsupportedBatch, match="compressed"):
            decode_records(with_field(batch, 21, "h", codec))
    damaged = bytearray(batch)
    damaged[22] = Compression.ZSTD
    with pytest.raises(CorruptBatch, match="CRC"):
        decode_records(bytes(damaged))


@pytest.mark.parametrize("base_offset", [-1, 2**63 - 1, 2**63])
def test_impossible_base_offsets_are_not_written(base_offset: int) -> None:
    with pytest.raises(ValueError, match="base offset"):
        encode_batch(base_offset, [(b"k", b"v")], NOW)


@pytest.mark.parametrize("arguments", [{"timestamp_ms": 2**63}, {"leader_epoch": 2**31}, {"producer_epoch": 2**15}])
def test_numbers_beyond_their_fields_are_not_written(arguments: dict[str, int]) -> None:
    timestamp = arguments.pop("timestamp_ms", NOW)
    with pytest.raises(ValueError, match="cannot be written"):
        encode_batch(0, [(b"k", b"v")], timestamp, **arguments)


def test_what_is_no_batch_is_not_written() -> None:
    with pytest.raises(ValueError, match="without records"):
        encode_batch(0, [], NOW)
    with pytest.raises(ValueError, match="compression"):
        encode_batch(0, [(b"k", b"v")], NOW, attributes=Compression.GZIP)
    header = read_header(encode_batch(5, [(b"k", b"v")] * 2, NOW))
    for offsets in ([4], [7], [6, 5], [5, 5]):
        with pytest.raises(ValueError, match="offset"):
            rewrite_batch(header, [Record(b"k", b"v", (), NOW, offset) for offset in offsets])


def test_truncation_at_every_byte() -> None:
    batch = encode_batch(0, [(b"key" * 30, b"value"), (b"k", None)], NOW)
    for cut in range(len(batch)):
        with pytest.raises(TruncatedBatch) as truncated:
            decode_records(batch[:cut])
        assert truncated.value.size == (len(batch) if cut >= HEADER_SIZE else HEADER_SIZE)


def test_a_flipped_bit_anywhere_under_the_crc() -> None:
    batch = encode_batch(0, [(b"key", b"value"), (b"k", None)], NOW)
    for bit in range(16 * 8, len(batch) * 8):
        damaged = bytearray(batch)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptBatch):
            decode_records(bytes(damaged))


HOSTILE_HEADERS = {
    "length of nothing": (8, "i", 0),
    "length below the header's": (8, "i", 48),
    "negative length": (8, "i", -1),
    "huge length": (8, "i", 2**31 - 1),
    "magic 0": (16, "b", 0),
    "magic 1": (16, "b", 1),
    "magic 3": (16, "b", 3),
    "negative base offset": (0, "q", -1),
    "offsets beyond 64 bits": (0, "q", 2**63 - 2),
    "negative last offset delta": (23, "i", -1),
    "last offset delta below the records'": (23, "i", 0),
    "no room for the records": (57, "i", 2**31 - 1),
    "negative record count": (57, "i", -1),
    "too few records counted": (57, "i", 1),
    "too many records counted": (57, "i", 3),
}


@pytest.mark.parametrize("field", HOSTILE_HEADERS.values(), ids=HOSTILE_HEADERS.keys())
def test_hostile_headers_under_a_right_crc(field: tuple[int, str, int]) -> None:
    batch = encode_batch(0, [(b"key", b"value"), (b"k", None)], NOW)
    with pytest.raises(CorruptBatch):
        decode_records(with_field(batch, *field))


HOSTILE_RECORDS = {
    "negative record length": b"\x01" + b"\0" * 7,
    "record longer than the batch": b"\x40" + b"\0" * 7,
    "record shorter than its fields": b"\x0c\0\0\0\x02k\x01\0",
    "record longer than its fields": b"\x10\0\0\0\x02k\x01\0\0",
    "negative offset delta": b"\x0e\0\0\x01\x02k\x01\0",
    "offset delta beyond the batch's": b"\x0e\0\0\x02\x02k\x01\0",
    "key longer than the record": b"\x0e\0\0\0\x7ek\x01\0",
    "huge key": b"\x14\0\0\0\xfe\xff\xff\xff\x0fk\0",
    "key length -2": b"\x0c\0\0\0\x03\x01\0",
    "value longer than the record": b"\x0e\0\0\0\x01\x7ev\0",
    "value length -2": b"\x0c\0\0\0\x01\x03\0",
    "negative header count": b"\x0c\0\0\0\x01\x01\x01",
    "huge header count": b"\x14\0\0\0\x01\x01\xfe\xff\xff\xff\x0f",
    "header key longer than the record": b"\x10\0\0\0\x01\x01\x02\x7e\x01",
    "null header key": b"\x10\0\0\0\x01\x01\x02\x01\x01",
    "header key not UTF-8": b"\x12\0\0\0\x01\x01\x02\x02\xff\x01",
    "header value longer than the record": b"\x10\0\0\0\x01\x01\x02\0\x7e",
    "header value length -2": b"\x10\0\0\0\x01\x01\x02\0\x03",
    "varint of six bytes": b"\x80\x80\x80\x80\x80\x00\0\0\0\0\0\0\0",
    "varint beyond 32 bits": b"\xff\xff\xff\xff\x7f\0\0\0\0\0\0\0",
    "varlong of eleven bytes": b"\x20\0" + b"\x80" * 10 + b"\0\0\x01\x01\0",
    "varlong beyond 64 bits": b"\x1e\0" + b"\xff" * 9 + b"\x7f\0\x01\x01\0",
    "timestamp beyond 64 bits": b"\x1e\0" + b"\xfe" + b"\xff" * 8 + b"\x01\0\x01\x01\0",
    "varint at the end of the batch": b"\x0c\0\0\0\x01\x01\x80",
    "bytes after the records": b"\x0c\0\0\0\x01\x01\0" + b"\0",
}


@pytest.mark.parametrize("body", HOSTILE_RECORDS.values(), ids=HOSTILE_RECORDS.keys())
def test_hostile_records_under_a_right_crc(body: bytes) -> None:
    for after in (b"", encode_batch(1, [(b"k", b"v")], NOW)):  # with bytes to run on into, and without
        with pytest.raises(CorruptBatch):
            decode_records(with_body(body) + after)


def test_the_hostile_records_differ_from_a_good_one() -> None:
    assert decode_records(with_body(b"\x0c\0\0\0\x01\x01\0")) == [Record(None, None, (), NOW, 0)]
    headed = decode_records(with_body(b"\x14\0\0\0\x01\x01\x02\x02h\x02v"))
    assert headed == [Record(None, None, (("h", b"v"),), NOW, 0)]


def test_an_offset_may_not_come_twice() -> None:
    record = b"\x0c\0\0\0\x01\x01\0"
    with pytest.raises(CorruptBatch, match="offset delta 0 after 0"):
        decode_records(with_body(record * 2, count=2))


def test_mutated_batches_raise_nothing_else() -> None:
    rng = random.Random(20260101)
    headers = (("name", b"content"), ("", None))
    records = [Record(b"key" * 40, b"value", headers, NOW + 9, 0), Record(None, b"v" * 90, (), NOW, 1)]
    batch = built(KafkaPythonBuilder, records)
    refused = 0
    for _ in range(20_000):
        damaged = bytearray(batch)
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(len(damaged))] = rng.choice((0, 1, 2, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        if rng.random() < 0.2:
            del damaged[rng.randrange(len(damaged)) :]
        if len(damaged) > 21:
            damaged[:] = with_crc(damaged)
        try:
            decode_records(bytes(damaged))
        except (CorruptBatch, UnsupportedBatch):
            refused += 1
    assert 5_000 < refused < 20_000


@unhurried
@given(st.binary(max_size=200), st.integers(-3, 210))
def test_arbitrary_bytes(data: bytes, pos: int) -> None:
    with pytest.raises((CorruptBatch, UnsupportedBatch)):
        decode_records(data, pos)


def test_a_header_is_a_plain_tuple_of_the_bytes() -> None:
    batch = encode_batch(5, [(b"k", b"v")], NOW, leader_epoch=2)
    assert read_header(batch) == BatchHeader(
        5, len(batch) - 12, 2, 2, google_crc32c.value(batch[21:]), 0, 0, NOW, NOW, -1, -1, -1, 1
    )
