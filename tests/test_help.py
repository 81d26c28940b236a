"""What a list of commands says of each."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from pipeline.main import cli as of_pipeline
from shim.main import cli as of_shim


def groups(group: click.Group, *path: str) -> Iterator[tuple[click.Group, tuple[str, ...]]]:
    yield group, path
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from groups(command, *path, name)


LISTS = [
    (root, group, path)
    for root, name in ((of_shim, "offset-shim"), (of_pipeline, "offset-pipeline"))
    for group, path in groups(root, name)
]


@pytest.mark.parametrize(("root", "group", "path"), LISTS, ids=[" ".join(path) for *_, path in LISTS])
def test_no_line_of_a_list_is_cut_off(root: click.Group, group: click.Group, path: tuple[str, ...]) -> None:
    """On a terminal of 80 columns."""
    shown = CliRunner().invoke(root, [*path[1:], "--help"], terminal_width=80)
    assert shown.exit_code == 0
    listed = shown.stdout.partition("\nCommands:\n")[2].splitlines()
    assert [line.split()[0] for line in listed] == group.list_commands(click.Context(group))
    assert [line for line in listed if line.endswith("...")] == []


def commands(root: click.Group, *path: str) -> Iterator[tuple[str, ...]]:
    """All of them, and the lists that they are in."""
    for group, at in groups(root, *path):
        yield at
        context = click.Context(group)
        for name in group.list_commands(context):
            if not isinstance(group.get_command(context, name), click.Group):
                yield (*at, name)


ROOTS = {"offset-shim": of_shim, "offset-pipeline": of_pipeline}
WITHOUT_EXAMPLE = {("offset-shim", "demo"), ("offset-pipeline", "jars")}
"""Of which there is nothing to say but their names."""


@pytest.mark.parametrize(
    "path",
    [path for name, root in ROOTS.items() for path in commands(root, name) if path not in WITHOUT_EXAMPLE],
    ids=" ".join,
)
def test_help_has_an_example(path: tuple[str, ...]) -> None:
    """Of the command itself, or of those in a list."""
    shown = CliRunner().invoke(ROOTS[path[0]], [*path[1:], "--help"], terminal_width=200).stdout
    assert [line for line in shown.splitlines() if f"{line} ".startswith(f"  {' '.join(path)} ")]
