"""docs/migration.md: the commands of the runbook do what it says, and what it quotes is what the shim says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.migration.test_steps import STEPS, Group, connect, group

__all__ = ["connect", "group"]

ROOT = Path(__file__).parents[2]
RUNBOOK = (ROOT / "docs" / "migration.md").read_text()
_COMMAND = re.compile(r"^\| (\d|back) \| `offset-shim migrate (\w+)( GROUP)?`", re.MULTILINE)
_QUOTED = re.compile(r"`([^`]*)`")
_LEFT_OUT = re.compile(r"…|in zookeeper|in upstream|upstream\+dual|\bN\b|\bID\b|TOPIC-P|CLIENT|HOST|\b11\b|\b99\b")


def test_the_commands(group: Group) -> None:
    """From the first to the last, and then back as often as it goes."""
    commands = [(number, move, bool(named)) for number, move, named in _COMMAND.findall(RUNBOOK)]
    assert [number for number, _, _ in commands] == ["1", "2", "3", "4", "6", "7", "back"]
    steps = []
    for number, move, named in commands[:-1]:
        for _ in range(2 if number == "7" else 1):
            done = group.at.migrate(move, *([group.name] if named else []))
            assert done.status == 0, (number, done)
        if number != "1":
            steps.append(group.step())
    assert steps == [STEPS[1], STEPS[1], STEPS[2], STEPS[3], STEPS[5]]
    for step in reversed(STEPS[:-1]):
        assert group.at.migrate(commands[-1][1], group.name).status == 0
        assert group.step() == step
    assert group.through_shim() == [10, 11, 12]


def _refusals() -> list[str]:
    table = RUNBOOK.partition("## What a refusal means")[2].partition("\n## ")[0]
    return [
        quoted for row in table.splitlines() if row.startswith("| `") for quoted in _QUOTED.findall(row.split(" | ")[0])
    ]


@pytest.mark.parametrize("refusal", _refusals())
def test_what_it_quotes(refusal: str) -> None:
    """In pieces, as what stands between them is another each time."""
    rooms = ("shim/migration", "shim/offsets", "shim/admin", "protocol")
    modules = (path for room in rooms for path in (ROOT / room).rglob("*.py"))
    source = " ".join(re.sub(r'"\s*f?"', "", path.read_text()) for path in modules)
    for piece in filter(None, (each.strip(" :;,.") for each in _LEFT_OUT.split(refusal))):
        assert piece in source or piece.isupper(), piece
