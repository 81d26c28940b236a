"""Every command in the documentation is run by a test, or it is said why not; and its options are there."""

from __future__ import annotations

import ast
import re
import runpy
import subprocess
import sys
from typing import Final

import click
import pytest

import pipeline.main
import shim.main
from tests.docs.covering import not_covered, options
from tests.docs.pages import ROOT, documented
from tests.docs.stories import RUN_HERE
from tests.docs.table import ELSEWHERE, NOT_HERE, Elsewhere

DOCUMENTED: Final = documented()
_TIMEOUT_S: Final = 60


def test_every_command_is_in_the_table() -> None:
    known = [*(step.command for step in RUN_HERE), *(step.doc for step in RUN_HERE), *ELSEWHERE, *NOT_HERE]
    missing = not_covered(DOCUMENTED, known)
    assert missing == [], {command: DOCUMENTED[command] for command in missing}


def test_the_table_has_nothing_that_no_text_has() -> None:
    rows = [*dict.fromkeys(step.doc for step in RUN_HERE), *ELSEWHERE, *NOT_HERE]
    assert [row for row in rows if row not in DOCUMENTED] == []
    assert len(set(rows)) == len(rows), "in one place each"


@pytest.mark.parametrize("command", ELSEWHERE)
def test_the_test_that_is_named_runs_it(command: str) -> None:
    row: Elsewhere = ELSEWHERE[command]
    file, _, function = row.test.partition("::")
    assert row.words, "what is looked for there"
    assert set(row.words) <= set(re.split(r"[\s'\"]+", command))
    source = what_it_runs((ROOT / file).read_text(), function)
    assert [
        word for word in (*row.words, *options(command)) if not re.search(rf"(?<![\w-]){word}(?![\w-])", source)
    ] == []


def what_it_runs(module: str, function: str) -> str:
    """The source of the function, and of what it names in its module, and of what that names."""
    parts = {name: each for each in ast.parse(module).body for name in _names_of(each)}
    wanted, found = [function], dict[str, str]()
    while wanted:
        name = wanted.pop()
        if name in found or name not in parts:
            continue
        found[name] = ast.unparse(parts[name])
        named = {each.id for each in ast.walk(parts[name]) if isinstance(each, ast.Name)}
        fixtures = {each.arg for each in ast.walk(parts[name]) if isinstance(each, ast.arg)}
        wanted += named | fixtures
    assert function in found, f"there is no {function}"
    return "\n".join(found.values())


def _names_of(statement: ast.stmt) -> list[str]:
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [statement.name]
        case ast.Assign():
            return [each.id for each in statement.targets if isinstance(each, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case ast.Import() | ast.ImportFrom():
            return [each.asname or each.name for each in statement.names]
    return []


def test_what_a_test_does_not_run_is_not_found_there() -> None:
    module = """
WORD = "load"
def other(): "audit"
def command(): "--to"
def test_it(command): command(WORD)
"""
    assert {"load", "--to"} <= set(re.findall(r"[\w-]+", what_it_runs(module, "test_it")))
    assert "audit" not in what_it_runs(module, "test_it")


OURS: Final = {"offset-shim": shim.main.cli, "offset-pipeline": pipeline.main.cli}


def our_parts(command: str) -> list[list[str]]:
    """The words of each `offset-shim …` and `offset-pipeline …` in it."""
    parts = re.split(r"&&|\||\$\(|\)|\"", command)
    return [words for part in parts if (words := part.split()) and words[0] in OURS]


def unknown_to(words: list[str]) -> list[str]:
    """Options that the command does not have."""
    at: click.Command = OURS[words[0]]
    context = click.Context(at)
    rest = words[1:]
    while isinstance(at, click.Group) and rest and (found := at.get_command(context, rest[0])) is not None:
        at, rest = found, rest[1:]
    if isinstance(at, click.Group) and rest and re.fullmatch(r"[a-z]+", rest[0]):
        return [rest[0]]
    known = {name for each in at.params for name in (*each.opts, *each.secondary_opts)} | {"--help", "--version"}
    return [option for option in options(" ".join(rest)) if option not in known]


@pytest.mark.parametrize(
    "command", [command for command in DOCUMENTED if our_parts(command) and command not in NOT_HERE]
)
def test_our_commands_have_these_options(command: str) -> None:
    assert [unknown_to(words) for words in our_parts(command)] == [[]] * len(our_parts(command))


def test_an_option_that_there_is_not_would_be_noticed() -> None:
    assert unknown_to(["offset-shim", "log", "dump", "--stat"]) == ["--stat"]
    assert unknown_to(["offset-shim", "log", "dunp"]) == ["dunp"]
    assert unknown_to(["offset-pipeline", "history", "state", "--att", "1"]) == ["--att"]


def benchmarks() -> dict[tuple[str, ...], list[str]]:
    """By what is behind `python -m`, all options that the texts have."""
    found: dict[tuple[str, ...], list[str]] = {}
    for command in DOCUMENTED:
        match = re.match(r"python -m (benchmarks\.\S+)((?: [a-z]+)?)", command)
        if match:
            found.setdefault((match[1], *match[2].split()), []).extend(options(command))
    return found


@pytest.mark.parametrize("called", benchmarks(), ids=" ".join)
def test_benchmarks_have_these_options(
    called: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `python -m` runs them; most have the same to import."""
    module, *words = called
    is_package = (ROOT / module.replace(".", "/")).is_dir()
    run = f"{module}.__main__" if is_package else module
    monkeypatch.delitem(sys.modules, run, raising=False)  # whoever has imported it
    monkeypatch.setattr(sys, "argv", [module, *words, "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    assert ended.value.code == 0
    told = capsys.readouterr().out
    assert [option for option in benchmarks()[called] if option not in told] == []


@pytest.mark.parametrize("command", [command for command in DOCUMENTED if command.startswith("make ")])
def test_make_has_these_targets(command: str) -> None:
    """Nothing is made."""
    told = subprocess.run([*command.split(), "--dry-run"], cwd=ROOT, capture_output=True, text=True, timeout=_TIMEOUT_S)
    assert told.returncode == 0, told.stderr
