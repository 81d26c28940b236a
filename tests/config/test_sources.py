"""Where settings are from: lines of a file, variables, options, and which of them wins."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.admin.commands.shim_options import ADMIN_VARIABLE
from shim.config import BY_NAME, OPTIONS, SettingError, load_configuration
from shim.config.toml_file import read_toml
from shim.terminal.options import ADMIN_CA_FILE, ADMIN_CERTIFICATE_FILE, ADMIN_TOKEN_FILE, admin_file_option

NAME = "group.max.size"
VARIABLE = "OFFSET_SHIM_GROUP_MAX_SIZE"


def test_the_later_wins(tmp_path: Path) -> None:
    file = tmp_path / "shim.toml"
    file.write_text(f'"{NAME}" = 1\nlisten = "a:1"\n')
    steps = [
        (load_configuration(file, ()), 1, f"{file}:1"),
        (load_configuration(file, (), {VARIABLE: "2"}), 2, VARIABLE),
        (load_configuration(file, [f"{NAME}=3"], {VARIABLE: "2"}), 3, "--set"),
        (load_configuration(file, [f"{NAME}=3", f"{NAME}=4"], {VARIABLE: "2"}), 4, "--set"),
    ]
    for configuration, value, source in steps:
        assert configuration.settings.group_max_size == value
        assert configuration.source_of(NAME) == source
    option = load_configuration(file, ["listen=b:2"], {}, {"listen": ("--listen", "c:3")})
    assert option.settings.listen == "c:3"
    assert option.source_of("listen") == "--listen"
    assert option.source_of("data.dir") == "default"


def test_lines_of_every_form_of_statement(tmp_path: Path) -> None:
    file = tmp_path / "shim.toml"
    file.write_text(
        "# first\n"
        'listen = "a:1"  # after it\n'
        "\n"
        'listeners = """\n'
        "[no.table]\n"
        '"""\n'
        "[group.initial]\n"
        "\n"
        "rebalance.delay.ms = 7\n"
        '[listener.name."x".ssl]\n'
        'keystore = { location = "k" }\n'
        "list = [\n 1,\n 2,\n]\n"
    )
    assert [(line.number, line.name) for line in read_toml(file)] == [
        (2, "listen"),
        (4, "listeners"),
        (9, "group.initial.rebalance.delay.ms"),
        (11, "listener.name.x.ssl.keystore.location"),
        (12, "listener.name.x.ssl.list"),
    ]


@given(st.lists(st.sampled_from(["", "# c", "a{} = 1", 'b{} = "x"', "[t{}]", "c{} = [\n1,\n]", "d{}.e = '''\nz'''"])))
def test_every_statement_is_found_where_it_begins(statements: list[str]) -> None:
    lines, expected = 1, []
    text = ""
    table = ""
    for number, statement in enumerate(each.format(at) for at, each in enumerate(statements)):
        if statement.startswith("["):
            table = f"t{number}."
        elif "=" in statement:
            expected.append((lines, table + statement.split(" ")[0]))
        text += f"{statement}\n"
        lines += 1 + statement.count("\n")
    # Written and read as a file: what else is in a text stands in the tests above.
    from shim.config.toml_file import _lines

    assert [(line.number, line.name) for line in _lines(text)] == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = 1\nb = = 1\n", ":2: Invalid value, column 5"),
        ("max.connections = 2\nmax.connections.per.ip = 3\n", ":2: Cannot overwrite a value; write names in quotes"),
        ('"max.connections" = 1\nmax.connections = 2\nmax.connections.per.ip = 3\n', "write names in quotes"),
        ("a = 1\na = 2\n", ":2: a is given twice, first in line 1"),
        ('[t]\n"a.b" = [\n1\n]\n"a.b" = [\n2\n]\n', ":5: t.a.b is given twice, first in line 2"),
        ('a = 1\nb = "', ":2: Unterminated string, at the end of the file"),
    ],
)
def test_a_file_that_is_no_toml(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "shim.toml"
    file.write_text(text)
    with pytest.raises(SettingError) as refused:
        load_configuration(file, ())
    told = str(refused.value)
    assert told.startswith(f"{file}:")
    assert message in told
    assert "\n" not in told


@pytest.mark.parametrize("option", OPTIONS.values())
def test_an_option_in_place_of_its_setting(tmp_path: Path, option: str) -> None:
    (setting,) = [name for name, each in OPTIONS.items() if each == option]
    name = option.removeprefix("--")
    file = tmp_path / "shim.toml"
    value: str | int = 3 if BY_NAME[setting].metadata["kind"] is int else "x"
    file.write_text(f"\n{name} = {value!r}\n")
    if name == setting:  # listen, workers
        assert getattr(load_configuration(file, ()).settings, name) == value
        return
    with pytest.raises(SettingError) as refused:
        load_configuration(file, ())
    assert str(refused.value) == f"{file}:2: unknown setting {name!r}, did you mean {setting}?"


def test_a_file_in_another_encoding(tmp_path: Path) -> None:
    file = tmp_path / "shim.toml"
    file.write_bytes(b'listen = "\xff"')
    with pytest.raises(SettingError, match="not UTF-8, at byte 10"):
        load_configuration(file, ())


def test_values_that_do_not_go_together_are_told_with_their_places(tmp_path: Path) -> None:
    file = tmp_path / "shim.toml"
    file.write_text("\n[group]\nmin.session.timeout.ms = 9\n")
    with pytest.raises(SettingError) as refused:
        load_configuration(file, (), {"OFFSET_SHIM_GROUP_MAX_SESSION_TIMEOUT_MS": "8"})
    assert str(refused.value) == (
        "group.min.session.timeout.ms (9) is larger than group.max.session.timeout.ms (8) "
        f"(group.min.session.timeout.ms: {file}:3; "
        "group.max.session.timeout.ms: OFFSET_SHIM_GROUP_MAX_SESSION_TIMEOUT_MS)"
    )


def test_settings_of_one_listener_in_the_environment() -> None:
    configuration = load_configuration(
        None,
        (),
        {
            "OFFSET_SHIM_LISTENER_NAME_INSIDE_SSL_KEYSTORE_LOCATION": "/k.pem",
            "OFFSET_SHIM_LISTENER_NAME_MY_SIDE_MAX_CONNECTIONS_PER_IP": "3",
            "OFFSET_SHIM_LISTENER_NAME_INSIDE_SSL_KEY_PASSWORD": "never-to-be-shown",
        },
    )
    assert configuration.by_listener == {
        "inside": {"ssl_keystore_location": "/k.pem", "ssl_key_password": "never-to-be-shown"},
        "my_side": {"max_connections_per_ip": 3},
    }
    shown = [(row.name, row.value) for row in configuration.effective() if row.source != "default"]
    assert shown == [
        ("listener.name.inside.ssl.key.password", "***"),
        ("listener.name.inside.ssl.keystore.location", "/k.pem"),
        ("listener.name.my_side.max.connections.per.ip", 3),
    ]


@pytest.mark.parametrize(
    "variable",
    [
        "OFFSET_SHIM_LISTENER_NAME_SSL_KEY_PASSWORD",
        "OFFSET_SHIM_LISTENER_NAME_A_GROUP_MAX_SIZE",
        "OFFSET_SHIM_",
        "OFFSET_SHIM_ADMIN_PORT",
    ],
)
def test_variables_that_are_none(variable: str) -> None:
    with pytest.raises(SettingError, match=f"unknown environment variable {variable}"):
        load_configuration(None, (), {variable: "x"})


def test_variables_that_are_no_settings() -> None:
    """Those of the cache, of others, and what Kubernetes tells of a Service of the shim's own name."""
    environ = {
        "OFFSET_SHIM_CACHE": "/tmp",
        "_OFFSET_SHIM_COMPLETE": "bash_source",
        "OFFSET_SHIM_SERVICE_HOST": "10.0.0.1",
        "OFFSET_SHIM_SERVICE_PORT": "19092",
        "OFFSET_SHIM_SERVICE_PORT_BROKER_0": "19093",
        "OFFSET_SHIM_PORT": "tcp://10.0.0.1:19092",
        "OFFSET_SHIM_PORT_19092_TCP": "tcp://10.0.0.1:19092",
        "OFFSET_SHIM_PORT_19092_TCP_PROTO": "tcp",
        "OFFSET_SHIM_PORT_19092_TCP_PORT": "19092",
        "OFFSET_SHIM_PORT_19092_TCP_ADDR": "10.0.0.1",
    }
    assert not load_configuration(None, (), environ).given


@pytest.mark.parametrize("option", [ADMIN_TOKEN_FILE, ADMIN_CA_FILE, ADMIN_CERTIFICATE_FILE])
def test_what_commands_show_to_an_admin_port_keeps_no_shim_from_starting(option: str) -> None:
    """The token's file is a setting, too."""

    @click.command()
    @admin_file_option(option)
    def command() -> None: ...

    (parameter,) = command.params
    assert isinstance(parameter.envvar, str)
    found = load_configuration(None, (), {parameter.envvar: "/tmp/file"}).given
    assert bool(found) is (option == ADMIN_TOKEN_FILE)


def test_where_commands_find_an_admin_port_keeps_no_shim_from_starting() -> None:
    assert not load_configuration(None, (), {ADMIN_VARIABLE: "127.0.0.1:9645"}).given


def test_what_is_no_assignment_is_not_repeated() -> None:
    with pytest.raises(SettingError, match=r"^--set upstream\.sasl\.password: expected name=value$"):
        load_configuration(None, ["upstream.sasl.password:never-to-be-shown"])
