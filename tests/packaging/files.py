"""The files that the shim is installed with, read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

ROOT: Final = Path(__file__).parents[2]
DEPLOY: Final = ROOT / "deploy"


class Instruction(NamedTuple):
    """Of a Dockerfile; ``stage``: the number of its FROM, from 0 on; ``text``: in one line."""

    stage: int
    word: str
    text: str


def dockerfile(name: str = "Dockerfile") -> list[Instruction]:
    lines = [line for line in (ROOT / name).read_text().splitlines() if line.strip() and not line.startswith("#")]
    stage, found = -1, []
    for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines():
        word, _, text = line.partition(" ")
        stage += word == "FROM"
        found.append(Instruction(stage, word, text.strip()))
    return found


def image_environment() -> dict[str, str]:
    """What the image of the shim sets."""
    texts = [each.text for each in dockerfile() if each.word == "ENV"]
    return dict(part.partition("=")[::2] for text in texts for part in text.split())


def yaml_documents(path: Path) -> list[Any]:
    """Skips the test where there is no PyYAML."""
    return list(pytest.importorskip("yaml").safe_load_all(path.read_text()))


def compose() -> Any:
    (document,) = yaml_documents(ROOT / "docker-compose.yml")
    return document


def unit_lines(path: Path) -> Iterator[tuple[str, str, str]]:
    """Section, name and value of each line of a systemd unit."""
    section = ""
    for line in path.read_text().splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            name, equals, value = line.partition("=")
            assert equals, line
            yield section, name, value
