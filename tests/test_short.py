"""What of `make test` gets a second chance, and what passes then."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Final

import pytest

from tests import short

STUCK: Final = 1  # faulthandler ends it so, and nothing is written of what has failed
INTERRUPTED: Final = 2
KILLED: Final = -9

status = 1
failed: list[str] = []
again: list[str] = []


class OneFails(short.Group):
    """All pass but one group."""

    def __init__(self, name: str, command: Sequence[str], cache: Path) -> None:
        super().__init__(name, command, cache)
        self._is_well = name != "pipeline"
        self._was_run = False

    def failed(self) -> list[str]:
        return [] if self._is_well else failed

    def run(self, printing: Lock) -> int | None:
        if self._was_run:
            return None
        self._was_run = True
        return 0 if self._is_well else status

    def run_failed(self, printing: Lock) -> int | None:
        again.extend(self.failed())
        return 0


@pytest.mark.parametrize(
    ("ended", "tests", "arguments", "passes"),
    [
        (0, [], [], True),
        (0, [], ["-x"], True),
        (1, ["a"], [], True),
        (1, ["a", "b", "c"], [], True),
        (1, ["a", "b", "c", "d"], [], False),
        (1, ["a"], ["-x"], False),
        (STUCK, [], [], False),
        (INTERRUPTED, ["a"], [], False),
        (KILLED, [], [], False),
        (KILLED, ["a"], [], False),
    ],
)
def test_only_few_that_have_failed_are_tried_again(
    monkeypatch: pytest.MonkeyPatch, ended: int, tests: list[str], arguments: list[str], passes: bool
) -> None:
    monkeypatch.setattr(short, "Group", OneFails)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.setitem(globals(), "status", ended)
    monkeypatch.setitem(globals(), "failed", tests)
    again.clear()
    assert short.main(arguments) == (0 if passes else 1)
    assert again == (tests if passes else [])


def test_nor_where_the_environment_has_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(short, "Group", OneFails)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setenv("PYTEST_ADDOPTS", "-x")
    monkeypatch.setitem(globals(), "status", 1)
    monkeypatch.setitem(globals(), "failed", ["a"])
    assert short.main([]) == 1
