"""Which texts tell people what to type."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.docs.collecting import commands_of_comments, commands_of_page

ROOT: Final = Path(__file__).parents[2]
TRYING: Final = ROOT / "docs" / "trying.md"
PAGES: Final = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
COMMENTED: Final = tuple(
    path for path in sorted((ROOT / "deploy").rglob("*")) if path.suffix in {".service", ".toml", ".yaml", ".yml"}
)


def documented() -> dict[str, list[str]]:
    """All commands, each with the files that it is in."""
    found: dict[str, list[str]] = {}
    for paths, commands_of in ((PAGES, commands_of_page), (COMMENTED, commands_of_comments)):
        for path in paths:
            for command in commands_of(path.read_text()):
                found.setdefault(command, []).append(str(path.relative_to(ROOT)))
    return found
