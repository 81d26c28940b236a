"""What `serve` needs, from its options, the file or the environment; and what parts are told of a reload."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shim.config import BY_NAME, OPTIONS, HostPort, SettingError, Settings, load_configuration
from shim.given import check_given, given_to_serve
from shim.listener_config import Listener
from shim.serve.reloading import Reloading
from tests import commands
from tests.config.test_every_setting import NOT_ALONE, right_value

NEEDED = ("bootstrap.servers=b:1", "listen=127.0.0.1:1", "data.dir=/nowhere")


def test_from_the_file_the_environment_and_options(tmp_path: Path) -> None:
    file = tmp_path / "shim.toml"
    file.write_text('bootstrap.servers = "a:1"\nlisten = "0.0.0.0:1"\nadmin.listen = "127.0.0.1:9"\n')
    environ = {"OFFSET_SHIM_DATA_DIR": "/nowhere", "OFFSET_SHIM_REGISTRAR_ENABLE": "true"}
    options = {"advertised.host": ("--advertised-host", "h"), "zookeeper.connect": ("--zookeeper", "z:2/c")}
    given = given_to_serve(load_configuration(file, (), environ, options))
    assert given.bootstrap == (HostPort("a", 1),)
    assert given.listening[0].advertised == HostPort("h", 1)
    assert given.data_dir == Path("/nowhere")
    assert given.admin is not None
    assert (given.admin.address, given.admin.speaks_tls) == (HostPort("127.0.0.1", 9), False)
    assert (given.zookeeper, given.registrar) == ("z:2/c", True)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ("listen=h", "listen: 'h' is not host:port"),
        ("bootstrap.servers=,", "bootstrap.servers: no server given"),
        ("admin.listen=9644", "admin.listen: '9644' is not host:port"),
        ("data.dir=/etc/passwd", "data.dir: '/etc/passwd' is a file"),
        (f"data.dir=/{'x' * 300}", "data.dir: '/xxx"),
        ("registrar.enable=true", "registrar.enable needs to know where: --zookeeper"),
        ("zookeeper.connect=z", "zookeeper.connect: "),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path: Path, changed: str, message: str) -> None:
    with pytest.raises(SettingError) as refused:
        given_to_serve(load_configuration(None, (*NEEDED, changed)))
    assert str(refused.value).startswith(message)
    name, _, value = changed.partition("=")
    file = tmp_path / "shim.toml"
    needed = dict(each.partition("=")[::2] for each in NEEDED)
    given = {key: ("--an-option", each) for key, each in needed.items() if key != name}
    file.write_text(f"\n{name} = {value if value == 'true' else repr(value)}\n")
    with pytest.raises(SettingError) as refused:
        given_to_serve(load_configuration(file, (), {}, given))
    assert str(refused.value).startswith(f"{file}:2: {message}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('listen = "0.0.0.0:1"', ":1: listen: clients cannot connect to 0.0.0.0: give --advertised-host"),
        (
            'listen = "h:1"\n\nlisteners = "SSL://:9"',
            ":3: listeners: clients cannot connect to every address: give SSL",
        ),
        (
            'listeners = "SSL://h:9"\nlisten = "h:1"\nadvertised.listeners = "SSL://:9"',
            ":3: advertised.listeners: clients cannot connect to every address",
        ),
        ('listen = "h:1"\nadvertised.host = "0.0.0.0"', ":2: advertised.host: clients cannot connect to 0.0.0.0"),
    ],
)
def test_an_address_that_clients_cannot_be_told_is_told_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "shim.toml"
    file.write_text(text)
    with pytest.raises(SettingError) as refused:
        check_given(load_configuration(file, ()))
    assert str(refused.value).startswith(f"{file}{message}")


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", "10.0.0.5"])
def test_an_admin_address_that_others_reach_needs_a_token(host: str) -> None:
    admin = f"admin.listen={host}:9644"
    with pytest.raises(
        SettingError,
        match=r"set admin\.token\.file, have clients show .*, give --admin a loopback address, or say admin\.ins",
    ):
        check_given(load_configuration(None, (admin,)))
    certificates = ("listener.security.protocol.map=admin:SSL", "listener.name.admin.ssl.client.auth=required")
    for guard in (("admin.insecure=true",), ("admin.token.file=/nowhere",), certificates):
        check_given(load_configuration(None, (admin, *guard)))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "[::1]", "localhost"])
def test_an_admin_address_of_this_machine_needs_none(host: str) -> None:
    check_given(load_configuration(None, (f"admin.listen={host}:9644",)))


def test_what_is_missing_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process of its own: the options of the command line are the ones that are named."""
    monkeypatch.setenv("OFFSET_SHIM_LISTEN", "127.0.0.1:1")
    run = commands.ended("serve")
    assert run.returncode == 2
    assert run.stderr == (
        "Error: missing: --bootstrap-servers (or the setting bootstrap.servers) and "
        "--data-dir (or the setting data.dir)\n"
    )


def test_every_option_of_serve_is_a_setting() -> None:
    assert OPTIONS.keys() <= BY_NAME.keys()


class Part:
    """Remembers what it was told last."""

    settings: Settings | None = None
    listeners: Sequence[Listener] = ()

    def take_settings(self, settings: Settings) -> None:
        self.settings = settings

    def take_listeners(self, settings: Settings, listeners: Sequence[Listener]) -> None:
        self.listeners = listeners


@pytest.mark.parametrize("name", [name for name in BY_NAME if name not in NOT_ALONE and name not in OPTIONS])
async def test_parts_are_told_of_what_is_reloadable_and_of_nothing_else(name: str) -> None:
    before = given_to_serve(load_configuration(None, NEEDED))
    value = right_value(name)
    text = str(value).lower() if isinstance(value, bool) else value
    settings = load_configuration(None, (*NEEDED, f"{name}={text}")).settings
    listening = tuple(each._replace(settings=settings) for each in before.listening)
    after = before._replace(settings=settings, listening=listening)
    reloading = Reloading(before, lambda: after)
    part = Part()
    reloading.tell([part], part)
    await reloading.reload()
    field = BY_NAME[name]
    if not field.metadata["reloadable"]:
        assert part.settings is None
        assert reloading.settings == before.settings
        return
    assert part.settings is not None
    assert getattr(part.settings, field.name) == value
    unchanged: dict[str, Any] = {field.name: field.default}
    assert replace(part.settings, **unchanged) == before.settings
    (listener,) = part.listeners
    assert listener.settings == part.settings == reloading.settings
    late = Part()
    reloading.tell([late], late)
    assert late.settings == part.settings, "as if it had been there"
