"""Rows out of records of `__offset_shim_history`: one for each offset of each commit. Deletions, which are there, too,
are none: the offsets log says what is in force."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.history.columns import Bools, Buffer, Ints, Strings
from pipeline.history.framing import Framed
from pipeline.history.offset_rows import Rows
from pipeline.history.schemas import HISTORY, column
from protocol.commit_rows import OFFSET_AT, REST_SIZE, ROW_SIZE
from protocol.errors import DecodeError
from protocol.own.history_log import (
    COLUMNS_HISTORY,
    COMMITTED,
    OFFSET_HISTORY,
    ROWS_HISTORY,
    decode_history,
    rows_of_columns,
)

_WHO: Final = ("member_id", "group_instance_id", "client_id", "client_host")
_NULLABLE: Final = ("group_instance_id",)
_EPOCH_BEHIND_OFFSET: Final = ROW_SIZE - 2 * OFFSET_AT
_STRIDE: Final = ROW_SIZE + REST_SIZE
_MOST_BYTES: Final = 64 << 20
"""Of names in one piece of the rows: a record has each once, and may have many rows."""
_MOST_ROWS: Final = 8192
_MOST_AT_ONCE: Final = 1 << 17
"""Rows in one piece, of records that are columns: a window may have as many of them as bytes."""


def history_rows(framed: Framed, names: Sequence[str], groups: pa.Array | None) -> Iterator[Rows]:
    """The columns of these names; with ``groups``, of these alone. Records of a later version of the shim, which
    cannot be read, are left out. Raises DecodeError."""
    wanted = None if groups is None else frozenset(groups.to_pylist())
    at_once = _at_once(framed, names, wanted)
    if at_once is not None:
        return at_once
    for _ in _decoded(framed):
        pass  # what cannot be decoded is told now, and not when half of the rows are given
    return _one_by_one(framed, names, wanted)


# --- as columns ------------------------------------------------------------------------------------------------------


class _Heads(NamedTuple):
    """What each record says once. ``stride``: from one of its offsets to the next, 0 where there is one; places are
    those of the first. ``in_columns``: whether these are in ``turned``, which has row by row what the record has column
    by column."""

    stride: Ints
    in_columns: Bools
    turned: Buffer
    group: Strings
    topic: Strings
    time: Ints
    offset_at: Ints
    rows: Ints
    metadata: Strings
    commit_timestamp: Ints
    generation_id: Ints
    names: Mapping[str, Strings]
    partition_at: Ints


def _at_once(framed: Framed, names: Sequence[str], groups: frozenset[str] | None) -> Iterator[Rows] | None:
    """None when a record is not as it should be, is of another version, or has metadata beside other offsets."""
    buffer = framed.buffer
    heads = _heads(buffer, framed.key, framed.value)
    if heads is None:
        return None
    count = heads.rows
    record = np.repeat(np.arange(len(count)), count)
    nth = np.arange(len(record)) - np.repeat(np.cumsum(count) - count, count)
    if not _are_plain(buffer, heads, record, nth):
        return None
    strings = {"group": heads.group, "topic": heads.topic, "metadata": heads.metadata, **heads.names}
    texts: dict[str, pa.StringArray] = {}
    for name in strings:
        if name in names or name == "group":
            text = buffer.text(strings[name])
            if text is None:
                return None
            texts[name] = text
    if groups is not None:
        of_group = np.array([name in groups for name in texts["group"].to_pylist()], np.bool_)[record]
        record, nth = record[of_group], nth[of_group]
    widest = sum(int(strings[name].size.max(initial=0)) for name in texts)
    most = max(1, min(_MOST_AT_ONCE, _MOST_BYTES // (widest + 1)))
    return _slices(framed, heads, texts, record, nth, names, most)


def _slices(
    framed: Framed,
    heads: _Heads,
    texts: Mapping[str, pa.Array],
    record: Ints,
    nth: Ints,
    names: Sequence[str],
    most: int,
) -> Iterator[Rows]:
    for first in range(0, len(record), most):
        its, at = record[first : first + most], nth[first : first + most]
        columns = {name: texts[name].take(pa.array(its)) for name in names if name in texts}
        made = _numbers(framed, heads, its, at)
        columns.update({name: pa.array(make()) for name, make in made.items() if name in names})
        yield Rows({name: columns[name] for name in names}, framed.batch[its])


def _numbers(framed: Framed, heads: _Heads, record: Ints, nth: Ints) -> Mapping[str, Callable[[], npt.NDArray[Any]]]:
    shift = heads.stride[record] * nth
    partition_at, offset_at = heads.partition_at[record] + shift, heads.offset_at[record] + shift
    in_columns = np.flatnonzero(heads.in_columns[record])

    def field(read: Callable[[Buffer, Ints], Ints], at: Ints) -> Ints:
        numbers = read(framed.buffer, at)
        if in_columns.size:
            numbers[in_columns] = read(heads.turned, at[in_columns])
        return numbers

    return {
        "partition": lambda: field(Buffer.int32, partition_at).astype(np.int32),
        "offset": lambda: field(Buffer.int64, offset_at),
        "leader_epoch": lambda: field(Buffer.int32, offset_at + _EPOCH_BEHIND_OFFSET).astype(np.int32),
        "commit_timestamp": lambda: heads.commit_timestamp[record],
        "time": lambda: heads.time[record],
        "generation_id": lambda: heads.generation_id[record].astype(np.int32),
        "log_offset": lambda: framed.offset[record],
        "log_row": lambda: nth.astype(np.int32),
        "record_timestamp": lambda: framed.timestamp[record],
    }


def _are_plain(buffer: Buffer, heads: _Heads, record: Ints, nth: Ints) -> bool:
    """Whether the rows behind one another have neither metadata nor tagged fields."""
    by_rows = heads.stride[record] == _STRIDE
    rest = heads.offset_at[record] - OFFSET_AT + nth * _STRIDE + ROW_SIZE
    return not (by_rows & ((buffer.byte(rest) > 1) | (buffer.byte(rest + 1) != 0))).any()


def _heads(buffer: Buffer, key: Strings, value: Strings) -> _Heads | None:
    kind = buffer.int16(key.at)
    by_rows, in_columns = kind == ROWS_HISTORY, kind == COLUMNS_HISTORY
    many = by_rows | in_columns
    known = (key.size >= 2) & (value.size >= 2) & (many | (kind == OFFSET_HISTORY)) & (buffer.int16(value.at) == 0)
    if not known.all():
        return None
    key_end, end = key.at + key.size, value.at + value.size
    group, pos = buffer.compact(key.at + 2)
    topic, pos = buffer.compact(pos)
    time_at = np.where(many, pos, pos + 4)
    right = (group.size >= 0) & (topic.size >= 0) & (time_at + 9 == key_end) & (buffer.byte(time_at + 8) == 0)
    right &= buffer.holds(group, key_end) & buffer.holds(topic, key_end)

    metadata, behind = buffer.compact(value.at + 14)
    metadata = Strings(np.where(many, value.at, metadata.at), np.where(many, 0, metadata.size))
    right &= (metadata.size >= 0) & buffer.holds(metadata, end)
    generation_at = np.where(many, value.at + 2, behind + 8)
    names = {}
    at = generation_at + 4
    for field in _WHO:
        names[field], at = buffer.compact(at)
        right &= buffer.holds(names[field], end) & ((names[field].size >= 0) | (field in _NULLABLE))
    size_plus_1, rows_at = buffer.varint(np.where(in_columns, at + 2, at))
    size = size_plus_1 - 1
    right &= ~many | (size >= 0) & (size <= np.where(by_rows, (end - rows_at) // _STRIDE, end - rows_at))
    if not right.all():
        return None
    principal, stop = _principal(buffer, np.where(many, rows_at + np.where(by_rows, size * _STRIDE, size), at))
    if not ((stop == end) & buffer.holds(principal, end) & (principal.size >= 0)).all():
        return None
    names["principal"] = principal
    turned = _turned(buffer, at[in_columns], rows_at[in_columns], size[in_columns])
    if turned is None:
        return None
    row_at, count = rows_at.copy(), np.where(by_rows, size, 1)
    sizes = np.array([len(each) for each in turned], np.int64)
    row_at[in_columns], count[in_columns] = np.cumsum(sizes) - sizes, sizes // ROW_SIZE
    time = buffer.int64(time_at)
    return _Heads(
        np.where(by_rows, _STRIDE, np.where(in_columns, ROW_SIZE, 0)), in_columns, Buffer(turned), group, topic, time,
        np.where(many, row_at + OFFSET_AT, value.at + 2), count, metadata,
        np.where(many, time, buffer.int64(behind)), buffer.int32(generation_at), names,
        np.where(many, row_at, pos),
    )  # fmt: skip


def _turned(buffer: Buffer, varying_at: Ints, at: Ints, size: Ints) -> list[bytes] | None:
    """Of each record its rows; None where one's columns are not as they should be."""
    varying = buffer.uint16(varying_at).tolist()
    ends = (at + size).tolist()
    try:
        return [
            rows_of_columns(bits, buffer.raw[start:end])
            for bits, start, end in zip(varying, at.tolist(), ends, strict=True)
        ]
    except DecodeError:
        return None


def _principal(buffer: Buffer, at: Ints) -> tuple[Strings, Ints]:
    """Tagged fields: none, or the one with tag 0. Of anything else the end is one that is nowhere right."""
    none, one = buffer.byte(at) == 0, (buffer.byte(at) == 1) & (buffer.byte(at + 1) == 0)
    size, start = buffer.varint(at + 2)
    name, end = buffer.compact(start)
    end = np.where(none, at + 1, np.where(one & (end - start == size), end, -1))
    return Strings(np.where(none, at, name.at), np.where(none, 0, name.size)), end


# --- one by one ------------------------------------------------------------------------------------------------------


def _one_by_one(framed: Framed, names: Sequence[str], groups: frozenset[str] | None) -> Iterator[Rows]:
    """What the general decoder says. Metadata that is not UTF-8 is told in replacement characters, as Java does."""
    rows: list[dict[str, Any]] = []
    for row in _decoded(framed):
        if groups is None or row["group"] in groups:
            rows.append(row)
        if len(rows) == _MOST_ROWS:
            yield _rows_of(rows, names)
            rows = []
    yield _rows_of(rows, names)


def _decoded(framed: Framed) -> Iterator[dict[str, Any]]:
    places = zip(framed.offset.tolist(), framed.timestamp.tolist(), framed.batch.tolist(), strict=True)
    for (raw_key, raw_value), (log_offset, timestamp, index) in zip(framed.keys_and_values(), places, strict=True):
        if raw_key is None:
            raise DecodeError(f"the record at offset {log_offset} has no key", 0, "key")
        try:
            told = decode_history(raw_key, raw_value)
        except DecodeError as error:
            raise DecodeError(f"the record at offset {log_offset} cannot be decoded: {error}", 0, "record") from None
        for nth, (key, value) in enumerate(told or ()):
            if value.deleted != COMMITTED:
                continue
            metadata = value.metadata.encode(errors="surrogateescape").decode(errors="replace")
            place = {"log_offset": log_offset, "log_row": nth, "record_timestamp": timestamp, "batch": index}
            yield {**key._asdict(), **value._asdict(), "metadata": metadata, **place}


def _rows_of(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Rows:
    columns = {name: column(HISTORY, name, [row[name] for row in rows]) for name in names}
    return Rows(columns, np.array([row["batch"] for row in rows], np.int64))
