"""Commands that a line names work when they are pasted: at the shim that the command in hand has asked."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from shim.admin.commands.hints import found_at, pasteable
from shim.admin.commands.shim_options import ADMIN_VARIABLE, DEFAULT_ADMIN
from shim.config import HostPort
from tests.admin.live.moved import Moved
from tests.admin.live.running import offset_shim

_ALARM = "they differ: `groups reset 'a b' --from-upstream` takes them, and `advance` does not"


def _in_a_command(*options: tuple[str, HostPort | Path]) -> str:
    with click.Context(click.Command("status")) as context:
        for option, value in options:
            found_at(context, option, value)
        return pasteable("see `migrate status`, `log move`, `log verify` and `groups`")


def test_only_what_asks_a_running_shim_is_given_where_that_is() -> None:
    where = " --admin 10.0.0.4:9644"
    assert _in_a_command(("--admin", HostPort("10.0.0.4", 9644))) == (
        f"see `offset-shim migrate status{where}`, `offset-shim log move{where}`, `log verify` and "
        f"`offset-shim groups{where}`"
    )


def test_the_file_of_the_token_is_quoted_for_a_shell() -> None:
    told = _in_a_command(("--admin", HostPort("::1", 1)), ("--admin-token-file", Path("/a b")))
    assert "`offset-shim migrate status --admin '[::1]:1' --admin-token-file '/a b'`" in told


def test_without_options_and_without_a_command_it_stays_as_it_is() -> None:
    assert _in_a_command() == "see `migrate status`, `log move`, `log verify` and `groups`"
    assert pasteable("see `migrate status`") == "see `migrate status`"


@pytest.mark.parametrize("by_variable", [False, True])
def test_what_the_shim_says_is_told_so_too(
    moved: Moved, admin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_variable: bool
) -> None:
    """A variable is still there when the command is pasted."""
    token = tmp_path / "token"
    token.write_text("a" * 43)
    token.chmod(0o600)
    options = ["--admin", admin]
    if by_variable:
        monkeypatch.setenv("OFFSET_SHIM_ADMIN_TOKEN_FILE", str(token))
    else:
        options += ["--admin-token-file", str(token)]
    moved.add("a b", step="kafka")
    moved.tell("a b", 1.0, _ALARM)
    told = _ALARM.replace("`groups", "`offset-shim groups").replace("upstream`", f"upstream {' '.join(options)}`")
    assert offset_shim("migrate", "status", *options).stderr == f"a b: {told}\n"
    listed = offset_shim("groups", "list", *options)
    assert (listed.status, listed.stderr) == (0, f"a b: {told}\n")
    assert f"alarm: {told}\n" in offset_shim("groups", "describe", "a b", *options).stdout
    assert offset_shim("migrate", "status", "--json", *options).json["groups"][0]["alarm"] == _ALARM


def test_the_default_address_needs_no_word(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*_: object, **__: object) -> object:
        raise click.ClickException(pasteable("see `migrate status`"))

    monkeypatch.setattr("shim.admin.commands.migrate_looks.done_of", nothing)
    for options in ((), ("--admin", DEFAULT_ADMIN)):
        assert offset_shim("migrate", "status", *options).stderr == "Error: see `migrate status`\n"


def test_a_variable_says_where_the_shim_is(moved: Moved, admin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is still there when a command is pasted; an option goes before it, and is told of, be it the default."""
    monkeypatch.setenv(ADMIN_VARIABLE, admin)
    moved.add("g", step="kafka")
    moved.tell("g", 1.0, "see `groups describe g`")
    assert offset_shim("migrate", "status").stderr == "g: see `groups describe g`\n"
    monkeypatch.setenv(ADMIN_VARIABLE, "127.0.0.1:1")
    options = f"--admin {admin}"
    assert offset_shim("migrate", "status", *options.split()).stderr == (
        f"g: see `offset-shim groups describe g {options}`\n"
    )
