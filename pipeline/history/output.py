"""What a job found: as a table, as JSON, as a file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click
import pyarrow as pa
from pyarrow import csv, parquet

from pipeline.console import print_json, print_table
from pipeline.errors import NotDone
from shim.terminal.showing import shown
from shim.terminal.times import time_shown

TIMES: Final = frozenset(
    {"time", "begin", "since", "last_commit", "time_before", "commit_timestamp", "expire_timestamp"}
)
"""Columns that are milliseconds since the epoch; in a table they are shown as times."""

_UNFINISHED: Final = ".unfinished"


def rows_of(table: pa.Table) -> Iterator[dict[str, Any]]:
    for batch in table.to_batches():
        yield from batch.to_pylist()


def show(table: pa.Table, groups: Sequence[str]) -> None:
    """A line a row; ``-`` for what there is not. ``groups``: those that were asked for."""
    if not table.num_rows:
        of = f" of {', '.join(map(shown, groups))}" if groups else ""
        click.echo(f"nothing{of} is there that was asked for", err=True)
        return
    names = table.column_names
    rows = [[_cell(name, row[name]) for name in names] for row in rows_of(table)]
    print_table([name.upper().replace("_", " ") for name in names], rows)


def show_json(table: pa.Table, extra: Mapping[str, object]) -> None:
    print_json({**extra, "rows": list(rows_of(table))})


def _cell(name: str, value: Any) -> str | int:
    if name in TIMES:
        return time_shown(value)
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, int) else shown(f"{value}")


def check_target(path: Path) -> None:
    """Raises NotDone for a file of a kind that is not known, or in a folder that is not there."""
    if path.suffix not in _WRITERS:
        raise NotDone(f"{path}: expected a name that ends in {', '.join(_WRITERS)}")
    if not path.absolute().parent.is_dir():
        raise NotDone(f"{path.parent} is no folder")


def write(table: pa.Table, path: Path) -> None:
    """In the format that the name's end says. The file gets its name once it is whole and on the disk; what was there
    before stays until then. Raises NotDone, OSError."""
    check_target(path)
    unfinished = path.with_name(path.name + _UNFINISHED)
    try:
        _WRITERS[path.suffix](table, unfinished)
        fd = os.open(unfinished, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def _write_json(table: pa.Table, path: Path) -> None:
    """An object a line."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(_lines(rows_of(table)))


def _lines(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for row in rows:
        yield f"{json.dumps(row)}\n"


def _write_parquet(table: pa.Table, path: Path) -> None:
    parquet.write_table(table, path)


def _write_csv(table: pa.Table, path: Path) -> None:
    csv.write_csv(table, path)


_WRITERS: Final[Mapping[str, Callable[[pa.Table, Path], None]]] = {
    ".parquet": _write_parquet,
    ".csv": _write_csv,
    ".json": _write_json,
}
