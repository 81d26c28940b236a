"""Batches of records that are alike, or nearly, for tests that read them by columns."""

from __future__ import annotations

from random import Random

from protocol.records.batches import BatchHeader, Compression, Record, encode_records, read_header, rewrite_batch

NOW = 1_767_225_600_123
LOG_APPEND_TIME, DELETE_HORIZON = 0x08, 0x40
_KEYS = [None, b"", b"k" * 8, b"group" * 6, b"k" * 63, b"k" * 64, b"k" * 200]
_VALUES = [None, b"", b"v", b"offset" * 4, b"v" * 63, b"v" * 64, b"v" * 1000]
_HEADERS = (("h", b"1"), ("i", None))
_LENGTHS = [1, 2, 4, 5, 8, 30, 64, 100, 300]


def batch_in_rows(seed: int, base_offset: int = 1000, *, names: int = 1 << 30) -> tuple[BatchHeader, bytes]:
    """A batch of a few rows; some of its records taken out, a delete horizon, a codec, or what no row has, now and
    then. Keys have one of so many ``names`` at the end, where they have room for that."""
    rng = Random(seed)
    records: list[Record] = []
    offset = base_offset
    for _ in range(rng.choice([1, 1, 2, 3])):
        key, value = rng.choice(_KEYS), rng.choice(_VALUES)
        for _ in range(rng.choice(_LENGTHS)):
            if rng.random() < 0.002:
                key = rng.choice(_KEYS)
            headers = _HEADERS if rng.random() < 0.001 else ()
            named = key if key is None else key[:-4] + rng.randrange(names).to_bytes(4, "big")[-len(key[-4:]) or 4 :]
            records.append(Record(named, value, headers, NOW, offset))
            offset += 1
    if rng.random() < 0.1:
        records = [record._replace(timestamp=NOW + rng.choice([0, 70])) for record in records]
    codec = Compression.GZIP if rng.random() < 0.05 else Compression.NONE
    append_time = NOW + 5 if rng.random() < 0.05 else None
    raw = encode_records(records, compression=codec, log_append_time=append_time, leader_epoch=rng.choice([0, 3]))
    header = read_header(raw)
    share = rng.choice([1.0, 1.0, 0.9, 0.3])
    kept = [record for record in records if rng.random() < share] or records
    if rng.random() < 0.2:
        header = header._replace(attributes=header.attributes | DELETE_HORIZON, base_timestamp=NOW + 86_400_000)
    raw = rewrite_batch(header, kept)
    return read_header(raw), raw
