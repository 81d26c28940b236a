"""What the commands say of themselves."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from shim.admin.commands.shim_options import DEFAULT_ADMIN
from shim.main import cli
from tests.admin.live.running import offset_shim


def _paths(command: click.Command, *path: str) -> Iterator[tuple[str, ...]]:
    yield path
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            yield from _paths(_of(command, name), *path, name)


def _of(group: click.Group, name: str) -> click.Command:
    """Some are imported when they are asked for."""
    found = group.get_command(click.Context(group), name)
    assert found is not None
    return found


def _examples(*path: str) -> Iterator[list[str]]:
    """Those in its help, without the program's name."""
    text = offset_shim(*path, "--help").stdout.partition("Options:")[0].replace("\\\n", " ")
    for line in text.splitlines():
        words = shlex.split(line, comments=True) if "offset-shim " in line.partition("`")[0] else []
        while "offset-shim" in words:
            words = words[words.index("offset-shim") + 1 :]
            yield list(itertools.takewhile(lambda word: word not in ("&&", "|"), words))


@pytest.mark.parametrize("path", list(_paths(cli)), ids=" ".join)
def test_every_help_has_an_example_that_is_understood(path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(click.Path, "convert", lambda _, value, *__: Path(value))  # be the file there or not
    examples = list(_examples(*path))
    assert examples
    for example in examples:
        found: click.Command = cli
        while isinstance(found, click.Group):
            found = _of(found, example.pop(0))
        found.make_context(str(found.name), example)


def test_the_default_is_on_loopback() -> None:
    assert DEFAULT_ADMIN == "127.0.0.1:9644"
    assert DEFAULT_ADMIN in (Path(__file__).parents[3] / "docs" / "admin.md").read_text()
