"""Every setting, in the file, in the environment and with --set: taken, or refused in one line that says where."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from shim.config import BY_NAME, SettingError, load_configuration
from shim.config.environment import variable_of

NAMES = sorted(BY_NAME)
MARKER = "never-to-be-shown"
ADDRESSES = ("max.connections.per.ip.overrides", "metrics.statsd.address")


class Place(NamedTuple):
    """``give`` reads a configuration in which one setting has this value; ``told``: how an error begins."""

    give: Callable[[Path, str, Any], Any]
    told: Callable[[Path, str], str]


def _in_file(folder: Path, name: str, value: Any) -> Any:
    file = folder / "shim.toml"
    file.write_text(f'# a comment\n\n"{name}" = {json.dumps(value)}\n')
    return load_configuration(file, ())


def _in_environment(folder: Path, name: str, value: Any) -> Any:
    return load_configuration(None, (), {variable_of(name): _as_text(value)})


def _with_set(folder: Path, name: str, value: Any) -> Any:
    return load_configuration(None, [f"{name}={_as_text(value)}"])


def _as_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


PLACES = {
    "file": Place(_in_file, lambda folder, name: f"{folder / 'shim.toml'}:3: {name}: "),
    "environment": Place(_in_environment, lambda folder, name: f"{variable_of(name)}: {name}: "),
    "set": Place(_with_set, lambda folder, name: f"{name}: "),
}

everywhere = pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)


def metadata(name: str) -> Any:
    return BY_NAME[name].metadata


def wrong_values(name: str) -> list[Any]:
    """Of another type, or out of range; texts are as they are."""
    data = metadata(name)
    if data["kind"] is bool:
        return ["perhaps", 1]
    if "choices" in data:
        return ["none of these"]
    if data["kind"] is str:
        return []
    return ["many", True, "", data["low"] - 1, *([data["high"] + 1] if data["kind"] is int else ["nan"])]


BOUNDED = [name for name in NAMES if wrong_values(name)]
# Of these a value that is right by itself needs another beside it.
NOT_ALONE = ("upstream.security.protocol", "zookeeper.username", "zookeeper.password", "zookeeper.set.acl")


def right_value(name: str) -> Any:
    """Another than the default, where there is one."""
    data = metadata(name)
    default: Any = BY_NAME[name].default
    if data["kind"] is bool:
        return not default
    if "choices" in data:
        return next((each for each in reversed(data["choices"]) if each and each != default), default)
    if data["kind"] is str:
        return "127.0.0.1:7" if name in ADDRESSES else MARKER
    if data["kind"] is float:
        return data["low"]
    return default - 1 if default == data["high"] else default + 1


@everywhere
@pytest.mark.parametrize("name", [name for name in NAMES if name not in NOT_ALONE])
def test_a_value_is_taken_from_everywhere(tmp_path: Path, name: str, place: Place) -> None:
    value = right_value(name)
    configuration = place.give(tmp_path, name, value)
    assert getattr(configuration.settings, BY_NAME[name].name) == value
    assert configuration.source_of(name) in (f"{tmp_path / 'shim.toml'}:3", variable_of(name), "--set")
    others = [row for row in configuration.effective() if row.name != name]
    assert {row.source for row in others} == {"default"}
    assert len(others) == len(NAMES) - 1


@everywhere
@pytest.mark.parametrize("name", BOUNDED)
def test_a_wrong_value_is_refused_with_what_is_allowed(tmp_path: Path, name: str, place: Place) -> None:
    for value in wrong_values(name):
        with pytest.raises(SettingError) as refused:
            place.give(tmp_path, name, value)
        message = str(refused.value)
        assert message.startswith(place.told(tmp_path, name)), (value, message)
        assert message.endswith(f"is not {metadata(name)['expected']}")
        assert "\n" not in message


@pytest.mark.parametrize("name", NAMES)
def test_what_is_no_text_is_refused_in_a_file(tmp_path: Path, name: str) -> None:
    for value in ([1], [MARKER]):
        with pytest.raises(SettingError) as refused:
            _in_file(tmp_path, name, value)
        message = str(refused.value)
        assert message.startswith(f"{tmp_path / 'shim.toml'}:3: {name}: ")
        assert not (metadata(name).get("secret") and MARKER in message)


@everywhere
@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_is_nearly_one_is_suggested(tmp_path: Path, name: str, place: Place) -> None:
    misspelt = f"{name[:3]}x{name[3:]}"
    with pytest.raises(SettingError) as refused:
        place.give(tmp_path, misspelt, MARKER)
    message = str(refused.value)
    meant = variable_of(name) if place is PLACES["environment"] else name
    assert f"did you mean {meant}?" in message
    assert MARKER not in message
    if place is PLACES["file"]:
        assert message.startswith(f"{tmp_path / 'shim.toml'}:3: unknown setting {misspelt!r}")


@pytest.mark.parametrize("name", [name for name in NAMES if metadata(name).get("secret")])
def test_a_secret_is_not_shown(name: str) -> None:
    given = {name: MARKER}
    if name == "zookeeper.password":
        given["zookeeper.username"] = "shim"
    configuration = load_configuration(None, [f"{each}={value}" for each, value in given.items()])
    assert getattr(configuration.settings, BY_NAME[name].name) == MARKER
    assert configuration.secrets == {MARKER}
    (row,) = [row for row in configuration.effective() if row.name == name]
    assert row.value == "***"
    assert MARKER not in repr(configuration.settings)


def test_no_two_settings_have_one_variable() -> None:
    assert len({variable_of(name) for name in NAMES}) == len(NAMES)
