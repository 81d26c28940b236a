"""Settings in a TOML file, each with the line where it stands."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from shim.config.addresses import SettingError

_PLACE: Final = re.compile(r"^(.*) \(at line (\d+), column \d+\)$", re.DOTALL)


class Line(NamedTuple):
    """``number``: where in the file the statement begins, from 1 on."""

    number: int
    name: str
    value: object


def read_toml(path: Path) -> list[Line]:
    """What the file says, in its order. Raises :class:`SettingError` where it cannot be read."""
    try:
        text = path.read_text("utf-8")
        tomllib.loads(text)
    except OSError as error:
        raise SettingError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingError(f"{path}: not UTF-8, at byte {error.start}") from error
    except tomllib.TOMLDecodeError as error:
        raise SettingError(_told(path, str(error))) from error
    return list(_lines(text))


def _told(path: Path, why: str) -> str:
    # max.connections = 1 and max.connections.per.ip = 2 are a number and a table of the same name to TOML.
    quotes = '; write names in quotes: "max.connections" = 100' if "overwrite" in why else ""
    found = _PLACE.match(why)
    return f"{path}:{found[2]}: {found[1]}{quotes}" if found else f"{path}: {why}{quotes}"


def _lines(text: str) -> Iterator[Line]:
    """Of a text that is TOML. It is read again a statement at a time, as the parser does not say where a value was: a
    statement is whole as soon as its lines are TOML, under the table's name that stands above them.
    """
    table = ""
    statement: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        statement.append(line)
        is_table = line.lstrip().startswith("[") and len(statement) == 1
        lines = "\n".join(statement)
        try:
            read = tomllib.loads(lines if is_table else f"{table}\n{lines}")
        except tomllib.TOMLDecodeError:
            continue  # it goes on in the next line
        if is_table:
            table = line
        for name, value in _flatten(read):
            yield Line(number + 1 - len(statement), name, value)
        statement = []


def _flatten(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """TOML reads ``a.b = 1`` as nested tables: put the dotted names together again."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
