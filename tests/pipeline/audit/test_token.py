"""The token of the shim's admin port is brought where it is wanted, and is in nothing that is shown."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click
import pytest

from pipeline.audit.admin_port import admin_ports
from pipeline.audit.steps import steps_of_groups
from pipeline.audit.words import CannotRead
from shim.admin.live.guard.access import Access
from shim.admin.live.guard.token_file import TokenFile
from shim.demo.parts import Broker
from tests.admin.live.moved import Moved
from tests.admin.live.running import admin_of
from tests.pipeline.audit.test_bad_input import refused

TOKEN: Final = "a-token-of-some-length"
OTHER: Final = "another-token-of-some-length"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    return file


def test_it_is_brought(file: Path, tmp_path: Path) -> None:
    moved = Moved()
    moved.add("g", step="kafka+dual")
    other = tmp_path / "other"
    other.write_text(OTHER)
    with admin_of(moved, access=Access(TokenFile(file), for_all=True)) as at:
        assert steps_of_groups(admin_ports(at, file), ["g"]) == {"g": "kafka+dual"}
        with pytest.raises(CannotRead, match=f"^the shim's admin port at {at}: the token of .*--admin-token-file"):
            steps_of_groups(admin_ports(at, None), ["g"])
        with pytest.raises(CannotRead, match="this is not the token of") as told:
            steps_of_groups(admin_ports(at, other), ["g"])
    assert OTHER not in str(told.value)
    with admin_of(moved) as at:
        assert steps_of_groups(admin_ports(at, file), ["g"]) == {"g": "kafka+dual"}, "where it is not wanted, too"


def test_it_is_not_shown(file: Path) -> None:
    assert TOKEN not in repr(admin_ports("a:1", file))


@pytest.mark.parametrize("content", [b"", b"short", b"two words of a token", b"t" * 5000, b"\xff" * 20])
def test_a_file_with_none(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(click.BadParameter, match=r"expected a token, 16 to 4096 ASCII characters"):
        admin_ports("a:1", file)


def test_the_command_takes_it_as_an_option_and_from_the_environment(broker: Broker, file: Path) -> None:
    at_broker = ("--shim", broker.bootstrap_servers, "--upstream", broker.bootstrap_servers)
    wrong = file.with_name("wrong")
    wrong.write_text(OTHER)
    with admin_of(Moved(), access=Access(TokenFile(file), for_all=True)) as at:
        line = f"the shim's admin port at {at}: this is not the token of admin.token.file"
        assert refused(*at_broker, "--admin", at, "--admin-token-file", str(wrong)) == line
        assert refused(*at_broker, "--admin", at, env={"OFFSET_SHIM_ADMIN_TOKEN_FILE": str(wrong)}) == line
