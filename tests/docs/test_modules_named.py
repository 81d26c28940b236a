"""The modules and folders that the documentation of the code names are there, and so is what it says is in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = ("docs/architecture.md", "docs/contributing.md")
MADE: Final = ("build/site",)
"""By what the pages tell of."""

_NAMED: Final = re.compile(r"`((?:[\w.-]+/)*[\w-]+\.py|(?:[\w.-]+/)+|(?:[\w.-]+/)+[\w-]+)(?:: ([\w.]+))?`")
_ROW: Final = re.compile(r"\| ((?:`[\w/.]+`(?:, )?)+) \|")


def not_there(text: str) -> Iterator[str]:
    """What of the names in ``text`` is not; each is from the root or from ``shim/`` on, or in the room that its row of
    a table is about, or in the folder of the one before it in its line."""
    for line in text.splitlines():
        row = _ROW.match(line)
        near = [ROOT / room for room in re.findall(r"`([^`]+)`", row[1])] if row else []
        for path, name in _NAMED.findall(line):
            found = _found(path.rstrip("/"), near)
            if found is None:
                yield path
                continue
            if not row:
                near = [found.parent]
            if name and not all(re.search(rf"\b{part}\b", found.read_text()) for part in name.split(".")):
                yield f"{path}: {name}"


def _found(path: str, near: list[Path]) -> Path | None:
    for folder in (ROOT, ROOT / "shim", *near):
        if (folder / path).exists():
            return folder / path
    inside = (each for folder in near for each in folder.rglob(Path(path).name))
    return next((each for each in inside if str(each).endswith(f"/{path}")), None)


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_names_is_there(page: str) -> None:
    text = (ROOT / page).read_text()
    assert _NAMED.search(text)
    assert [name for name in not_there(text) if name not in MADE] == []


def test_what_is_not_there_is_found() -> None:
    text = "| `shim/log/` | (`journal.py`, `gone.py`) |\nin `log/journal.py: Journal.gone`, `flush.py`, `no/folder/`"
    assert list(not_there(text)) == ["gone.py", "log/journal.py: Journal.gone", "no/folder/"]
