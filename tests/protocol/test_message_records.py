"""Messages framed as records in one go: the same ones, and as many, as reading them one by one finds to be right."""

from __future__ import annotations

import zlib
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.records.batches import Compression, CorruptBatch, Record, decode_records, encode_framed
from protocol.records.message_layout import PREFIX_SIZE
from protocol.records.message_records import frame_messages
from protocol.records.message_sets import MessageScan, encode_message_set
from tests.examples import examples

LARGEST = 2**63 - 1
NOW = 1_767_225_600_123

contents = st.one_of(
    st.none(),
    st.binary(max_size=40),
    st.builds(lambda size, byte: byte * size, st.integers(60, 9000), st.binary(min_size=1, max_size=1)),
)
timestamps = st.one_of(
    st.just(-1), st.integers(NOW - 10_000, NOW + 10_000), st.sampled_from([-2, 0, LARGEST - 1, LARGEST])
)
rows = st.lists(st.tuples(contents, contents, timestamps), min_size=1, max_size=6)


def expected(
    data: bytes, pos: int, most: int, magic: int, base_timestamp: int | None, append_time: int | None
) -> tuple[list[Record], int, int, int, int | None]:
    """One by one: the records, the position after them, newest timestamp, last offset, and the base timestamp."""
    found: list[Record] = []
    newest = last = -1
    scan = MessageScan(data, pos)
    with suppress(CorruptBatch):
        for offset, its_magic, attributes, own, key, value in scan:
            timestamp = own if append_time is None else append_time
            if len(found) == most or its_magic != magic or attributes & 7:
                break
            base = timestamp if base_timestamp is None else base_timestamp
            if timestamp < -1 or timestamp - base > LARGEST:
                break
            base_timestamp = base
            found.append(Record(key, value, (), timestamp, len(found)))
            newest, last = max(newest, timestamp), offset
            pos = scan.at + PREFIX_SIZE + int.from_bytes(data[scan.at + 8 : scan.at + 12], "big")
    return found, pos, newest, last, base_timestamp


def check(
    data: bytes, magic: int, *, pos: int = 0, most: int = 9, base: int | None = NOW, append: int | None = None
) -> int:
    parts: list[bytes | bytearray] = []
    run = frame_messages(data, pos, most, magic, 0, base, append, parts)
    records, end, newest, last, base = expected(data, pos, most, magic, base, append)
    assert run == (end, len(records), newest, last, base)
    if records:
        assert base is not None
        batch = encode_framed(0, len(records), parts, base, max_timestamp=newest)
        assert decode_records(batch) == records
    else:
        assert not parts
    return run.size


def messages(drawn: list[tuple[bytes | None, bytes | None, int]], magic: int) -> bytes:
    return encode_message_set(
        [Record(key, value, (), time if magic else -1, at) for at, (key, value, time) in enumerate(drawn, 5)], magic
    )


def with_right_crcs(data: bytearray) -> bytearray:
    """As far as the sizes lead."""
    pos = 0
    while pos + 16 <= len(data):
        end = pos + PREFIX_SIZE + int.from_bytes(data[pos + 8 : pos + 12], "big", signed=True)
        if not pos + 16 <= end <= len(data):
            break
        data[pos + 12 : pos + 16] = zlib.crc32(data[pos + 16 : end]).to_bytes(4, "big")
        pos = end
    return data


@pytest.mark.parametrize("magic", [0, 1])
@settings(deadline=None, max_examples=examples(40))
@given(drawn=rows, most=st.integers(1, 7), base=st.none() | timestamps, append=st.none() | timestamps)
def test_right_messages(
    magic: int, drawn: list[tuple[bytes | None, bytes | None, int]], most: int, base: int | None, append: int | None
) -> None:
    base = None if base is None else max(-1, base)
    check(messages(drawn, magic), magic, most=most, base=base, append=append if magic else None)


@pytest.mark.parametrize("magic", [0, 1])
@settings(deadline=None, max_examples=examples(75))
@given(data=st.data())
def test_what_is_wrong_is_left(magic: int, data: st.DataObject) -> None:
    whole = bytearray(messages(data.draw(rows), magic))
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, min(len(whole) - 1, data.draw(st.sampled_from([40, 10_000])))))
        whole[at] = data.draw(st.sampled_from([0, 1, 2, 8, 0x7F, 0x80, 0xFF]))
    if data.draw(st.booleans()):
        whole = with_right_crcs(whole)
    del whole[data.draw(st.integers(0, len(whole))) :]
    check(bytes(whole), magic)


def test_from_anywhere_and_at_any_delta() -> None:
    data = messages([(b"k", b"v", NOW)] * 3, 1)
    size = len(data) // 3
    assert check(data, 1, pos=size) == 2
    parts: list[bytes | bytearray] = []
    for delta in (63, 64, 1023, 1024, 8191, 8192):
        parts.clear()
        frame_messages(data, size, 1, 1, delta, NOW, None, parts)
        (record,) = decode_records(encode_framed(0, 1, parts, NOW))
        assert record == Record(b"k", b"v", (), NOW, delta)


def test_a_wrapper_and_another_magic_are_left() -> None:
    plain = messages([(b"k", b"v", NOW)], 1)
    wrapped = encode_message_set([Record(b"k", b"v", (), NOW, 0)], 1, compression=Compression.GZIP)
    assert check(plain + wrapped, 1) == 1
    assert check(plain + messages([(b"k", b"v", -1)], 0), 1) == 1
    assert check(wrapped, 1) == 0
