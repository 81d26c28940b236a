"""Logs of any shape, written byte by byte; and what plain decoding says is in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from pipeline.history.reading import Question, read_segment
from pipeline.history.schemas import COLUMNS, HISTORY, OFFSETS
from pipeline.history.segments import OFFSETS_TOPIC, STATE_TOPIC, Wanted, segments_in
from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue, decode_key, decode_value, encode_key, encode_value
from protocol.own.history_log import HISTORY_TOPIC, decode_history
from protocol.records.batches import Record, encode_batch

TIME: Final = 1_700_000_000_000
Row = dict[str, Any]
Pair = tuple[bytes | None, bytes | None]


def segment(folder: Path, base: int, *batches: bytes, topic: str = OFFSETS_TOPIC, partition: int = 0) -> Path:
    path = folder / f"{topic}-{partition}" / f"{base:020d}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(batches))
    return path


def make_ours(folder: Path, partitions: int) -> None:
    """As a data directory of the shim's looks from outside."""
    for topic in (OFFSETS_TOPIC, HISTORY_TOPIC, STATE_TOPIC):
        for partition in range(partitions):
            (folder / f"{topic}-{partition}").mkdir(parents=True, exist_ok=True)


def commit(group: str, topic: str, partition: int, offset: int | None, **fields: Any) -> Pair:
    """Without an offset, its tombstone."""
    key = encode_key(OffsetCommitKey(group, topic, partition))
    if offset is None:
        return key, None
    return key, encode_value(OffsetCommitValue(offset, **{"commit_timestamp": TIME, **fields}))


def batch(base: int, *records: Pair, time: int = TIME, **fields: Any) -> bytes:
    return encode_batch(base, records, time, **fields)


def read(
    *folders: Path, what: str = OFFSETS, names: Sequence[str] = (), wanted: Wanted | None = None, skip: bool = False
) -> list[Row]:
    """By the data source's own reading, without Spark: all segments, in order."""
    topic = HISTORY_TOPIC if what == HISTORY else OFFSETS_TOPIC
    wanted = wanted or Wanted()
    question = Question(what, tuple(names or COLUMNS[what]), wanted.groups, skip)
    rows: list[Row] = []
    for each in segments_in([str(folder) for folder in folders], topic, wanted):
        for given in read_segment(each, question):
            given.validate(full=True)
            rows += pa.Table.from_batches([given]).to_pylist()
    return rows


def plain_offset(record: Record) -> Row | None:
    """What the general decoder says of it; None for a record that is of no offset."""
    assert record.key is not None
    key = decode_key(record.key)
    if not isinstance(key, OffsetCommitKey):
        return None
    value = decode_value(key, record.value)
    fields: Row = dict.fromkeys(("offset", "leader_epoch", "metadata", "commit_timestamp", "expire_timestamp"))
    if isinstance(value, OffsetCommitValue):
        fields = {name: getattr(value, name) for name in fields}
        fields["metadata"] = value.metadata.encode(errors="surrogateescape").decode(errors="replace")
    return {
        **key._asdict(),
        **fields,
        "log_partition": 0,
        "log_offset": record.offset,
        "record_timestamp": record.timestamp,
        "effective_timestamp": record.timestamp,
        "is_tombstone": value is None,
    }


def plain_history(records: Iterable[Record]) -> list[Row]:
    rows = []
    for record in records:
        assert record.key is not None
        for nth, (key, value) in enumerate(decode_history(record.key, record.value) or ()):
            fields = {**key._asdict(), **value._asdict(), "log_row": nth}
            fields["metadata"] = value.metadata.encode(errors="surrogateescape").decode(errors="replace")
            place = {
                "log_partition": 0,
                "log_offset": record.offset,
                "record_timestamp": record.timestamp,
            }
            rows.append({name: {**fields, **place}[name] for name in COLUMNS[HISTORY]})
    return rows
