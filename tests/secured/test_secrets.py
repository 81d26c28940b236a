"""Whatever goes wrong, no password is in what the shim prints."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest

from shim.config import BY_NAME
from shim.demo.parts import StartFailed, ZooKeeper
from tests.admin.live.running import offset_shim
from tests.certificates import Authority
from tests.secured.broker import SecuredBroker
from tests.secured.conftest import SHIM_RULES
from tests.shim_process import Shim
from tests.wire import WireClient

MARKER = "never-to-be-shown"
USER = "discreet"


def secret_settings() -> list[str]:
    return [name for name, field in BY_NAME.items() if field.metadata.get("secret")]


def marked(name: str) -> str:
    """A password that is the setting's own."""
    return f"{MARKER}-{name.replace('.', '-')}"


def written(file: Path, settings: Mapping[str, str]) -> None:
    file.write_text("".join(f"{json.dumps(name)} = {json.dumps(value)}\n" for name, value in settings.items()))


@pytest.fixture
def settings(secured: SecuredBroker, authority: Authority) -> dict[str, str]:
    """With every secret that there is, each in use."""
    secured.add_scram_user(USER, marked("upstream.sasl.password"))
    return {
        **{name: marked(name) for name in secret_settings()},
        "upstream.security.protocol": secured.security_protocol,
        "upstream.sasl.mechanism": "SCRAM-SHA-512",
        "upstream.sasl.username": USER,
        "upstream.ssl.truststore.location": str(authority.truststore),
        "upstream.ssl.keystore.location": str(
            authority.keystore("own.pem", password=marked("upstream.ssl.key.password"))
        ),
        "security.protocol": secured.security_protocol,
        "ssl.keystore.location": str(authority.keystore("listener.pem", password=marked("ssl.key.password"))),
        "zookeeper.username": "shim",
    }


@pytest.mark.parametrize("look", ["text", "json"])
def test_a_shim_that_runs(
    secured: SecuredBroker, zookeeper: ZooKeeper, settings: dict[str, str], tmp_path: Path, look: str
) -> None:
    secured.allow(*(rule._replace(user=USER) for rule in SHIM_RULES))
    file = tmp_path / "shim.toml"
    settings |= {"log.level": "DEBUG", "log.format": look}
    written(file, settings)
    shim = Shim(
        secured.bootstrap_servers,
        tmp_path / "data",
        args=["--config", str(file), "--zookeeper", zookeeper.connect_string],
    )
    with shim:
        with WireClient(shim.port) as no_tls:
            no_tls.socket.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert no_tls.socket.recv(100) == b""
        # Another password, which takes a restart, then a file that is wrong, then keys of which the password is not.
        for changed, told in (
            ({"zookeeper.password": f"{MARKER}-changed"}, "that take a restart: zookeeper.password"),
            ({"upstream.sasl.pasword": f"{MARKER}-misspelt"}, "did you mean upstream.sasl.password?"),
            ({"group.max.size": f"{MARKER}"}, "the settings stay as they were"),
        ):
            written(file, settings | changed)
            os.kill(shim.pid, signal.SIGHUP)
            shim.wait_logged(told)
        zookeeper.stop()
        assert shim.stop() == 0
    log = shim.log().replace(f"group.max.size: {MARKER!r} is not a whole number", "")  # no secret, there
    assert MARKER not in log
    if look == "json":
        assert all(json.loads(line)["level"] for line in shim.log().splitlines())


@pytest.mark.parametrize("name", secret_settings())
def test_a_shim_whose_password_is_wrong(
    secured: SecuredBroker, settings: dict[str, str], tmp_path: Path, name: str
) -> None:
    if name == "zookeeper.password":
        del settings["zookeeper.username"]  # ZooKeeper believes whoever comes
    else:
        settings[name] = f"{MARKER}-wrong"
    file = tmp_path / "shim.toml"
    written(file, settings)
    shim = Shim(secured.bootstrap_servers, tmp_path / "data", args=["--config", str(file), "--set", "log.level=DEBUG"])
    with pytest.raises(StartFailed):
        shim.start()
    assert "Error: " in shim.log()
    assert MARKER not in shim.log()


def test_effective_settings(settings: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "shim.toml"
    written(file, settings | {"listener.name.inside.ssl.key.password": f"{MARKER}-inside"})
    for form in ([], ["--json"], ["--changed"]):
        shown = offset_shim("config", "--config", str(file), *form)
        assert shown.status == 0
        assert shown.stdout.count("***") == len(secret_settings()) + 1
        assert MARKER not in shown.stdout + shown.stderr
