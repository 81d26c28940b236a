"""The modules and folders that the documentation of the code names are there, and so is what it says is in them; and of
some rooms it names each module. So are the modules that docstrings of modules name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = ("docs/architecture.md", "docs/request-paths.md", "docs/contributing.md")
MADE: Final = ("build/site",)
"""By what the pages tell of."""
WHOLE_ROOMS: Final = (
    "shim/log",
    "shim/runtime",
    "shim/disk_log",
    "shim/kafka_log",
    "shim/forwarding",
    "shim/migration",
    "shim/admin/live",
)
"""Of which the first page names each module."""

_NAMED: Final = re.compile(r"`((?:[\w.-]+/)*[\w-]+\.py|(?:[\w.-]+/)+|(?:[\w.-]+/)+[\w-]+)(?:: ([\w.]+))?`")
ROOMS: Final = ("compat", "pipeline", "protocol", "shim")

_IN_DOCSTRING: Final = re.compile(r"(?<![\w.*/])(?:\w+/)*\w+\.py\b")
_ROW: Final = re.compile(r"\| ((?:`[\w/.]+`(?:, )?)+) \|")


def named(text: str) -> Iterator[tuple[str, str, Path | None]]:
    """The names in ``text``: of a module or folder, of what is in it ("" for the whole), and where that is. Each is
    from the root or from ``shim/`` on, or in the room that its row of a table is about, or in the folder of the one
    before it in its line."""
    for line in text.splitlines():
        row = _ROW.match(line)
        near = [ROOT / room for room in re.findall(r"`([^`]+)`", row[1])] if row else []
        for path, name in _NAMED.findall(line):
            found = _found(path.rstrip("/"), near)
            if found is not None and not row:
                near = [found.parent]
            yield path, name, found


def not_there(text: str) -> Iterator[str]:
    """What of the names in ``text`` is not."""
    for path, name, found in named(text):
        if found is None:
            yield path
        elif name and not all(re.search(rf"\b{part}\b", found.read_text()) for part in name.split(".")):
            yield f"{path}: {name}"


def not_named(room: str, text: str) -> list[str]:
    """The modules of a room that ``text`` does not name."""
    there = {found for _, _, found in named(text)}
    modules = sorted((ROOT / room).rglob("*.py"))
    return [str(each.relative_to(ROOT)) for each in modules if each not in there and each.name != "__init__.py"]


def _found(path: str, near: list[Path]) -> Path | None:
    for folder in (ROOT, ROOT / "shim", *near):
        if (folder / path).exists():
            return folder / path
    inside = (each for folder in near for each in folder.rglob(Path(path).name))
    return next((each for each in inside if str(each).endswith(f"/{path}")), None)


def not_there_from(module: Path, docstring: str) -> list[str]:
    """What of the modules that the docstring of ``module`` names is not. Each is from the root, from ``shim/`` or from
    a folder on, in which the module is, too: so a name alone is of the same room, or of one around it."""
    folders = (ROOT, ROOT / "shim", *(each for each in module.parents if ROOT in each.parents))
    return [
        name for name in _IN_DOCSTRING.findall(docstring) if not any((folder / name).is_file() for folder in folders)
    ]


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_names_is_there(page: str) -> None:
    text = (ROOT / page).read_text()
    assert _NAMED.search(text)
    assert [name for name in not_there(text) if name not in MADE] == []


def test_what_is_not_there_is_found() -> None:
    text = "| `shim/log/` | (`flush.py`, `gone.py`) |\nin `log/flush.py: Flush.gone`, `errors.py`, `no/folder/`"
    assert list(not_there(text)) == ["gone.py", "log/flush.py: Flush.gone", "no/folder/"]


@pytest.mark.parametrize("room", WHOLE_ROOMS)
def test_each_module_is_named(room: str) -> None:
    assert not_named(room, (ROOT / PAGES[0]).read_text()) == []


def test_what_is_not_named_is_found() -> None:
    """The names of one room are none of another's."""
    text = "| `shim/runtime/` | (`replaying.py`) |\n| `shim/kafka_log/` | (`sequence.py`, `flights.py`) |"
    missing = not_named("shim/kafka_log", text)
    assert "shim/kafka_log/copies/replaying.py" in missing
    there = {"producing/sequence.py", "writing/flights.py", "owning/__init__.py"}
    assert not {f"shim/kafka_log/{each}" for each in there} & {*missing}


@pytest.mark.parametrize("room", ROOMS)
def test_what_docstrings_of_modules_name_is_there(room: str) -> None:
    missing = {
        str(module.relative_to(ROOT)): names
        for module in sorted((ROOT / room).rglob("*.py"))
        if (names := not_there_from(module, ast.get_docstring(ast.parse(module.read_text())) or ""))
    }
    assert missing == {}


def test_a_name_alone_is_none_of_another_room() -> None:
    named_there = "flush.py, ends.py, partition/ends.py, log/partition/ends.py, shim/log/partition/ends.py"
    assert not_there_from(ROOT / "shim/log/cleaner/cleaning.py", named_there) == ["ends.py"]
