"""Message sets of magic 0 and 1 against the builders and readers of two clients, themselves, and hostile bytes."""

from __future__ import annotations

import random
import struct
import warnings
import zlib
from typing import Any

import pytest
from aiokafka.record import legacy_records as aiokafka_records
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.records.batches import (
    HEADER_SIZE,
    SKIM_ABOVE,
    BatchError,
    CorruptBatch,
    DecompressedTooLarge,
    Record,
    TruncatedBatch,
    UnsupportedBatch,
    batches,
    encode_records,
)
from protocol.records.compression import Compression, compress, with_kafka_checksum
from protocol.records.fetched import decode_fetched
from protocol.records.message_sets import Message, decode_message_set, encode_message_set, read_messages

with warnings.catch_warnings():
    # kafka-python 3.0 reads its schemas by functions that Python 3.11 and 3.12 call deprecated.
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
    from kafka.record.legacy_records import LegacyRecordBatch as KafkaPythonBatch
    from kafka.record.legacy_records import LegacyRecordBatchBuilder as KafkaPythonBuilder

from tests.examples import examples

NOW = 1_767_225_600_123
MAGICS = [0, 1]
CODECS = [Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4]
FORMATS = [(magic, codec) for magic in MAGICS for codec in CODECS]
# Of aiokafka, what is compiled and what is not.
BUILDERS = [
    KafkaPythonBuilder,
    aiokafka_records.LegacyRecordBatchBuilder,
    aiokafka_records._LegacyRecordBatchBuilderPy,
]
READERS = [KafkaPythonBatch, aiokafka_records.LegacyRecordBatch, aiokafka_records._LegacyRecordBatchPy]
unhurried = settings(deadline=None, max_examples=examples(8))

contents = st.one_of(st.none(), st.binary(max_size=60), st.binary(min_size=3, max_size=9).map(lambda b: b * 900))
timestamps = st.one_of(st.just(-1), st.integers(0, 2**62))


@st.composite
def record_lists(draw: st.DrawFn, magic: int, *, gaps: bool = True) -> list[Record]:
    """Records with rising offsets, as a message set of this magic can carry them."""
    offset = draw(st.integers(0, 2**62)) if gaps else 0
    records = []
    for key, value, timestamp, step in draw(
        st.lists(st.tuples(contents, contents, timestamps, st.integers(1, 5)), min_size=1, max_size=12)
    ):
        records.append(Record(key, value, (), timestamp if magic else -1, offset))
        offset += step if gaps else 1
    return records


def built(builder_class: Any, magic: int, codec: Compression, records: list[Record]) -> bytes:
    """A message set by a client's own builder, at offsets from 0 on."""
    builder = builder_class(magic=magic, compression_type=int(codec), batch_size=1 << 30)
    for offset, record in enumerate(records):
        assert builder.append(offset, timestamp=record.timestamp, key=record.key, value=record.value) is not None
    return bytes(builder.build())


def has_oracle(client: Any, magic: int, codec: Compression) -> bool:
    """aiokafka does not do the lz4 of Kafka 0.8 and 0.9."""
    return client in (KafkaPythonBuilder, KafkaPythonBatch) or (magic, codec) != (0, Compression.LZ4)


def message(body: bytes, offset: int = 0) -> bytes:
    """`body`, from the magic on, with the size and the CRC that it has."""
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def wrapper(inner: bytes, magic: int, *, offset: int = 0, attributes: int = 1, timestamp: int = NOW) -> bytes:
    value = compress(Compression.GZIP, inner)
    time = struct.pack(">q", timestamp) if magic else b""
    return message(bytes((magic, attributes)) + time + struct.pack(">ii", -1, len(value)) + value, offset)


# --- as others write and read them -----------------------------------------------------------------------------------


@pytest.mark.parametrize("builder", BUILDERS)
@pytest.mark.parametrize("magic", MAGICS)
@unhurried
@given(data=st.data())
def test_bytes_are_those_of_other_builders(builder: Any, magic: int, data: st.DataObject) -> None:
    records = data.draw(record_lists(magic, gaps=False))
    assert encode_message_set(records, magic) == built(builder, magic, Compression.NONE, records)


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
@pytest.mark.parametrize("builder", BUILDERS)
@unhurried
@given(data=st.data())
def test_sets_of_other_builders_are_read(builder: Any, magic: int, codec: Compression, data: st.DataObject) -> None:
    if not has_oracle(builder, magic, codec):
        return
    records = data.draw(record_lists(magic, gaps=False))
    theirs = built(builder, magic, codec, records)
    assert decode_message_set(theirs) == (records, len(theirs), 0)
    if codec:
        (found,) = read_messages(theirs).messages
        assert (found.magic, found.compression) == (magic, codec)


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
@pytest.mark.parametrize("reader", READERS)
@unhurried
@given(data=st.data())
def test_other_readers_read_them(reader: Any, magic: int, codec: Compression, data: st.DataObject) -> None:
    if not has_oracle(reader, magic, codec):
        return
    records = data.draw(record_lists(magic))
    ours = encode_message_set(records, magic, compression=codec)
    found = []
    at = 0
    while at < len(ours):
        size = 12 + int.from_bytes(ours[at + 8 : at + 12], "big")
        batch = reader(ours[at : at + size], magic)
        assert batch.validate_crc()
        found += [(r.key, r.value, (), -1 if r.timestamp is None else r.timestamp, r.offset) for r in batch]
        at += size
    assert found == records


def test_fields_stand_where_kafka_has_them() -> None:
    v0 = encode_message_set([Record(b"k", None, (), -1, 0x0102030405060708)], 0)
    assert v0 == bytes(range(1, 9)) + b"\0\0\0\x0f" + zlib.crc32(v0[16:]).to_bytes(4, "big") + (
        b"\0\0" + b"\0\0\0\1k" + b"\xff\xff\xff\xff"
    )
    v1 = encode_message_set([Record(None, b"vv", (), NOW, 7)], 1, log_append_time=NOW + 1)
    assert v1 == bytes(7) + b"\7" + b"\0\0\0\x18" + zlib.crc32(v1[16:]).to_bytes(4, "big") + (
        b"\1\x08" + (NOW + 1).to_bytes(8, "big") + b"\xff\xff\xff\xff" + b"\0\0\0\2vv"
    )


# --- round trips -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
@unhurried
@given(data=st.data())
def test_round_trip(magic: int, codec: Compression, data: st.DataObject) -> None:
    records = data.draw(record_lists(magic))
    encoded = encode_message_set(records, magic, compression=codec)
    assert decode_message_set(b"xyz" + encoded, 3) == (records, 3 + len(encoded), 0)
    messages, end, needed = read_messages(encoded)
    assert (end, needed) == (len(encoded), 0)
    if codec:
        ((offset, _, attributes, timestamp, key, _),) = messages
        assert (offset, attributes, key) == (records[-1].offset, codec, None)
        assert timestamp == max(record.timestamp for record in records)
    else:
        assert messages == [Message(r.offset, magic, 0, r.timestamp, r.key, r.value) for r in records]


def test_levels() -> None:
    records = [Record(b"%d" % i, b"%x" % (i * i), (), NOW, i) for i in range(1000)]
    fast, normal, small = (
        encode_message_set(records, 1, compression=Compression.GZIP, level=level) for level in (1, None, 9)
    )
    assert len(fast) > len(normal) > len(small)
    assert decode_message_set(fast).records == decode_message_set(small).records == records


@pytest.mark.parametrize("codec", CODECS)
def test_log_append_time_is_that_of_the_broker(codec: Compression) -> None:
    records = [Record(b"k", b"v", (), NOW + i, 40 + i) for i in range(3)]
    encoded = encode_message_set(records, 1, compression=codec, log_append_time=NOW + 99)
    assert decode_message_set(encoded).records == [record._replace(timestamp=NOW + 99) for record in records]
    for found in read_messages(encoded).messages:
        assert (found.is_log_append_time, found.timestamp) == (True, NOW + 99)


def test_sets_of_both_kinds_follow_one_another() -> None:
    old = [Record(b"k", b"v", (), -1, i) for i in range(3)]
    new = [Record(b"k", b"v", (), NOW, i) for i in range(3, 6)]
    encoded = encode_message_set(old, 0, compression=Compression.LZ4) + encode_message_set(
        new, 1, compression=Compression.LZ4
    )
    assert decode_message_set(encoded).records == old + new
    assert decode_message_set(b"") == ([], 0, 0)


# --- wrappers --------------------------------------------------------------------------------------------------------


def test_offsets_in_a_wrapper() -> None:
    def offsets(wrapped: bytes) -> list[int]:
        return [record.offset for record in decode_message_set(wrapped).records]

    def inner(magic: int, *at: int) -> bytes:
        return encode_message_set([Record(None, b"v", (), -1, offset) for offset in at], magic)

    assert offsets(wrapper(inner(0, 70, 71, 75), 0, offset=75)) == [70, 71, 75]
    assert offsets(wrapper(inner(1, 0, 1, 5), 1, offset=75)) == [70, 71, 75]
    assert offsets(wrapper(inner(1, 70, 71, 75), 1, offset=75)) == [70, 71, 75]
    assert offsets(wrapper(inner(1, 0, 1, 5), 1, offset=0)) == [0, 1, 5]
    assert offsets(wrapper(inner(0, 0, 1, 5), 1, offset=75)) == [70, 71, 75]
    assert offsets(wrapper(inner(1, 70, 71, 75), 0, offset=3)) == [70, 71, 75]
    for wrapper_offset in (4, -1):
        with pytest.raises(CorruptBatch, match=rf"last offset 5 \(.* in the wrapper at offset {wrapper_offset}\)"):
            offsets(wrapper(inner(1, 0, 1, 5), 1, offset=wrapper_offset))


def test_offsets_are_read_as_they_come() -> None:
    """What Kafka 4.3.1's consumer makes of them."""

    def offsets(encoded: bytes) -> list[int]:
        return [record.offset for record in decode_message_set(encoded).records]

    def messages(magic: int, *at: int) -> bytes:
        one = encode_message_set([Record(None, b"v", (), -1, 0)], magic)
        return b"".join(struct.pack(">q", offset) + one[8:] for offset in at)

    for magic in MAGICS:
        for at in ((-1, -1), (9, 3), (-(2**63), 2**63 - 1), (-5,)):
            assert offsets(messages(magic, *at)) == list(at)
            assert [found.offset for found in read_messages(messages(magic, *at)).messages] == list(at)
    for at in ((-1, -1), (0, 0), (1, 0), (9, 5), (0, -1), (-5, -4)):
        for wrapper_offset in (-9, -1, 0, 1, 75):
            assert offsets(wrapper(messages(0, *at), 0, offset=wrapper_offset)) == list(at)
        assert offsets(wrapper(messages(1, *at), 1, offset=0)) == list(at)
        assert offsets(wrapper(messages(1, *at), 1, offset=75)) == [75 - at[-1] + offset for offset in at]
    assert offsets(wrapper(messages(1, -1, -1), 1, offset=-1)) == [-1, -1]
    assert offsets(wrapper(messages(1, -5, -4), 1, offset=-1)) == [-2, -1]
    with pytest.raises(CorruptBatch, match="beyond 64 bits"):
        offsets(wrapper(messages(1, 9, 5), 1, offset=2**63 - 2))


def test_record_batches_may_follow() -> None:
    old = [Record(b"k", b"v", (), NOW, i) for i in range(3)]
    new = [Record(b"k", b"v", (("h", b"v"),), NOW, i) for i in range(3, 6)]
    newest = [record._replace(offset=record.offset + 3) for record in new]
    messages = encode_message_set(old[:1], 1) + encode_message_set(old[1:], 1, compression=Compression.GZIP)
    batches_after = encode_records(new) + encode_records(newest, compression=Compression.LZ4)
    upgraded = messages + batches_after
    assert decode_message_set(upgraded) == (old, len(messages), 0)
    found = read_messages(upgraded)
    assert (len(found.messages), found.end, found.needed) == (2, len(messages), 0)
    assert [header.base_offset for _, header in batches(upgraded, len(messages))] == [3, 6]
    assert decode_message_set(batches_after) == ([], 0, 0)

    fetched = list(decode_fetched(b"xyz" + upgraded, 3))
    assert [records for _, records in fetched] == [old, new, newest]
    assert [header and header.compression for header, _ in fetched] == [None, Compression.NONE, Compression.LZ4]
    # A topic whose format was set back has messages after batches.
    assert [records for _, records in decode_fetched(batches_after + messages)] == [new, newest, old]
    assert list(decode_fetched(b"")) == []


def test_a_fetch_response_cut_off_anywhere() -> None:
    record = Record(b"k", b"v" * 9, (), NOW, 0)
    pieces = [encode_message_set([record], 1), encode_records([record]), encode_message_set([record], 1)]
    ends = [len(b"".join(pieces[:count])) for count in range(4)]
    whole = b"".join(pieces)
    for cut in range(len(whole)):
        fetched = decode_fetched(whole[:cut])
        given = sum(end <= cut for end in ends[1:])
        for _ in range(given):
            assert next(fetched)[1] == [record]
        if cut in ends:
            assert list(fetched) == []
            continue
        with pytest.raises(TruncatedBatch) as truncated:
            next(fetched)
        assert truncated.value.position == ends[given]
        assert truncated.value.size in (12, HEADER_SIZE, len(pieces[given]))
    for changed in (whole[:16] + b"\3" + whole[17:], whole[: ends[1] + 16] + b"\3" + whole[ends[1] + 17 :]):
        with pytest.raises(CorruptBatch, match="magic 3"):
            list(decode_fetched(changed))
    with pytest.raises(CorruptBatch, match="negative position"):
        next(decode_fetched(whole, -1))


def test_the_timestamps_of_a_wrapper_are_its_messages_only_with_log_append_time() -> None:
    inner = encode_message_set([Record(None, b"v", (), NOW + i, i) for i in range(2)], 1)
    times = [[r.timestamp for r in decode_message_set(wrapper(inner, 1, attributes=a)).records] for a in (1, 9)]
    assert times == [[NOW, NOW + 1], [NOW, NOW]]


def test_lz4_of_magic_0_may_have_either_checksum() -> None:
    records = [Record(b"k", b"v" * 99, (), -1, 0)]
    frame = compress(Compression.LZ4, encode_message_set(records, 0))
    (written,) = read_messages(encode_message_set(records, 0, compression=Compression.LZ4)).messages
    assert written.value == with_kafka_checksum(frame) != frame
    for value in (frame, with_kafka_checksum(frame)):
        body = bytes((0, 3)) + struct.pack(">ii", -1, len(value)) + value
        assert decode_message_set(message(body)).records == records
    body = bytes((1, 3)) + struct.pack(">qii", NOW, -1, len(frame)) + with_kafka_checksum(frame)
    with pytest.raises(CorruptBatch, match="lz4"):
        decode_message_set(message(body))


@pytest.mark.parametrize("magic", MAGICS)
def test_wrappers_that_are_refused(magic: int) -> None:
    good = encode_message_set([Record(b"k", b"v", (), -1, 0)], magic)
    time = bytes(8) if magic else b""
    size = len(good)
    cases = {
        wrapper(wrapper(good, magic), magic): "a wrapper (at byte 0",
        wrapper(good * 3 + wrapper(good, magic), magic): f"a wrapper (at byte {3 * size}",
        wrapper(b"", magic): "no message (at byte 0",
        wrapper(good[:-1], magic): "a message is cut off (at byte 0",
        wrapper(good + good[:-1], magic): f"a message is cut off (at byte {size}",
        message(bytes((magic, 1)) + time + b"\xff" * 8): "null (at byte 0",
        wrapper(good[:-1] + b"?", magic): "CRC mismatch (at byte 0",
        message(bytes((magic, 1)) + time + b"\xff\xff\xff\xff\0\0\0\1?"): "gzip: cut off (at byte 0",
        wrapper(good[:16] + b"\2" + good[17:], magic): "magic 2 (at byte 16",
        wrapper(good + encode_records([Record(b"k", b"v", (), NOW, 0)]), magic): f"magic 2 (at byte {size + 16}",
        wrapper(good[:16] + b"\3" + good[17:], magic): "magic 3 (at byte 16",
    }
    before = wrapper(good, magic) + good
    for encoded, reason in cases.items():
        with pytest.raises(CorruptBatch) as corrupt:
            decode_message_set(before + encoded + good)
        assert corrupt.value.reason == f"{reason} in the wrapper at offset 0)"
        assert corrupt.value.position == len(before)
    cut = wrapper(good + struct.pack(">q", 9) + good[8:-1], magic, offset=3)
    with pytest.raises(CorruptBatch, match=rf"a message is cut off \(at byte {size} in the wrapper at offset 3\)"):
        decode_message_set(cut)
    for codec in (4, 5, 6, 7):
        with pytest.raises(UnsupportedBatch, match=f"codec {codec}") as unsupported:
            decode_message_set(before + wrapper(good, magic, attributes=codec))
        assert unsupported.value.position == len(before)
    with pytest.raises(DecompressedTooLarge, match="in the wrapper at offset 7") as too_large:
        decode_message_set(before + wrapper(good * 9, magic, offset=7, attributes=1), max_size=500)
    assert too_large.value.position == len(before)


@pytest.mark.parametrize("magic", MAGICS)
def test_all_is_skimmed_before_more_is_made(magic: int) -> None:
    """What follows is what is found first, however much there was before: in messages, in wrappers, in both."""

    def messages(count: int) -> bytes:
        return encode_message_set([Record(b"%d" % n, None, (), -1, n) for n in range(count)], magic)

    many, more = messages(SKIM_ABOVE), messages(SKIM_ABOVE + 1)
    third = messages(SKIM_ABOVE // 3)
    few = messages(9)
    # Each with the number of messages that are in wrappers.
    sets = {
        many: 0,
        more: 0,
        many + many: 0,
        wrapper(many, magic): SKIM_ABOVE,
        wrapper(more, magic): SKIM_ABOVE + 1,
        few + wrapper(many, magic): SKIM_ABOVE,
        wrapper(third, magic) * 5: SKIM_ABOVE // 3 * 5,
        (third + wrapper(third, magic)) * 3: SKIM_ABOVE // 3 * 3,
    }
    bad = wrapper(messages(1)[:-1] + b"?", magic)
    for encoded, wrapped in sets.items():
        # What is skimmed does not count twice against the size allowed.
        records, end, needed = decode_message_set(encoded, max_size=64 * wrapped)
        assert (end, needed) == (len(encoded), 0)
        assert len(records) >= SKIM_ABOVE
        assert [record.key for record in records] == [b"%d" % record.offset for record in records]
        with pytest.raises(CorruptBatch, match="CRC mismatch") as corrupt:
            decode_message_set(encoded + bad + many)
        assert corrupt.value.position == len(encoded)
        if wrapped:
            with pytest.raises(DecompressedTooLarge):
                decode_message_set(encoded, max_size=64 * wrapped - 1)


# --- a set that ends in a message ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_truncation_at_every_byte_is_reported(magic: int, codec: Compression) -> None:
    first = [Record(b"key", b"value" * 9, (), NOW if magic else -1, i) for i in range(3)]
    second = [Record(None, b"value", (), NOW if magic else -1, 3)]
    whole = encode_message_set(first, magic, compression=codec)
    last = encode_message_set(second, magic, compression=codec)
    for cut in range(len(last)):
        records, end, needed = decode_message_set(whole + last[:cut])
        assert records == first
        assert end == len(whole)
        assert needed == (0 if not cut else 12 if cut < 12 else len(last))
    for cut in range(len(whole)):
        assert decode_message_set(whole[:cut]).records == first[: 3 * cut // len(whole) if not codec else 0]


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_a_flipped_bit_anywhere_under_the_crc(magic: int, codec: Compression) -> None:
    records = [Record(b"key", b"value", (), NOW if magic else -1, 0)]
    encoded = encode_message_set(records, magic, compression=codec)
    for bit in range(12 * 8, len(encoded) * 8):
        damaged = bytearray(encoded)
        damaged[bit // 8] ^= 1 << bit % 8
        # A flipped magic can want a timestamp that is not there, or make a record batch of it.
        try:
            found = decode_message_set(bytes(damaged))
        except CorruptBatch:
            continue
        assert (found.records, found.end) == ([], 0)
        assert damaged[16] == 2 or found.needed > 0
        with pytest.raises(CorruptBatch):
            list(decode_fetched(bytes(damaged)))


HOSTILE = {
    "size of nothing": b"\0" * 12 + b"\0" * 40,
    "size below the least": b"\0" * 8 + b"\0\0\0\x0d" + b"\0" * 40,
    "size below the least, cut off": b"\0" * 8 + b"\0\0\0\x0d" + b"\0" * 5,
    "size below the least of magic 1": message(b"\1" + bytes(9)) + bytes(40),
    "negative size": b"\0" * 8 + b"\xff\xff\xff\xff" + b"\0" * 40,
    "magic 3": message(b"\3" + b"\0" * 40),
    "magic 255": message(b"\xff" + b"\0" * 40),
    "magic 3, cut off": b"\0" * 8 + b"\0\0\1\0" + b"\0" * 4 + b"\3",
    "key length -2": message(b"\0\0" + b"\xff\xff\xff\xfe" + b"\xff" * 4),
    "value length -2": message(b"\0\0" + b"\xff\xff\xff\xff" + b"\xff\xff\xff\xfe"),
    "huge key": message(b"\0\0" + b"\x7f\xff\xff\xff" + b"\xff" * 4),
    "key into the value's length": message(b"\0\0" + b"\0\0\0\1" + b"\xff" * 4),
    "huge value": message(b"\0\0" + b"\xff" * 4 + b"\x7f\xff\xff\xff"),
    "value longer than the message": message(b"\0\0" + b"\xff" * 4 + b"\0\0\0\2v"),
    "value shorter than the message": message(b"\0\0" + b"\xff" * 4 + b"\0\0\0\1vv"),
}


@pytest.mark.parametrize("encoded", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_messages(encoded: bytes) -> None:
    good = encode_message_set([Record(b"k", b"v", (), -1, 0)], 0)
    for after in (b"", good):
        with pytest.raises(CorruptBatch):
            decode_message_set(encoded + after)
        with pytest.raises(CorruptBatch) as corrupt:
            decode_message_set(good + encoded + after)
        assert corrupt.value.position >= len(good)


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_mutated_sets_raise_nothing_else(magic: int, codec: Compression) -> None:
    rng = random.Random(20260103)
    records = [Record(b"key" * 9, b"value", (), NOW if magic else -1, i) for i in range(3)]
    encoded = encode_message_set(records, magic, compression=codec)
    refused = 0
    for _ in range(2_000):
        damaged = bytearray(encoded)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(min(len(damaged), rng.choice((30, 60, 1000))))
            damaged[at] = rng.choice((0, 1, 2, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        size = 12 + int.from_bytes(encoded[8:12], "big")
        damaged[12:16] = zlib.crc32(damaged[16:size]).to_bytes(4, "big")
        if rng.random() < 0.2:
            del damaged[rng.randrange(len(damaged)) :]
        try:
            decode_message_set(bytes(damaged), max_size=1 << 16)
        except BatchError:
            refused += 1
    assert 300 < refused < 2_000


@unhurried
@given(st.binary(max_size=200), st.integers(-3, 210))
def test_arbitrary_bytes(data: bytes, pos: int) -> None:
    try:
        records, end, _ = decode_message_set(data, pos)
    except CorruptBatch:
        return
    assert (records, end) == ([], pos)


def test_the_limit_counts_what_messages_become() -> None:
    small = encode_message_set([Record(None, None, (), -1, i) for i in range(1_000)], 0, compression=Compression.GZIP)
    assert len(decode_message_set(small, max_size=64_000).records) == 1_000
    with pytest.raises(DecompressedTooLarge, match="1000 messages where 63999 bytes"):
        decode_message_set(small, max_size=63_999)
    # The limit is that of all wrappers together.
    with pytest.raises(DecompressedTooLarge):
        decode_message_set(small * 2, max_size=100_000)
    large = encode_message_set([Record(None, bytes(10_000), (), -1, 0)], 0, compression=Compression.GZIP)
    assert len(decode_message_set(large, max_size=10_026).records) == 1
    with pytest.raises(DecompressedTooLarge, match="more than 10025 bytes"):
        decode_message_set(large, max_size=10_025)


@pytest.mark.parametrize(
    ("records", "arguments", "reason"),
    [
        ([], {"magic": 0}, "without records"),
        ([Record(b"k", b"v")], {"magic": 2}, "magic 2"),
        ([Record(b"k", b"v", (("h", b"v"),), -1, 0)], {"magic": 1}, "headers"),
        ([Record(b"k", b"v", (), NOW, 0)], {"magic": 0}, "timestamps"),
        ([Record(b"k", b"v", (), -1, 0)], {"magic": 0, "log_append_time": NOW}, "timestamps"),
        ([Record(b"k", b"v", (), -1, -1)], {"magic": 0}, "offset -1"),
        ([Record(b"k", b"v", (), -1, 3)] * 2, {"magic": 1}, "offset 3 after 3"),
        ([Record(b"k", b"v", (), 2**63, 0)], {"magic": 1}, "cannot be written"),
        ([Record(b"k", b"v", (), NOW, 2**63)], {"magic": 1}, "cannot be written"),
        ([Record(b"k", b"v", (), -1, 0)], {"magic": 1, "compression": Compression.ZSTD}, "ZSTD"),
    ],
)
def test_what_is_no_message_set_is_not_written(records: list[Record], arguments: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        encode_message_set(records, **arguments)
