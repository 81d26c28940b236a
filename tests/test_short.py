"""What of `make test` gets a second chance, and what passes then."""

from __future__ import annotations

import signal
import sys
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

    def __init__(self, name: str, command: Sequence[str], chosen: Sequence[str], cache: Path) -> None:
        super().__init__(name, command, chosen, cache)
        self._is_well = name != "pipeline"
        self._was_run = False

    def failed(self) -> list[str]:
        return [] if self._is_well else failed

    def run(self, printing: Lock) -> int | None:
        if self._was_run:
            return None
        self._was_run = True
        return 0 if self._is_well else status

    def passes_alone(self, printing: Lock) -> bool:
        again.extend(self.failed())
        return True


@pytest.mark.parametrize(
    ("ended", "tests", "arguments", "passes"),
    [
        (0, [], [], True),
        (0, [], ["-x"], True),
        (1, ["a"], [], True),
        (1, ["a", "b", "c"], [], True),
        (1, ["a", "b", "c", "d"], [], False),
        (1, ["a"], ["-x"], False),
        (1, ["a", "tests/log/test_kill.py::test_one"], [], False),
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


def test_what_is_in_a_group_is_in_no_other() -> None:
    """Nor twice in one; and each has a cache of its own."""
    chosen = {}
    for names in (*short.GROUPS, *short.BESIDE):
        chosen[short._cache(Path("caches"), names)] = [Path(path) for path in short._paths(names)]
    assert len(chosen) == len(short.GROUPS) + len(short.BESIDE)
    paths = [path for group in chosen.values() for path in group]
    assert len(paths) == len(set(paths))
    assert not [path for path in paths if set(path.parents) & set(paths)]


def test_a_name_that_stands_for_nothing_is_refused() -> None:
    with pytest.raises(FileNotFoundError, match="no tests: nowhere"):
        short._paths(["log", "nowhere"])


def test_nor_where_the_environment_has_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(short, "Group", OneFails)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setenv("PYTEST_ADDOPTS", "-x")
    monkeypatch.setitem(globals(), "status", 1)
    monkeypatch.setitem(globals(), "failed", ["a"])
    assert short.main([]) == 1


SOURCE: Final = """
import pathlib, pytest
HERE = pathlib.Path(__file__).parent

def seen(name):
    there = (HERE / name).exists()
    (HERE / name).touch()
    return there

def test_passes_later(): assert seen("one")
def test_fails(): assert not (HERE / "fails").exists()
def test_is_skipped_later():
    if seen("two"): pytest.skip("not here")
    assert not (HERE / "skips").exists()
"""


@pytest.mark.parametrize(("besides", "failed", "passes"), [("", 1, True), ("fails", 2, False), ("skips", 2, False)])
def test_each_that_has_failed_has_to_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, besides: str, failed: int, passes: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # half of the time that such a small one takes
    (tmp_path / "test_some.py").write_text(SOURCE)
    if besides:
        (tmp_path / besides).touch()
    command = (sys.executable, "-m", "pytest", "--rootdir", str(tmp_path), "-c", "/dev/null")
    group = short.Group("some", command, [str(tmp_path)], tmp_path / "cache")
    assert group.run(Lock()) == 1
    assert len(group.failed()) == failed
    assert group.passes_alone(Lock()) is passes
