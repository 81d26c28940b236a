"""Settings in a TOML file, each with the line where it stands."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from shim.config.addresses import SettingError

_PLACE: Final = re.compile(r"^(.*) \(at (?:line (\d+), column (\d+)|end of document)\)$", re.DOTALL)

_OVERWRITES: Final = "Cannot overwrite a value"
"""What the parser says of a name that is given twice, and of one that is the beginning of another one."""


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
        raise SettingError(_told(path, text, str(error))) from error
    return list(_lines(text))


def _told(path: Path, text: str, why: str) -> str:
    found = _PLACE.match(why)
    if found is None:
        return f"{path}: {why}"
    number = int(found[2]) if found[2] else text.count("\n") + 1
    if not found[1].startswith(_OVERWRITES):
        column = f", column {found[3]}" if found[3] else ", at the end of the file"
        return f"{path}:{number}: {found[1]}{column}"
    said = [line for line in _lines(text) if line.number <= number]
    first = {line.name: line.number for line in reversed(said)}
    for line in said:
        if line.number == said[-1].number != first[line.name]:
            return f"{path}:{line.number}: {line.name} is given twice, first in line {first[line.name]}"
    # max.connections = 1 and max.connections.per.ip = 2 are a number and a table of the same name to TOML.
    return f'{path}:{number}: {found[1]}; write names in quotes: "max.connections" = 100'


def _lines(text: str) -> Iterator[Line]:
    """Of a text that is TOML, but that a name may be there twice. It is read again a statement at a time, as the parser
    does not say where a value was: a statement is whole as soon as its lines are TOML, under the table's name that
    stands above them.
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
