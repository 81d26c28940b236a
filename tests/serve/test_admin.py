"""`offset-shim serve --admin`: the port is there when the shim is ready, and gone before it ends."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from shim.demo.parts import Broker, StartFailed, free_port
from tests.admin.live.running import in_a_process
from tests.serve.test_start import ONE_PARTITION, refused, serve
from tests.shim_process import Shim


def admin_shim(broker: Broker, data_dir: Path, address: str) -> Shim:
    return Shim(broker.bootstrap_servers, data_dir, args=["--admin", address, *ONE_PARTITION], start_timeout=30)


def test_groups_of_a_running_shim(broker: Broker, tmp_path: Path, fresh_name: Callable[[], str]) -> None:
    address = f"127.0.0.1:{free_port()}"
    with admin_shim(broker, tmp_path / "data", address) as shim:
        assert in_a_process("groups", "list", "--json", "--admin", address).json["groups"] == []
        assert in_a_process("migrate", "start", fresh_name(), "--admin", address).status == 1
        with socket.create_connection(("127.0.0.1", int(address.partition(":")[2]))):
            assert shim.stop() == 0  # who says nothing holds nobody up
        assert in_a_process("groups", "list", "--admin", address).status == 2
    assert f"admin interface on {address}" in shim.log()
    assert "Traceback" not in shim.log()


def test_a_token_file_that_does_not_answer_holds_nobody_up_at_the_end(broker: Broker, tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    token, of_client = tmp_path / "token", tmp_path / "of-client"
    for file in (token, of_client):
        file.write_text("a-token-of-some-length")
    args = ["--admin", address, "--set", f"admin.token.file={token}", *ONE_PARTITION]
    with Shim(broker.bootstrap_servers, tmp_path / "data", args=args) as shim:
        token.unlink()
        os.mkfifo(token)
        asked = in_a_process("migrate", "start", "g", "--admin", address, "--admin-token-file", str(of_client))
        assert asked.status == 2, asked
        assert shim.stop() == 0


def test_an_admin_port_that_is_taken(broker: Broker, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        shim = admin_shim(broker, tmp_path / "data", address)
        with pytest.raises(StartFailed):
            shim.start()
    assert shim.returncode == 1
    assert f"Error: cannot listen on {address} (--admin): Address already in use" in shim.log()
    assert "Traceback" not in shim.log()


def test_no_admin_port_without_a_word_of_it(broker: Broker, tmp_path: Path) -> None:
    no_copy = "pass"  # as one of those has been imported more
    with Shim(broker.bootstrap_servers, tmp_path / "data", args=ONE_PARTITION, patch=no_copy) as shim:
        loaded = Path(f"/proc/{shim.pid}/maps").read_text()
        assert "uvloop" in loaded
        assert "aiohttp" not in loaded
        assert "admin interface" not in shim.log()


def test_an_admin_address_that_is_none(tmp_path: Path) -> None:
    error = refused(serve(tmp_path / "data", "127.0.0.1:1", 19_092, "--admin", "9644"))
    assert error.startswith("Error: --admin: '9644' is not host:port")


@pytest.mark.parametrize(
    ("imported", "without"),
    [
        ("shim.main", "shim.serve"),  # completion starts a command at each press of a key
        ("shim.main", "shim.admin.commands.log"),
        ("shim.main, shim.serve", "shim.admin.commands.groups"),
        ("shim.main, shim.serve", "aiohttp"),  # it takes a quarter of a second to import
    ],
)
def test_what_is_imported_where_it_is_wanted_alone(imported: str, without: str) -> None:
    code = f"import sys; import {imported}; sys.exit({without!r} in sys.modules)"
    assert subprocess.run([*serve(Path(), "", 0)[:1], "-c", code], timeout=30).returncode == 0


def test_an_admin_address_that_others_reach(tmp_path: Path) -> None:
    """Said before anything is opened or connected to: nobody is at the broker's address."""
    data = tmp_path / "data"
    error = refused(serve(data, "127.0.0.1:1", 19_092, "--admin", "0.0.0.0:9644"))
    assert "whoever reaches 0.0.0.0:9644 could move, reset and delete groups: set admin.token.file" in error
    assert not data.exists()


@pytest.mark.parametrize(
    ("content", "why"), [(None, "No such file or directory"), ("short", "expected a token, 16 to")]
)
def test_a_token_file_of_no_use(tmp_path: Path, content: str | None, why: str) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_text(content)
    args = ("--admin", "127.0.0.1:9644", "--set", f"admin.token.file={file}")
    error = refused(serve(tmp_path / "data", "127.0.0.1:1", 19_092, *args))
    assert error.startswith(f"Error: admin.token.file: {file}: ")
    assert why in error
