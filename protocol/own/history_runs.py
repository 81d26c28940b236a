"""The records of `__offset_shim_history` of plain commits, whose offsets are rows: one for all of a topic.

Few rows are in it as they were in the request. Of many each place in a row is a column, and a column that has the same
byte in all rows is left out: of a hundred offsets a quarter of the bytes remains, and what a commit of that size costs
is mostly its bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from protocol.commit_rows import OFFSET_AT, ROW_SIZE, CommitRows
from protocol.generated import varint
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.own.history_log import (
    ALWAYS_A_COLUMN,
    COLUMNS_HISTORY,
    COLUMNS_VALUE,
    ROWS_HISTORY,
    ROWS_KEY,
    ROWS_VALUE,
    VALUE_HEAD,
    ColumnsHistoryValue,
    RowsHistoryKey,
    RowsHistoryValue,
    Who,
)
from protocol.records.varints import zigzag

# From so many rows on, columns take less to write than rows, by far. Who reads takes either.
_MANY: Final = 20

_INT16: Final = Struct(">h")
_UINT16: Final = Struct(">H")
_TIME: Final = Struct(">q")
_NO_TAGS: Final = b"\x00"
_NO_HEADERS: Final = b"\x00"
_PLAIN_REST: Final = b"\x01" + _NO_TAGS  # of a row: no metadata
# Places in a row.
_LARGE_OFFSET: Final = slice(OFFSET_AT, OFFSET_AT + 5)
_SMALL_OFFSET: Final = slice(OFFSET_AT + 5, OFFSET_AT + 8)
_EPOCH: Final = slice(OFFSET_AT + 8, ROW_SIZE)
_SMALL: Final = ALWAYS_A_COLUMN | 0b111 << OFFSET_AT + 5
_SIZE_OF_NO_ROWS: Final = {ROWS_HISTORY: 1, COLUMNS_HISTORY: _UINT16.size + 1}
"""Bytes in a value of that type: the length, and of columns which of them vary."""
_KEPT: Final = 1024
_SIZES_KEPT: Final = 4 * _KEPT
_MOST_ALIKE: Final = 4096
"""Of more rows the columns are looked at one by one: what is kept to compare them with would be large."""


class _Around(NamedTuple):
    """Of a record what is the same in each of that size: up to the time, from there to the rows, and behind them."""

    before_time: bytes
    before_rows: bytes
    after: bytes


Commit: TypeAlias = tuple[OffsetCommitRequest, str, CommitRows, int, tuple[str, str, str] | None]
"""Of a plain commit what it has for one topic: the request, the topic's name, its rows, the time (milliseconds since
the epoch); and client id, host and principal of who commits, which have to be there for a record."""


def history_of(commits: Iterable[bytes | Commit]) -> list[bytes]:
    """The record of each of them, as :func:`history_run` gives it; what is one already stays as it is."""
    runs: list[bytes] = []
    add, join = runs.append, b"".join
    last, packed = 0, _TIME.pack(0)
    for commit in commits:
        if isinstance(commit, bytes):
            add(commit)
            continue
        request, topic, rows, time, caller = commit
        if time != last:  # of many that are written together it is the same
            last, packed = time, _TIME.pack(time)
        known = rows.known
        if known is None:
            add(history_run(request.group_id, topic, rows, time, _who(request, caller)))
            continue
        around = known.history
        if around is None or around[0] != caller:
            who = _who(request, caller)
            before_time, before_rows, after = _around_rows(request.group_id, topic, who, 1)
            around = (who.client_id, who.client_host, who.principal), before_time, before_rows, _PLAIN_REST + after
            known.history = around
        add(join((around[1], packed, around[2], rows.raw, around[3])))
    return runs


def _who(request: OffsetCommitRequest, caller: tuple[str, str, str] | None) -> Who:
    if caller is None:
        raise ValueError("a record of nobody's commit")
    generation_id, member_id, instance_id = request[1:4]
    return Who(generation_id, member_id, instance_id, *caller)


def history_run(group: str, topic: str, rows: CommitRows, time: int, who: Who) -> bytes:
    """The record (of type 1 or 2) of these offsets, without metadata, taken and committed at that time: as a batch has
    it, from behind its offset delta on.

    Raises EncodeError. The names are to be short, as those of plain commits are: they are kept.
    """
    count = rows.size
    if count < _MANY:
        before_time, before_rows, after = _around_rows(group, topic, who, count)
        return b"".join((before_time, _TIME.pack(time), before_rows, _raw(rows), after))
    varying, columns = _columns(rows)
    size = ROW_SIZE + len(columns) * count
    before_time, before_rows, after = _around_columns(group, topic, who, varying, size)
    return b"".join((before_time, _TIME.pack(time), before_rows, rows.raw[:ROW_SIZE], *columns, after))


def _raw(rows: CommitRows) -> bytes:
    """A :class:`HistoryRow` for each."""
    raw, stride = rows.raw, rows.stride
    if stride == ROW_SIZE or raw[ROW_SIZE] > _PLAIN_REST[0]:
        # Older versions have no tags, and another length of no metadata behind a row, or nothing.
        return b"".join([raw[at : at + ROW_SIZE] + _PLAIN_REST for at in range(0, len(raw), stride)])
    return raw


def _columns(rows: CommitRows) -> tuple[int, list[bytes]]:
    """Which vary, and those: see :class:`ColumnsHistoryValue`."""
    columns, count = rows.columns, rows.size
    if _are_small(rows):
        return _SMALL, [columns[OFFSET_AT - 1], *columns[_SMALL_OFFSET]]
    varying, its = ALWAYS_A_COLUMN, []
    for place, column in enumerate(columns):
        bit = 1 << place
        if bit == ALWAYS_A_COLUMN or column != column[:1] * count:
            varying |= bit
            its.append(column)
    return varying, its


def _are_small(rows: CommitRows) -> bool:
    """Whether nothing varies but the lowest byte of the partitions and the three lower ones of the offsets: seen for
    all others at once, which is cheaper than one by one."""
    if rows.size > _MOST_ALIKE or rows.lowest >> 8 != rows.highest >> 8:
        return False
    others = rows.columns[_LARGE_OFFSET] + rows.columns[_EPOCH]
    return others == _repeated(rows.raw[_LARGE_OFFSET] + rows.raw[_EPOCH], rows.size)


@lru_cache(128)
def _repeated(each: bytes, times: int) -> list[bytes]:
    return [bytes((byte,)) * times for byte in each]


@lru_cache(_SIZES_KEPT)
def _around_rows(group: str, topic: str, who: Who, count: int) -> _Around:
    return _around(ROWS_HISTORY, group, topic, who, varint(count + 1), count * (ROW_SIZE + len(_PLAIN_REST)))


@lru_cache(_SIZES_KEPT)
def _around_columns(group: str, topic: str, who: Who, varying: int, size: int) -> _Around:
    return _around(COLUMNS_HISTORY, group, topic, who, _UINT16.pack(varying) + varint(size + 1), size)


def _around(kind: int, group: str, topic: str, who: Who, head: bytes, size: int) -> _Around:
    """Of a record with rows of so many bytes, and this before them."""
    names, before_head, after = _without_rows(kind, group, topic, who)
    value_size = len(before_head) + len(head) + size + len(after)
    return _Around(names, b"".join((_NO_TAGS, zigzag(value_size), before_head, head)), after + _NO_HEADERS)


@lru_cache(_KEPT)
def _without_rows(kind: int, group: str, topic: str, who: Who) -> _Around:
    """The key up to its time, with its length, and of the value what is before the rows, and how many these are, and
    behind them."""
    key = ROWS_KEY.encode(RowsHistoryKey(group, topic, 0), _INT16.pack(kind))
    of_who, of_nobody = (_value_without_rows(kind, each) for each in (who, who._replace(principal="")))
    rows_end = len(of_nobody) - len(_NO_TAGS)
    return _Around(
        zigzag(len(key)) + key[: -_TIME.size - len(_NO_TAGS)],
        of_who[: rows_end - _SIZE_OF_NO_ROWS[kind]],
        of_who[rows_end:],
    )


def _value_without_rows(kind: int, who: Who) -> bytes:
    if kind == ROWS_HISTORY:
        return ROWS_VALUE.encode(RowsHistoryValue(*who[:-1], (), who.principal), VALUE_HEAD)
    return COLUMNS_VALUE.encode(ColumnsHistoryValue(*who[:-1], 0, b"", who.principal), VALUE_HEAD)
