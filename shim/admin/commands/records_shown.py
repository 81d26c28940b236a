"""Records of the log as JSON, and as a line of text."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from datetime import UTC, datetime
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
from protocol.own.history_log import HISTORY_TOPIC, OFFSET_HISTORY, HistoryRecord, decode_history, encode_history
from protocol.records.batches import Record
from protocol.wire import ZERO_UUID
from shim.admin.at_rest.walk import Located
from shim.admin.commands.console import shown
from shim.log import OFFSETS_TOPIC, InTransaction
from shim.log.checkpoint import TopicPartition
from shim.log.segment import SoundBatch
from shim.log.transactions import transaction_of


class Logged(NamedTuple):
    """A record, and where it is."""

    partition: TopicPartition
    located: Located
    record: Record


def as_json(logged: Logged) -> dict[str, Any]:
    """Every field of key and value by its name in Kafka's own definitions; bytes, and what is not known, in base64."""
    (topic, number), (path, batch), record = logged
    ended = end_of_transaction(batch)
    key, value = _decoded(topic, record) if ended is None else (_marker(ended), None)
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
    (topic, number), (path, batch), record = logged
    if topic == HISTORY_TOPIC and (remembered := history_of(record)) is not None:
        return _history_as_text(remembered)
    place = f"{topic}-{number} offset {record.offset} {time_shown(record.timestamp)} {path.name}@{batch.position}"
    header = batch.header
    if header.is_transactional:
        place += f" producer_id={header.producer_id} producer_epoch={header.producer_epoch}"
    if (ended := end_of_transaction(batch)) is not None:
        return f"{place} {_fields(_marker(ended))}"
    key, value = _decoded(topic, record)
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


def time_shown(timestamp_ms: int) -> str:
    """In UTC; ``-`` for none, the bare number for one that is in no year."""
    if timestamp_ms == -1:
        return "-"
    try:
        at = datetime.fromtimestamp(timestamp_ms // 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{timestamp_ms % 1000:03d}Z"


def key_of(topic: str, record: Record) -> object:
    """The decoded key; the raw one where it cannot be decoded, or is of a topic whose keys are not known here."""
    if topic == HISTORY_TOPIC and (remembered := history_of(record)) is not None:
        return remembered[0]
    if record.key is None or topic != OFFSETS_TOPIC:
        return record.key
    try:
        return decode_key(record.key)
    except DecodeError:
        return record.key


def history_of(record: Record) -> HistoryRecord | None:
    """What one of the :func:`parts_of` a record of `__offset_shim_history` says; None where that cannot be decoded, or
    is not known here."""
    told = _history_in(record)
    return told[0] if told is not None and len(told) == 1 else None


def parts_of(topic: str, record: Record) -> Sequence[Record]:
    """In the history, where one record may say of the offsets of many partitions, one for each; else the record."""
    told = _history_in(record) if topic == HISTORY_TOPIC else None
    if told is None or _int16(record.key or b"") == OFFSET_HISTORY:
        return (record,)
    return [record._replace(key=key, value=value) for key, value in map(encode_history, told)]


def _history_in(record: Record) -> list[HistoryRecord] | None:
    try:
        return decode_history(record.key or b"", record.value)
    except DecodeError:
        return None


def _decoded(topic: str, record: Record) -> tuple[dict[str, Any], dict[str, Any] | None]:
    if topic == HISTORY_TOPIC and (remembered := history_of(record)) is not None:
        assert record.key is not None
        assert record.value is not None
        committed, by = map(_plain_fields, remembered)
        return {"type": _int16(record.key), **committed}, {"version": _int16(record.value), **by}
    key = key_of(topic, record)
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
