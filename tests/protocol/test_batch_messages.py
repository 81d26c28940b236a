"""Messages made of a batch at once are those that are made of its records."""

from __future__ import annotations

import struct

import google_crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.records.batch_errors import BatchError, CorruptBatch, DecompressedTooLarge
from protocol.records.batch_messages import batch_messages
from protocol.records.batches import Compression, Record, encode_records, read_header, records_of
from protocol.records.message_sets import decode_message_set, encode_message_set
from tests.examples import examples

NOW = 1_767_225_600_123
CODECS = [Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4]
contents = st.one_of(st.none(), st.binary(max_size=5), st.just(b"v" * 100), st.just(b"w" * 20_000))
timestamps = st.one_of(st.integers(NOW - 10, NOW + 10), st.integers(-1, 2**62))


@st.composite
def logs(draw: st.DrawFn) -> list[Record]:
    offset = draw(st.sampled_from([0, 5, 2**40]))
    records = []
    for _ in range(draw(st.integers(1, 8))):
        headers = draw(st.sampled_from([(), (("h", b"1"), ("i", None))]))
        records.append(Record(draw(contents), draw(contents), headers, draw(timestamps), offset))
        offset += draw(st.sampled_from([1, 1, 2, 200, 100_000]))
    return records


@settings(deadline=None)
@given(logs(), st.sampled_from([0, 1]), st.sampled_from(CODECS), st.booleans(), st.integers(0, 9), st.integers(1, 9))
def test_they_are_those_of_the_records(
    records: list[Record], magic: int, codec: Compression, append_time: bool, skipped: int, count: int
) -> None:
    first = records[min(skipped, len(records) - 1)].offset
    time = NOW if append_time else None
    batch = b"before" + encode_records(records, compression=codec, log_append_time=time)
    header = read_header(batch, 6)
    made = batch_messages(batch, 6, header, magic, first)
    kept = [each for each in records if each.offset >= first]
    count = min(count, len(kept))
    assert made.size == len(kept)
    plain = [each._replace(headers=(), timestamp=each.timestamp if magic else -1) for each in kept[:count]]
    joined = made.joined(count, codec)
    expected = encode_message_set(plain, magic, compression=codec, log_append_time=time if magic else None)
    if codec:  # the wrapper has the newest timestamp of the batch, whatever is in it
        assert decode_message_set(joined).records == decode_message_set(expected).records
    else:
        assert joined == expected


@settings(deadline=None, max_examples=examples(75))
@given(logs(), st.sampled_from([0, 1]), st.data())
def test_of_bad_bytes_it_says_the_same_or_makes_what_is_read(
    records: list[Record], magic: int, data: st.DataObject
) -> None:
    batch = bytearray(encode_records(records))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.one_of(st.integers(57, len(batch) - 1), st.integers(57, min(90, len(batch) - 1))))
        batch[at] = data.draw(st.sampled_from([0, 1, 2, 3, 127, 128, 255]))
    batch[17:21] = struct.pack(">I", google_crc32c.value(bytes(batch[21:])))
    raw = bytes(batch)
    try:
        header = read_header(raw)
    except BatchError:
        return
    try:
        read = records_of(raw, 0, header)
    except BatchError:
        read = None
    try:
        made = batch_messages(raw, 0, header, magic, -(2**63)).joined(header.record_count, Compression.NONE)
    except BatchError:
        # Those who read records take offsets that do not rise.
        assert read is None or [r.offset for r in read] != sorted({r.offset for r in read})
        return
    if read is not None:
        found = decode_message_set(made).records
        times = [each.timestamp if magic else -1 for each in read]
        assert found == [each._replace(headers=(), timestamp=time) for each, time in zip(read, times, strict=True)]


def test_records_are_counted_before_they_are_made() -> None:
    batch = bytearray(encode_records([Record(None, bytes(64), (), NOW, 0)] * 1, compression=Compression.GZIP))
    batch[23:27] = batch[57:61] = struct.pack(">i", 10_000_000)
    header = read_header(bytes(batch))
    with pytest.raises(DecompressedTooLarge, match="10000000 records"):
        batch_messages(bytes(batch), 0, header, 1, 0)


def test_a_bomb_is_not_opened() -> None:
    batch = encode_records([Record(None, bytes(5_000_000), (), NOW, 0)], compression=Compression.GZIP)
    with pytest.raises(DecompressedTooLarge):
        batch_messages(batch, 0, read_header(batch), 1, 0, 1_000_000)


def test_offsets_that_do_not_rise() -> None:
    batch = bytearray(encode_records([Record(None, b"a", (), NOW, 7), Record(None, b"b", (), NOW, 8)]))
    second = batch.index(b"b") - 2
    batch[second - 1 : second] = b"\x00"  # its offset delta
    with pytest.raises(CorruptBatch, match="offset 7 after 7"):
        batch_messages(bytes(batch), 0, read_header(bytes(batch)), 1, 0)
