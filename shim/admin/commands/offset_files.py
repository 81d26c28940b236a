"""Offsets in a file, for `groups reset`: Kafka's CSV, and the Parquet of `offset-pipeline history state`."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from shim.admin.commands.console import Refused, shown
from shim.admin.live.shown.documents import Row

_PARQUET_MAGIC: Final = b"PAR1"
_COLUMNS: Final = ("group", "topic", "partition", "offset")
_INT64_MAX: Final = 2**63 - 1


def offsets_in(path: Path, group: str) -> list[Row]:
    """``{"topic", "partition", "offset"}`` of each partition of the group. Raises Refused, and OSError."""
    with path.open("rb") as file:
        is_parquet = file.read(len(_PARQUET_MAGIC)) == _PARQUET_MAGIC
    found = _of_parquet(path, group) if is_parquet else _of_csv(path, group)
    rows = {(row["topic"], row["partition"]): row for row in found}
    if not rows:
        raise Refused(f"{path} has no offset of group {shown(group)}")
    return list(rows.values())


def _of_csv(path: Path, group: str) -> list[Row]:
    """Lines of topic, partition and offset, or with the group in front; without a heading."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            lines = [line for line in csv.reader(file) if line]
    except UnicodeDecodeError:
        raise Refused(f"{path} is not UTF-8: neither Kafka's CSV nor Parquet") from None
    found = []
    for number, line in enumerate(lines, 1):
        if len(line) not in (3, 4):
            raise Refused(f"{path}, line {number}: topic,partition,offset, or group,topic,partition,offset")
        if len(line) == 4 and line[0] != group:
            continue
        found.append(_row(line[-3:], f"{path}, line {number}"))
    return found


def _of_parquet(path: Path, group: str) -> list[Row]:
    try:
        from pyarrow import ArrowException, parquet  # an extra: `pip install '.[pipeline]'` brings it
    except ImportError:
        raise Refused(f"{path} is Parquet, which pyarrow reads: it is not installed (the extra `pipeline`)") from None
    try:
        table: Any = parquet.read_table(path, columns=list(_COLUMNS), filters=[("group", "=", group)])
    except (ArrowException, ValueError, LookupError) as error:
        raise Refused(f"{path}: {' '.join(str(error).split())}") from error
    missing = set(_COLUMNS) - set(table.column_names)
    if missing:
        raise Refused(f"{path} has no column {min(missing)}: {', '.join(_COLUMNS)} are needed")
    columns: Iterable[Sequence[Any]] = zip(*(table[name].to_pylist() for name in _COLUMNS[1:]), strict=True)
    return [_row(each, str(path)) for each in columns]


def _row(values: Sequence[Any], where: str) -> Row:
    topic, partition, offset = values
    try:
        row = {"topic": topic.strip(), "partition": int(partition), "offset": int(offset)}
    except (ValueError, TypeError, AttributeError):
        raise Refused(f"{where}: partition and offset are not numbers") from None
    if row["partition"] < 0 or not 0 <= row["offset"] <= _INT64_MAX:
        raise Refused(f"{where}: partition and offset are not numbers from 0 on")
    return row
