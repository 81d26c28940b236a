"""Which keys a batch deletes, found without making its records: the same as where they are made."""

from __future__ import annotations

import random

import pytest
from hypothesis import given

from protocol.records.batches import (
    BatchError,
    Compression,
    Record,
    encode_records,
    read_header,
    records_of,
    tombstones,
)
from tests.protocol.test_batches import HOSTILE_RECORDS, NOW, brief, rising_records, with_body, with_crc


def made(records: list[Record]) -> list[Record]:
    return [each for each in records if each.key is not None and each.value is None and not each.headers]


@pytest.mark.parametrize("codec", Compression)
@brief
@given(records=rising_records())
def test_they_are_those_of_its_records(codec: Compression, records: list[Record]) -> None:
    raw = encode_records(records, compression=codec)
    assert tombstones(raw, 0, read_header(raw)) == made(records)


def test_what_ends_as_they_do() -> None:
    values = [b"\x01", b"\x01\x00", b"", b"\x00", b"v\x01\x00\x01", None]
    records = [Record(b"k", value, (), NOW, offset) for offset, value in enumerate(values)]
    records.append(Record(None, None, (), NOW, len(records)))
    records.append(Record(b"k", None, (("h", b"\x01\x00"),), NOW, len(records)))
    raw = b"before" + encode_records(records) + b"behind"
    assert tombstones(raw, len(b"before"), read_header(raw, len(b"before"))) == records[5:6]


LENGTHS = {
    "negative record length",
    "record longer than the batch",
    "varint of six bytes",
    "varint beyond 32 bits",
    "bytes after the records",
}


@pytest.mark.parametrize("name", sorted(LENGTHS))
def test_records_of_impossible_lengths(name: str) -> None:
    raw = with_body(HOSTILE_RECORDS[name])
    with pytest.raises(BatchError):
        tombstones(raw, 0, read_header(raw))


def test_of_damaged_ones_nothing_else_is_found_and_nothing_else_raised() -> None:
    rng = random.Random(20261126)
    records = [Record(b"k%d" % number, (b"v", None)[number % 2], (), NOW, number) for number in range(4)]
    batch = encode_records(records)
    found = refused = 0
    for _ in range(20_000):
        damaged = bytearray(batch)
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(len(damaged))] = rng.choice((0, 1, 2, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        raw = bytes(with_crc(damaged))
        try:
            header = read_header(raw)
            its = tombstones(raw, 0, header)
        except BatchError:
            refused += 1
            continue
        try:
            records = records_of(raw, 0, header, 1 << 20)
        except BatchError:
            continue
        found += 1
        assert its == made(records)
    assert found > 1_000
    assert refused > 1_000
