"""Rows out of records of `__consumer_offsets`: offsets and tombstones of offsets, nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.history.columns import Bools, Buffer, Ints, Strings
from pipeline.history.framing import Framed
from pipeline.history.schemas import OFFSETS, column
from protocol.errors import DecodeError
from protocol.offsets_log import NO_TIMESTAMP, OffsetCommitKey, OffsetCommitValue, decode_key, decode_value

_NEWEST_OFFSET_KEY: Final = 1
_NEWEST_VALUE: Final = 4
_WITH_LEADER_EPOCH: Final = 3
_WITH_EXPIRY: Final = 1
_FLEXIBLE: Final = 4


class Rows(NamedTuple):
    """Columns by name, and of each row the index of its batch (-1: none)."""

    columns: Mapping[str, pa.Array]
    batch: Ints


def offset_rows(framed: Framed, names: Sequence[str], groups: pa.Array | None) -> Rows:
    """The columns of these names; with ``groups``, of these alone. Raises DecodeError."""
    kind = np.where(framed.key.size >= 2, framed.buffer.int16(framed.key.at), -1)
    short = np.flatnonzero(framed.key.size < 2)
    if short.size:
        _refuse(framed.chosen(short[:1]))
    chosen = framed.chosen((kind >= 0) & (kind <= _NEWEST_OFFSET_KEY))
    return _at_once(chosen, names, groups) or _one_by_one(chosen, names, groups)


def _refuse(framed: Framed) -> None:
    key, _ = next(framed.keys_and_values())
    if key is None:
        raise DecodeError(f"the record at offset {framed.offset[0]} has no key", 0, "key")
    decode_key(key)


# --- as columns ------------------------------------------------------------------------------------------------------


def _at_once(framed: Framed, names: Sequence[str], groups: pa.Array | None) -> Rows | None:
    """None when a record is not as it should be, and for text that is not UTF-8."""
    buffer, key, value = framed.buffer, framed.key, framed.value
    key_end = key.at + key.size
    group = _classic(buffer, key.at + 2)
    topic = _classic(buffer, group.at + group.size)
    partition_at = topic.at + topic.size
    right = (group.size >= 0) & (topic.size >= 0) & (partition_at + 4 == key_end)
    right &= buffer.holds(group, key_end) & buffer.holds(topic, key_end)
    if not right.all():
        return None
    group_names = buffer.text(group)
    if group_names is None:
        return None
    if groups is not None:
        wanted = pc.is_in(group_names, groups)
        rows = np.flatnonzero(wanted)
        framed, topic, partition_at = framed.chosen(rows), topic.chosen(rows), partition_at[rows]
        group_names, value = group_names.filter(wanted), framed.value
    fields = _values(buffer, value)
    if fields is None:
        return None
    tombstone = value.size < 0
    made: dict[str, Callable[[], pa.Array | None]] = {
        "group": lambda: group_names,
        "topic": lambda: buffer.text(topic),
        "partition": lambda: pa.array(buffer.int32(partition_at).astype(np.int32)),
        "offset": lambda: pa.array(fields.offset, mask=tombstone),
        "leader_epoch": lambda: pa.array(fields.leader_epoch.astype(np.int32), mask=tombstone),
        "metadata": lambda: buffer.text(fields.metadata),
        "commit_timestamp": lambda: pa.array(fields.commit_timestamp, mask=tombstone),
        "expire_timestamp": lambda: pa.array(fields.expire_timestamp, mask=tombstone),
        "log_offset": lambda: pa.array(framed.offset),
        "record_timestamp": lambda: pa.array(framed.timestamp),
        "effective_timestamp": lambda: pa.array(framed.timestamp),
        "is_tombstone": lambda: pa.array(tombstone),
    }
    columns = {name: made[name]() for name in names}
    return None if any(column is None for column in columns.values()) else Rows(columns, framed.batch)


class _Values(NamedTuple):
    """Of a tombstone there is something or other, but its metadata is null."""

    offset: Ints
    leader_epoch: Ints
    metadata: Strings
    commit_timestamp: Ints
    expire_timestamp: Ints


def _values(buffer: Buffer, value: Strings) -> _Values | None:
    tombstone: Bools = value.size < 0
    # Of a null nothing is read: it is taken to be a value of version 3 with nothing in it.
    version = np.where(tombstone, _WITH_LEADER_EPOCH, buffer.int16(value.at))
    has_epoch = version >= _WITH_LEADER_EPOCH
    length_at = value.at + np.where(has_epoch, 14, 10)
    metadata = _classic(buffer, length_at)
    if (flexible := version >= _FLEXIBLE).any():
        compact, _ = buffer.compact(length_at)
        metadata = Strings(*(np.where(flexible, new, old) for new, old in zip(compact, metadata, strict=True)))
    size = np.maximum(metadata.size, 0)
    behind = metadata.at + size
    has_expiry = version == _WITH_EXPIRY
    end = behind + np.where(has_expiry, 16, np.where(flexible, 9, 8))
    right = (version >= 0) & (version <= _NEWEST_VALUE) & (metadata.size >= 0) & (end <= value.at + value.size)
    right &= buffer.holds(metadata, value.at + value.size)
    if not (right | tombstone).all():
        return None
    return _Values(
        buffer.int64(value.at + 2),
        np.where(has_epoch, buffer.int32(value.at + 10), -1),
        Strings(metadata.at, np.where(tombstone, -1, metadata.size)),
        buffer.int64(behind),
        np.where(has_expiry, buffer.int64(behind + 8), NO_TIMESTAMP),
    )


def _classic(buffer: Buffer, at: Ints) -> Strings:
    """Strings with an int16 before them."""
    return Strings(at + 2, buffer.int16(at))


# --- one by one ------------------------------------------------------------------------------------------------------


def _one_by_one(framed: Framed, names: Sequence[str], groups: pa.Array | None) -> Rows:
    """What the general decoder says. Text that is not UTF-8 is told in replacement characters, as Java does."""
    wanted = None if groups is None else set(groups.to_pylist())
    rows: list[dict[str, Any]] = []
    batch: list[int] = []
    places = zip(framed.offset.tolist(), framed.timestamp.tolist(), framed.batch.tolist(), strict=True)
    for (raw_key, raw_value), (log_offset, timestamp, index) in zip(framed.keys_and_values(), places, strict=True):
        assert raw_key is not None, "those without are refused before"
        try:
            key = decode_key(raw_key)
            value = decode_value(key, raw_value)
        except DecodeError as error:
            raise DecodeError(f"the record at offset {log_offset} cannot be decoded: {error}", 0, "record") from None
        assert isinstance(key, OffsetCommitKey)
        if wanted is not None and key.group not in wanted:
            continue
        fields: dict[str, Any] = {}
        if isinstance(value, OffsetCommitValue):
            fields = value._asdict()
            fields["metadata"] = value.metadata.encode(errors="surrogateescape").decode(errors="replace")
        times = {"record_timestamp": timestamp, "effective_timestamp": timestamp}
        place = {"log_offset": log_offset, **times, "is_tombstone": value is None}
        rows.append({**key._asdict(), **fields, **place})
        batch.append(index)
    columns = {name: column(OFFSETS, name, [row.get(name) for row in rows]) for name in names}
    return Rows(columns, np.array(batch, np.int64))
