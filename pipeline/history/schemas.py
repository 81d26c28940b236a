"""The columns of what can be read, as Spark and as Arrow have them.

All times are milliseconds since the epoch, -1 where there is none, as in Kafka's own formats: any 64 bits can stand
there, which no timestamp type of Spark takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

OFFSETS: Final = "offsets"
"""Records of `__consumer_offsets` that are offsets or their tombstones; of transactions those that were committed."""
HISTORY: Final = "history"
"""Commits in `__offset_shim_history`, one row for each offset."""
SEGMENTS: Final = "segments"
"""Segment files, and what of them cannot be read."""

_PLACE: Final = {"log_partition": "int", "log_offset": "bigint"}

COLUMNS: Final[Mapping[str, Mapping[str, str]]] = {
    OFFSETS: {
        "group": "string",
        "topic": "string",
        "partition": "int",
        "offset": "bigint",
        "leader_epoch": "int",
        "metadata": "string",
        "commit_timestamp": "bigint",
        "expire_timestamp": "bigint",
        **_PLACE,
        "record_timestamp": "bigint",
        "effective_timestamp": "bigint",
        "is_tombstone": "boolean",
    },
    HISTORY: {
        "group": "string",
        "topic": "string",
        "partition": "int",
        "offset": "bigint",
        "leader_epoch": "int",
        "metadata": "string",
        "commit_timestamp": "bigint",
        "time": "bigint",
        "generation_id": "int",
        "member_id": "string",
        "group_instance_id": "string",
        "client_id": "string",
        "client_host": "string",
        "principal": "string",
        **_PLACE,
        "log_row": "int",
        "record_timestamp": "bigint",
    },
    SEGMENTS: {
        "topic": "string",
        "log_partition": "int",
        "path": "string",
        "size": "bigint",
        "batches": "bigint",
        "next_offset": "bigint",
        "torn_at": "bigint",
        "damaged_at": "bigint",
        "reason": "string",
    },
}
"""By what is read: the columns, in their order, with Spark's type. Offset, metadata and the rest of a tombstone's value
are null. ``effective_timestamp``: of an offset in a transaction that of the marker that committed it, else the
record's. ``log_row``: a record of the history has many offsets, in this order."""

_ARROW: Final = {"string": pa.string(), "int": pa.int32(), "bigint": pa.int64(), "boolean": pa.bool_()}


def arrow_schema(what: str, names: tuple[str, ...]) -> pa.Schema:
    return pa.schema([(name, _ARROW[COLUMNS[what][name]]) for name in names])


def column(what: str, name: str, values: Sequence[Any]) -> pa.Array:
    """Plain values, None for null, in the column's type."""
    return pa.array(values, _ARROW[COLUMNS[what][name]])


def ddl(what: str, names: tuple[str, ...]) -> str:
    """For Spark; names are quoted, as some of them are words of SQL."""
    return ", ".join(f"`{name}` {COLUMNS[what][name]}" for name in names)
