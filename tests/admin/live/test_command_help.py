"""What the commands say of themselves."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from shim.admin.commands import running_shim
from shim.main import cli
from tests.admin.live.running import offset_shim


@pytest.mark.parametrize(
    "command",
    [["groups"], ["groups", "list"], ["groups", "describe"]]
    + [["migrate", *rest] for rest in ([], ["plan"], ["status"], ["start"], ["advance"], ["verify"], ["rollback"])],
    ids=" ".join,
)
def test_every_help_has_an_example_that_is_understood(command: list[str]) -> None:
    text = offset_shim(*command, "--help").stdout
    examples = [line.partition("#")[0].strip() for line in text.splitlines() if line.strip().startswith("offset-shim")]
    assert examples
    for example in examples:
        for one in example.split(" && "):
            _, group, name, *args = one.split()
            found = cli.commands[group]
            assert isinstance(found, click.Group)
            found.commands[name].make_context(name, args)


def test_the_default_is_on_loopback() -> None:
    assert running_shim.DEFAULT_ADMIN == "127.0.0.1:9644"
    assert running_shim.DEFAULT_ADMIN in (Path(__file__).parents[3] / "docs" / "admin.md").read_text()
