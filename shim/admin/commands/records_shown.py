"""Records of the log as JSON, and as a line of text."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from protocol.errors import DecodeError
from protocol.offsets_log import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    UnknownKey,
    decode_key,
    decode_value,
)
from protocol.own.history_log import (
    COMMITTED,
    HISTORY_TOPIC,
    NOT_TOLD,
    HistoryRecord,
    OffsetHistoryValue,
    decode_history,
)
from protocol.own.record_sets import InTransaction
from protocol.partition import OFFSETS_TOPIC
from protocol.records.batches import Record
from protocol.topic_partition import TopicPartition
from protocol.wire import ZERO_UUID
from shim.admin.at_rest.walk import Located
from shim.log.segments.segment import SoundBatch
from shim.log.segments.transactions import transaction_of
from shim.terminal.showing import shown
from shim.terminal.times import time_shown


class Logged(NamedTuple):
    """A record, and where it is. ``told``: what it says, or a part of that, if it is of the history and can be read."""

    partition: TopicPartition
    located: Located
    record: Record
    told: HistoryRecord | None = None


def as_json(logged: Logged) -> dict[str, Any]:
    """Every field of key and value by its name in Kafka's own definitions; bytes, and what is not known, in base64."""
    (topic, number), (path, batch), record, _ = logged
    ended = end_of_transaction(batch)
    key, value = _decoded(logged) if ended is None else (_marker(ended), None)
    of_producer = {"producer_id": batch.header.producer_id, "producer_epoch": batch.header.producer_epoch}
    return {
        "topic": topic,
        "partition": number,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "segment": path.name,
        "position": batch.position,
        **(of_producer if batch.header.is_transactional else {}),
        "key": key,
        "value": value,
    }


def as_text(logged: Logged) -> str:
    """One line. Strings are in double quotes, with JSON's escapes. Of the history, who committed what, and when."""
    (topic, number), (path, batch), record, told = logged
    if told is not None:
        return _history_as_text(told)
    place = f"{topic}-{number} offset {record.offset} {time_shown(record.timestamp)} {path.name}@{batch.position}"
    header = batch.header
    if header.is_transactional:
        place += f" producer_id={header.producer_id} producer_epoch={header.producer_epoch}"
    if (ended := end_of_transaction(batch)) is not None:
        return f"{place} {_fields(_marker(ended))}"
    key, value = _decoded(logged)
    what = "tombstone" if value is None else _fields(value)
    return f"{place} {_fields(key)} -> {what}"


def _marker(ended: InTransaction) -> dict[str, Any]:
    return {"end_of_transaction": "COMMIT" if ended.committed else "ABORT"}


def end_of_transaction(batch: SoundBatch) -> InTransaction | None:
    """What a control batch says; None for every other."""
    return transaction_of(batch) if batch.header.is_control else None


def _history_as_text(remembered: HistoryRecord) -> str:
    key, value = remembered
    fields = {**_plain_fields(key), **_plain_fields(value)}
    if value.commit_timestamp == key.time:
        del fields["commit_timestamp"]
    if not value.principal:
        del fields["principal"]
    return f"{time_shown(fields.pop('time'))} {_fields(fields)}"


def key_of(logged: Logged) -> object:
    """The decoded key; the raw one where it cannot be decoded, or is of a topic whose keys are not known here."""
    return logged.told[0] if logged.told is not None else decoded_key(logged.partition.topic, logged.record)


def decoded_key(topic: str, record: Record) -> object:
    """Likewise, but not of the history."""
    if record.key is None or topic != OFFSETS_TOPIC:
        return record.key
    try:
        return decode_key(record.key)
    except DecodeError:
        return record.key


def read_as(partition: TopicPartition, located: Located, record: Record) -> Iterator[Logged]:
    """The record; of the history, where one may be of many offsets, once for each."""
    told: Sequence[HistoryRecord | None] | None = None
    if partition.topic == HISTORY_TOPIC:
        with suppress(DecodeError):
            told = decode_history(record.key or b"", record.value)
    for each in told or (None,):
        yield Logged(partition, located, record, each)


def _decoded(logged: Logged) -> tuple[dict[str, Any], dict[str, Any] | None]:
    record = logged.record
    if logged.told is not None:
        assert record.key is not None
        assert record.value is not None
        committed, by = map(_plain_fields, logged.told)
        return {"type": _int16(record.key), **committed}, {"version": _int16(record.value), **by}
    key = key_of(logged)
    if isinstance(key, OffsetCommitKey | GroupMetadataKey):
        assert record.key is not None
        return {"type": _int16(record.key), **_plain_fields(key)}, _value(key, record.value)
    raw_value = None if record.value is None else {"raw": _base64(record.value)}
    if isinstance(key, UnknownKey):
        return {"type": key.version, "raw": _base64(key.raw)}, raw_value
    return {"raw": _base64(record.key or b"")}, raw_value


def _value(key: OffsetCommitKey | GroupMetadataKey, raw: bytes | None) -> dict[str, Any] | None:
    if raw is None:
        return None
    try:
        value = decode_value(key, raw)
    except DecodeError:
        return {"raw": _base64(raw)}
    assert isinstance(value, OffsetCommitValue | GroupMetadataValue)
    return {"version": _int16(raw), **_plain_fields(value)}


def _plain_fields(value: tuple[Any, ...]) -> dict[str, Any]:
    fields: dict[str, Any] = value._asdict()  # type: ignore[attr-defined]
    if isinstance(value, OffsetHistoryValue) and value.replaced == NOT_TOLD:
        del fields["cause"], fields["replaced"]
    if isinstance(value, OffsetHistoryValue) and value.deleted == COMMITTED:
        del fields["deleted"]
    if fields.get("topic_id") == ZERO_UUID:
        del fields["topic_id"]
    return {name: _plain(field) for name, field in fields.items() if name != "tagged" or field}


def _plain(field: object) -> object:
    if isinstance(field, bytes):
        return _base64(field)
    if isinstance(field, tuple):
        return _plain_fields(field) if hasattr(field, "_asdict") else [_plain(each) for each in field]
    return field


def _fields(fields: dict[str, Any]) -> str:
    return " ".join(f"{name}={_text(name, field)}" for name, field in fields.items())


def _text(name: str, field: object) -> str:
    if isinstance(field, int) and name.endswith("timestamp"):
        return time_shown(field)
    return shown(json.dumps(field, ensure_ascii=False))


def _int16(raw: bytes) -> int:
    return int.from_bytes(raw[:2], "big", signed=True)


def _base64(raw: bytes) -> str:
    return b64encode(raw).decode("ascii")
