"""The records of `__offset_shim_history` of plain commits, whose offsets are rows: one for all of a topic.

Few rows are in it as they were in the request. Of many each place in a row is a column, and a column that has the same
byte in all rows is left out: of a hundred offsets a quarter of the bytes remains, and what a commit of that size costs
is mostly its bytes.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import Final

from protocol.commit_rows import OFFSET_AT, ROW_SIZE, CommitRows
from protocol.generated import varint
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
_MOST_ALIKE: Final = 4096
"""Of more rows the columns are looked at one by one: what is kept to compare them with would be large."""


def history_run(group: str, topic: str, rows: CommitRows, time: int, who: Who) -> bytes:
    """The record (of type 1 or 2) of these offsets, without metadata, taken and committed at that time: as a batch has
    it, from behind its offset delta on.

    Raises EncodeError. The names are to be short, as those of plain commits are: they are kept.
    """
    kind, raw = (ROWS_HISTORY, _in_rows(rows)) if rows.size < _MANY else (COLUMNS_HISTORY, _in_columns(rows))
    names, before_rows, after_rows = _around_time_and_rows(kind, group, topic, who)
    value = b"".join((before_rows, raw, after_rows))
    return b"".join((names, _TIME.pack(time), _NO_TAGS, zigzag(len(value)), value, _NO_HEADERS))


def _in_rows(rows: CommitRows) -> bytes:
    """How many there are, and a :class:`HistoryRow` for each."""
    raw, stride = rows.raw, rows.stride
    if stride == ROW_SIZE or raw[ROW_SIZE] > _PLAIN_REST[0]:
        # Older versions have no tags, and another length of no metadata behind a row, or nothing.
        raw = b"".join([raw[at : at + ROW_SIZE] + _PLAIN_REST for at in range(0, len(raw), stride)])
    return varint(rows.size + 1) + raw


def _in_columns(rows: CommitRows) -> bytes:
    """What of a :class:`ColumnsHistoryValue` is other in each record."""
    columns, count = rows.columns, rows.size
    if _are_small(rows):
        varying, its = _SMALL, [columns[OFFSET_AT - 1], *columns[_SMALL_OFFSET]]
    else:
        varying, its = ALWAYS_A_COLUMN, []
        for place, column in enumerate(columns):
            bit = 1 << place
            if bit == ALWAYS_A_COLUMN or column != column[:1] * count:
                varying |= bit
                its.append(column)
    return b"".join((_before_columns(varying, ROW_SIZE + len(its) * count), rows.raw[:ROW_SIZE], *its))


@lru_cache(_KEPT)
def _before_columns(varying: int, size: int) -> bytes:
    return _UINT16.pack(varying) + varint(size + 1)


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


@lru_cache(_KEPT)
def _around_time_and_rows(kind: int, group: str, topic: str, who: Who) -> tuple[bytes, bytes, bytes]:
    """Of a record the key up to its time, with its length, and of the value what is before the rows and behind them."""
    key = ROWS_KEY.encode(RowsHistoryKey(group, topic, 0), _INT16.pack(kind))
    value, of_nobody = (_without_rows(kind, each) for each in (who, who._replace(principal="")))
    rows_end = len(of_nobody) - len(_NO_TAGS)
    return (
        zigzag(len(key)) + key[: -_TIME.size - len(_NO_TAGS)],
        value[: rows_end - _SIZE_OF_NO_ROWS[kind]],
        value[rows_end:],
    )


def _without_rows(kind: int, who: Who) -> bytes:
    if kind == ROWS_HISTORY:
        return ROWS_VALUE.encode(RowsHistoryValue(*who[:-1], (), who.principal), VALUE_HEAD)
    return COLUMNS_VALUE.encode(ColumnsHistoryValue(*who[:-1], 0, b"", who.principal), VALUE_HEAD)
