"""Record batches against the builders and readers of two clients, against themselves, and against hostile bytes."""

from __future__ import annotations

import random
import struct
import warnings
from collections.abc import Callable
from typing import Any

import google_crc32c
import pytest
from aiokafka.record import control_record as aiokafka_control
from aiokafka.record import default_records as aiokafka_records
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.records import batches
from protocol.records.batches import (
    HEADER_SIZE,
    SKIM_ABOVE,
    BatchError,
    BatchHeader,
    Compression,
    ControlRecordType,
    CorruptBatch,
    DecompressedTooLarge,
    EndTransactionMarker,
    Record,
    TruncatedBatch,
    UnsupportedBatch,
    control_record_type,
    decode_records,
    encode_batch,
    encode_end_transaction,
    encode_records,
    encoded_size,
    end_transaction_marker,
    read_header,
    records_of,
    rewrite_batch,
)
from protocol.records.compression import compress, decompress
from tests.examples import examples
from tests.protocol.parts import zigzag

with warnings.catch_warnings():
    # kafka-python 3.0 reads its schemas by functions that Python 3.11 and 3.12 call deprecated.
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
    from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
    from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

NOW = 1_767_225_600_123
# Of aiokafka, what is compiled and what is not.
BUILDERS = [
    KafkaPythonBuilder,
    aiokafka_records.DefaultRecordBatchBuilder,
    aiokafka_records._DefaultRecordBatchBuilderPy,
]
READERS = [KafkaPythonBatch, aiokafka_records.DefaultRecordBatch, aiokafka_records._DefaultRecordBatchPy]
CODECS = [codec for codec in Compression if codec]

contents = st.one_of(st.none(), st.binary(max_size=80), st.binary(min_size=60, max_size=70).map(lambda b: b * 150))
brief = settings(deadline=None, max_examples=examples(8))  # for each codec and each client
unhurried = settings(deadline=None, max_examples=examples(20))
pairs = st.lists(st.tuples(contents, contents), min_size=1, max_size=20)
timestamps = st.one_of(st.just(-1), st.integers(0, 2**62))
record_headers = st.lists(st.tuples(st.text(max_size=70), contents), max_size=3)


def built(
    builder_class: Any,
    records: list[Record],
    *,
    transactional: bool = False,
    producer_id: int = -1,
    codec: Compression = Compression.NONE,
) -> bytes:
    """A batch at base offset 0 by a client's own builder."""
    builder = builder_class(
        magic=2,
        compression_type=int(codec),
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


def recompressed(batch: bytes, codec: Compression, records: bytes) -> bytes:
    """The batch with `records`, compressed, in the place of its own."""
    body = compress(codec, records)
    sized = with_field(batch[:HEADER_SIZE] + body, 8, "i", HEADER_SIZE - 12 + len(body))
    return with_field(sized, 21, "h", codec)


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
    base_offset=st.integers(0, 2**63 - 1 - 2**31),
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
    assert [aiokafka_control.ABORT_MARKER.type_, aiokafka_control.COMMIT_MARKER.type_] == [0, 1]
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


def test_the_end_of_a_transaction() -> None:
    for control_type in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
        marker = EndTransactionMarker(control_type, 12)
        batch = encode_end_transaction(7, marker, NOW, producer_id=4, producer_epoch=1, leader_epoch=2)
        header = read_header(batch)
        assert (header.base_offset, header.next_offset, header.partition_leader_epoch) == (7, 8, 2)
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4, 1, -1)
        assert (header.is_control, header.is_transactional) == (True, True)
        (record,) = decode_records(batch)
        assert (record.key, record.value) == (b"\0\0\0" + bytes((control_type,)), b"\0\0\0\0\0\x0c")
        assert end_transaction_marker(record) == marker
        assert end_transaction_marker(record._replace(value=b"\0\1\0\0\0\x0c\0\1")) == marker
        for bad in (None, b"", b"\0" * 5, b"\xff\xff\0\0\0\0"):
            with pytest.raises(CorruptBatch):
                end_transaction_marker(record._replace(value=bad))
        for other in (b"\0\0\0\2", b"\0\0\0\x7f", None):
            with pytest.raises(CorruptBatch):
                end_transaction_marker(record._replace(key=other))
    leader_change = EndTransactionMarker(ControlRecordType.LEADER_CHANGE, 1)
    with pytest.raises(ValueError, match="no transaction"):
        encode_end_transaction(7, leader_change, NOW, producer_id=4, producer_epoch=1)
    with pytest.raises(ValueError, match="cannot be written"):
        encode_end_transaction(7, marker._replace(coordinator_epoch=2**31), NOW, producer_id=4, producer_epoch=1)


# --- compressed ------------------------------------------------------------------------------------------------------


@st.composite
def rising_records(draw: st.DrawFn) -> list[Record]:
    offset = draw(st.integers(0, 2**62))
    records = []
    fields = st.tuples(contents, contents, record_headers, timestamps, st.integers(1, 9))
    for key, value, headers, timestamp, step in draw(st.lists(fields, min_size=1, max_size=10)):
        records.append(Record(key, value, tuple(headers), timestamp, offset))
        offset += step
    return records


@pytest.mark.parametrize("codec", Compression)
@brief
@given(records=rising_records(), transactional=st.booleans())
def test_records_of_their_own_round_trip(codec: Compression, records: list[Record], transactional: bool) -> None:
    batch = encode_records(
        records,
        leader_epoch=3,
        attributes=0x10 if transactional else 0,
        producer_id=77,
        producer_epoch=3,
        base_sequence=9,
        compression=codec,
    )
    header = read_header(batch)
    assert (header.size, header.record_count) == (len(batch), len(records))
    assert (header.base_offset, header.last_offset) == (records[0].offset, records[-1].offset)
    assert (header.compression, header.is_transactional) == (codec, transactional)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 3, 9)
    assert (header.base_timestamp, header.max_timestamp) == (records[0].timestamp, max(r.timestamp for r in records))
    assert decode_records(b"xyz" + batch + b"tail", 3) == records
    assert rewrite_batch(header, records) == batch
    stamped = encode_records(records, compression=codec, log_append_time=NOW)
    assert read_header(stamped).is_log_append_time
    assert decode_records(stamped) == [record._replace(timestamp=NOW) for record in records]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("builder", BUILDERS)
@brief
@given(records=rising_records(), repeats=st.sampled_from([1, 20]))
def test_compressed_batches_of_other_builders_are_read(
    builder: Any, codec: Compression, records: list[Record], repeats: int
) -> None:
    # aiokafka's compiled builder takes -1 for a timestamp yet to come, even in the base timestamp.
    repeated = enumerate(records * repeats)
    expected = [record._replace(offset=i, timestamp=max(record.timestamp, 0)) for i, record in repeated]
    theirs = built(builder, expected, codec=codec)
    ours = encode_records(expected, compression=codec)
    # Some leave a batch as it is that does not get smaller (or hardly, where its framing is larger than ours); all do
    # compress what is like itself, and has something in it.
    assert read_header(theirs).compression == codec or repeats < 8 or len(ours) + 32 > len(theirs)
    assert decode_records(theirs) == expected
    if read_header(theirs).compression:
        assert decompress(codec, ours[HEADER_SIZE:]) == decompress(codec, theirs[HEADER_SIZE:])
    assert ours[21:HEADER_SIZE] == with_field(theirs, 21, "h", codec)[21:HEADER_SIZE]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("reader", READERS)
@brief
@given(records=rising_records())
def test_other_readers_read_compressed_batches(reader: Any, codec: Compression, records: list[Record]) -> None:
    batch = reader(encode_records(records, compression=codec))
    assert batch.validate_crc()
    assert (batch.compression_type, batch.next_offset) == (codec, records[-1].offset + 1)
    assert [(r.key, r.value, tuple(r.headers), r.timestamp, r.offset) for r in batch] == records


@pytest.mark.parametrize("codec", CODECS)
def test_a_compressed_batch_is_rewritten_compressed(codec: Compression) -> None:
    batch = encode_batch(5, [(b"k%d" % i, b"v" * 50) for i in range(100)], NOW, compression=codec)
    header = read_header(batch)
    kept = decode_records(batch)[10:20]
    smaller = rewrite_batch(header, kept)
    assert decode_records(smaller) == kept
    assert read_header(smaller).compression == codec
    # Nothing is compressed in an empty batch (as Kafka's compaction leaves it).
    empty = rewrite_batch(header, [])
    assert (read_header(empty).compression, len(empty), decode_records(empty)) == (Compression.NONE, HEADER_SIZE, [])


@pytest.mark.parametrize("codec", CODECS)
def test_headers_and_crc_are_read_without_decompressing(codec: Compression) -> None:
    batch = encode_batch(5, [(b"k", b"v")] * 9, NOW, compression=codec)
    undone = with_crc(batch[:HEADER_SIZE] + b"\xff" * (len(batch) - HEADER_SIZE))
    ((_, header),) = batches.batches(undone)
    assert (header.next_offset, header.record_count, header.compression) == (14, 9, codec)
    with pytest.raises(CorruptBatch):
        decode_records(undone)


@pytest.mark.parametrize("codec", CODECS)
def test_the_limit_of_what_is_decompressed(codec: Compression) -> None:
    batch = encode_batch(0, [(b"k", bytes(100_000))], NOW, compression=codec)
    size = len(decompress(codec, batch[HEADER_SIZE:]))
    assert len(decode_records(batch, 0, size)) == 1
    with pytest.raises(DecompressedTooLarge, match=f"more than {size - 1} bytes"):
        decode_records(batch, 0, size - 1)
    # Small records count for more than they are; that is judged before anything is decompressed.
    many = encode_batch(0, [(None, None)] * 1_000, NOW, compression=codec)
    assert len(decode_records(many, 0, 64_000)) == 1_000
    with pytest.raises(DecompressedTooLarge, match="1000 records"):
        decode_records(many, 0, 63_999)
    headed = encode_records([Record(None, None, (("", None),) * 500, NOW, i) for i in range(2)], compression=codec)
    assert len(decode_records(headed, 0, 1_002 * 64)) == 2
    with pytest.raises(DecompressedTooLarge, match="500 headers where 499 more"):
        decode_records(headed, 0, 1_002 * 64 - 1)


@pytest.mark.parametrize("codec", CODECS)
def test_a_compressed_batch_cut_off_or_damaged(codec: Compression) -> None:
    batch = encode_batch(0, [(b"key" * 30, b"value"), (b"k", None)], NOW, compression=codec)
    for cut in range(len(batch)):
        with pytest.raises(TruncatedBatch):
            decode_records(batch[:cut])
        if cut > HEADER_SIZE:  # the same, with length and CRC made right
            shorter = with_field(batch[:cut], 8, "i", cut - 12)
            with pytest.raises(CorruptBatch):
                decode_records(shorter)
    for bit in range(16 * 8, len(batch) * 8):
        damaged = bytearray(batch)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptBatch):
            decode_records(bytes(damaged))


@pytest.mark.parametrize("codec", CODECS)
def test_mutated_compressed_batches_raise_nothing_else(codec: Compression) -> None:
    rng = random.Random(20260104)
    records = [Record(b"key" * 40, b"value", (("name", b"v"),), NOW, 0), Record(None, b"v" * 90, (), NOW, 1)]
    plain = encode_records(records)
    batch = encode_records(records, compression=codec)
    refused = 0
    for _ in range(1_500):
        damaged = bytearray(batch if rng.random() < 0.5 else plain)
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(HEADER_SIZE if rng.random() < 0.2 else 21, len(damaged))] = rng.randrange(256)
        if len(damaged) == len(plain):  # damaged before it was compressed
            damaged = bytearray(recompressed(bytes(damaged), codec, bytes(damaged[HEADER_SIZE:])))
        try:
            decode_records(with_crc(damaged), 0, 1 << 16)
        except BatchError:
            refused += 1
    assert 500 < refused < 1_500


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


# --- what brokers keep, and Kafka 4.3.1's consumer reads, though no client of today writes it -----------------------


@pytest.mark.parametrize("base_offset", [-1, -7, -(2**63) + 2**31, 2**63 - 1 - 2**31])
def test_producers_give_any_base_offset(base_offset: int) -> None:
    batch = with_field(encode_batch(0, [(b"k", b"v")] * 2, NOW), 0, "q", base_offset)
    ((_, header),) = batches.batches(batch)
    assert (header.base_offset, header.next_offset) == (base_offset, base_offset + 2)
    assert [record.offset for record in decode_records(batch)] == [base_offset, base_offset + 1]


def record_at(offset_delta: int) -> bytes:
    body = b"\0\0" + zigzag(offset_delta) + b"\x01\x01\0"
    return zigzag(len(body)) + body


@pytest.mark.parametrize("codec", Compression)
@pytest.mark.parametrize(
    "deltas", [(0, 0), (1, 0), (-1, 0), (0, 7), (2**31 - 1, -(2**31)), (5, 5, 5, -5, 5)], ids=lambda d: str(d)
)
def test_offset_deltas_are_read_as_they_come(codec: Compression, deltas: tuple[int, ...]) -> None:
    body = b"".join(map(record_at, deltas))
    batch = with_field(with_body(body, len(deltas)), 0, "q", 100)
    if codec:
        batch = recompressed(batch, codec, body)
    records = decode_records(batch)
    assert records == [Record(None, None, (), NOW, 100 + delta) for delta in deltas]
    # What a broker would not have written is not written here.
    with pytest.raises(ValueError, match="offset"):
        rewrite_batch(read_header(batch), records)


NO_UTF_8 = [b"\xff", b"caf\xe9", b"\xed\xa0\x80", b"\xc3", b"\x80ok\xfe", b"ok \xf4\x90\x80\x80"]


@pytest.mark.parametrize("codec", Compression)
def test_header_keys_that_are_not_utf_8_come_back_byte_for_byte(codec: Compression) -> None:
    headers = [b"\x02" + zigzag(len(key)) + key + b"\x02v" for key in NO_UTF_8]
    bodies = [b"\0\0" + zigzag(i) + b"\x01\x01" + tail for i, tail in enumerate(headers)]
    plain = with_body(b"".join(zigzag(len(body)) + body for body in bodies), len(bodies))
    batch = recompressed(plain, codec, plain[HEADER_SIZE:]) if codec else plain
    records = decode_records(batch)
    keys = [key for record in records for key, _ in record.headers]
    assert [key.encode(errors="surrogateescape") for key in keys] == NO_UTF_8
    assert rewrite_batch(read_header(plain), records) == plain
    assert encode_records(records) == plain


@given(st.binary(max_size=9))
def test_any_header_key_comes_back(key: bytes) -> None:
    record = Record(None, None, ((key.decode(errors="surrogateescape"), b"v"),), NOW, 0)
    (read,) = decode_records(encode_records([record]))
    assert read == record


# --- batches of more than are made at once ---------------------------------------------------------------------------


def of_records(count: int) -> list[Record]:
    return [Record(b"%d" % n, None, (), NOW + n, n) for n in range(count)]


def of_headers(count: int) -> list[Record]:
    """So many records and headers together, the headers in two records of five."""
    headers = tuple(("h", b"%d" % n) for n in range((count - 5) // 2))
    return [Record(None, b"v", headers if n in (1, 3) else (), NOW + n, n) for n in range(5)]


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.ZSTD])
@pytest.mark.parametrize("make", [of_records, of_headers])
def test_all_is_skimmed_before_more_is_made(make: Callable[[int], list[Record]], codec: Compression) -> None:
    for count in (SKIM_ABOVE - 1, SKIM_ABOVE, SKIM_ABOVE + 1, 2 * SKIM_ABOVE, 2 * SKIM_ABOVE + 1):
        records = make(count)
        plain = encode_records(records)
        batch = encode_records(records, compression=codec)
        assert decode_records(batch) == records
        for body, reason in (
            (plain[HEADER_SIZE:-1] + b"\x02", "headers in 0 bytes"),
            (plain[HEADER_SIZE:] + b"\0", "1 bytes after the last record"),
            (plain[HEADER_SIZE:-1], "record of|record cut off"),
        ):
            bad = with_field(plain[:HEADER_SIZE] + body, 8, "i", HEADER_SIZE - 12 + len(body))
            with pytest.raises(CorruptBatch, match=reason):
                decode_records(recompressed(bad, codec, body) if codec else bad)


# --- what is refused -------------------------------------------------------------------------------------------------


def test_compressed_batches_are_told_from_damaged_ones() -> None:
    batch = encode_batch(0, [(b"k", b"v")], NOW)
    for codec in range(1, 5):
        changed = with_field(batch, 21, "h", codec)
        with pytest.raises(CorruptBatch, match=Compression(codec).name.lower()):
            decode_records(changed)
        with pytest.raises(UnsupportedBatch, match="compressed"):
            records_of(changed, 0, read_header(changed))
    for codec in range(5, 8):
        with pytest.raises(UnsupportedBatch, match=f"codec {codec}"):
            decode_records(with_field(batch, 21, "h", codec))
    damaged = bytearray(batch)
    damaged[22] = Compression.ZSTD
    with pytest.raises(CorruptBatch, match="CRC"):
        decode_records(bytes(damaged))


@pytest.mark.parametrize("base_offset", [-1, 2**63 - 2**31, 2**63 - 1, 2**63])
def test_impossible_base_offsets_are_not_written(base_offset: int) -> None:
    with pytest.raises(ValueError, match="base offset"):
        encode_batch(base_offset, [(b"k", b"v")], NOW)


@pytest.mark.parametrize("arguments", [{"timestamp_ms": 2**63}, {"leader_epoch": 2**31}, {"producer_epoch": 2**15}])
def test_numbers_beyond_their_fields_are_not_written(arguments: dict[str, Any]) -> None:
    timestamp = arguments.pop("timestamp_ms", NOW)
    with pytest.raises(ValueError, match="cannot be written"):
        encode_batch(0, [(b"k", b"v")], timestamp, **arguments)


def test_what_is_no_batch_is_not_written() -> None:
    with pytest.raises(ValueError, match="without records"):
        encode_batch(0, [], NOW)
    with pytest.raises(ValueError, match="compression"):
        encode_batch(0, [(b"k", b"v")], NOW, attributes=Compression.GZIP)
    with pytest.raises(ValueError, match="compression"):
        encode_records([Record(b"k", b"v", (), NOW, 0)], attributes=Compression.GZIP)
    with pytest.raises(ValueError, match="without records"):
        encode_records([])
    for offsets in ([-1], [3, 3], [3, 2], [0, 2**31], [2**63 - 1]):
        with pytest.raises(ValueError, match=r"offset|cannot be written"):
            encode_records([Record(b"k", b"v", (), NOW, offset) for offset in offsets])
    for timestamps in ([-(2**62), 2**63 - 1], [2**63 - 3, 2**63], [2**62, 2**63], [0, 2**63], [-(2**62), -(2**63) - 1]):
        records = [Record(b"k", b"v", (), timestamp, i) for i, timestamp in enumerate(timestamps)]
        for log_append_time in (None, NOW):
            with pytest.raises(ValueError, match=r"timestamp|cannot be written"):
                encode_records(records, log_append_time=log_append_time)
        with pytest.raises(ValueError, match="timestamp"):
            rewrite_batch(read_header(encode_records([r._replace(timestamp=timestamps[0]) for r in records])), records)
    for timestamps in ([2**63 - 3, 2**63 - 1], [-(2**63), -1], [-1, -(2**63)]):
        records = [Record(b"k", b"v", (), timestamp, i) for i, timestamp in enumerate(timestamps)]
        assert decode_records(encode_records(records)) == records
    with pytest.raises(ValueError, match="surrogates not allowed"):
        encode_records([Record(b"k", b"v", (("\ud800", b""),), NOW, 0)])
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
    "offsets below 64 bits": (0, "q", -(2**63) + 2**31 - 1),
    "offsets beyond 64 bits": (0, "q", 2**63 - 2**31),
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
    "key longer than the record": b"\x0e\0\0\0\x7ek\x01\0",
    "huge key": b"\x14\0\0\0\xfe\xff\xff\xff\x0fk\0",
    "key length -2": b"\x0c\0\0\0\x03\x01\0",
    "value longer than the record": b"\x0e\0\0\0\x01\x7ev\0",
    "value length -2": b"\x0c\0\0\0\x01\x03\0",
    "negative header count": b"\x0c\0\0\0\x01\x01\x01",
    "huge header count": b"\x14\0\0\0\x01\x01\xfe\xff\xff\xff\x0f",
    "header key longer than the record": b"\x10\0\0\0\x01\x01\x02\x7e\x01",
    "null header key": b"\x10\0\0\0\x01\x01\x02\x01\x01",
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
    for codec in CODECS:
        with pytest.raises(CorruptBatch, match="of the decompressed records"):
            decode_records(recompressed(with_body(body), codec, body))


def test_the_hostile_records_differ_from_a_good_one() -> None:
    assert decode_records(with_body(b"\x0c\0\0\0\x01\x01\0")) == [Record(None, None, (), NOW, 0)]
    headed = decode_records(with_body(b"\x14\0\0\0\x01\x01\x02\x02h\x02v"))
    assert headed == [Record(None, None, (("h", b"v"),), NOW, 0)]


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
        except BatchError:
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
