"""Offsets in a file, for `groups reset`: Kafka's CSV, and the Parquet of `offset-pipeline history state`."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from shim.admin.commands.console import Refused
from shim.admin.live.shown.documents import Row
from shim.terminal.showing import shown

_PARQUET_MAGIC: Final = b"PAR1"
_COLUMNS: Final = ("group", "topic", "partition", "offset")
_INT64_MAX: Final = 2**63 - 1


def offsets_in(path: Path, group: str) -> list[Row]:
    """``{"topic", "partition", "offset"}`` of each partition of the group. Raises Refused, and OSError."""
    with path.open("rb") as file:
        is_parquet = file.read(len(_PARQUET_MAGIC)) == _PARQUET_MAGIC
    found: dict[tuple[str, int], _Placed] = {}
    for each in _of_parquet(path, group) if is_parquet else _of_csv(path, group):
        at = (each.row["topic"], each.row["partition"])
        if (before := found.setdefault(at, each)) is not each:
            raise Refused(f"{path}: {shown(at[0])}-{at[1]} is there twice, in {before.place} and in {each.place}")
    if not found:
        raise Refused(f"{path} has no offset of group {shown(group)}")
    return [each.row for each in found.values()]


class _Placed(NamedTuple):
    """``place``: where in the file, in words."""

    row: Row
    place: str


def _of_csv(path: Path, group: str) -> list[_Placed]:
    """Lines of topic, partition and offset, or with the group in front; without a heading."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:  # Excel begins a file with a byte order mark
            reader = csv.reader(file)
            lines = [(f"line {reader.line_num}", line) for line in reader if line]
    except UnicodeDecodeError:
        raise Refused(f"{path} is not UTF-8: neither Kafka's CSV nor Parquet") from None
    except csv.Error as error:
        raise Refused(f"{path} is neither Kafka's CSV nor Parquet: {error}") from None
    found = []
    for place, line in lines:
        if len(line) not in (3, 4):
            raise Refused(f"{path}, {place}: topic,partition,offset, or group,topic,partition,offset")
        if len(line) == 4 and line[0] != group:
            continue
        found.append(_Placed(_row(line[-3:], f"{path}, {place}"), place))
    return found


def _of_parquet(path: Path, group: str) -> list[_Placed]:
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
    return [_Placed(_row(each, str(path)), f"row {number} of the group") for number, each in enumerate(columns, 1)]


def _row(values: Sequence[Any], where: str) -> Row:
    topic, partition, offset = values
    try:
        row = {"topic": topic.strip(), "partition": int(partition), "offset": int(offset)}
    except (ValueError, TypeError, AttributeError):
        raise Refused(f"{where}: partition and offset are not numbers") from None
    if row["partition"] < 0 or not 0 <= row["offset"] <= _INT64_MAX:
        raise Refused(f"{where}: partition and offset are not numbers from 0 on")
    return row
