"""Names and values as they are given: which setting is meant, and whether it may have that value."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import Field, fields
from typing import Any, Final, NamedTuple

from shim.config.addresses import SettingError
from shim.config.settings import Settings

BY_NAME: Final = {f.name.replace("_", "."): f for f in fields(Settings)}
"""Every setting, by the name that users know."""

OPTIONS: Final = {
    "bootstrap.servers": "--bootstrap-servers",
    "listen": "--listen",
    "data.dir": "--data-dir",
    "advertised.host": "--advertised-host",
    "admin.listen": "--admin",
    "zookeeper.connect": "--zookeeper",
    "registrar.enable": "--registrar",
    "workers": "--workers",
}
"""The settings that are options of ``serve`` as well."""

_BY_OPTION: Final = {option.removeprefix("--"): name for name, option in OPTIONS.items()}

LISTENER_PREFIX: Final = "listener.name."

_PER_LISTENER: Final = ("ssl.", "max.connections", "connections.max.idle.ms", "socket.request.max.bytes")
"""How the names of settings begin that a listener can have for itself, as ``listener.name.<name>.<setting>``."""


class Named(NamedTuple):
    """``listener``: the one that has the setting for itself, its name in lower case; empty: it is everybody's."""

    setting: str
    listener: str = ""

    @property
    def field(self) -> Field[Any]:
        return BY_NAME[self.setting]

    @property
    def attribute(self) -> str:
        """Of :class:`Settings`."""
        return self.field.name

    @property
    def is_secret(self) -> bool:
        return bool(self.field.metadata.get("secret"))

    @property
    def is_reloadable(self) -> bool:
        """Whether a running shim takes another value of it."""
        return bool(self.field.metadata["reloadable"])

    def __str__(self) -> str:
        return f"{LISTENER_PREFIX}{self.listener}.{self.setting}" if self.listener else self.setting


def is_per_listener(setting: str) -> bool:
    return setting.startswith(_PER_LISTENER)


def named(name: str) -> Named:
    """Raises :class:`SettingError` for a name that no setting has, with a near one."""
    if not name.startswith(LISTENER_PREFIX):
        return Named(_known(name, name))
    listener, _, setting = name.removeprefix(LISTENER_PREFIX).partition(".")
    known = _known(setting, name)
    if not is_per_listener(known):
        raise SettingError(f"{name}: {known} is the same for all listeners")
    return Named(known, listener)


def near(name: str, names: Iterable[str]) -> str:
    """The end of a message about an unknown ``name``: which was meant, if one of ``names`` is like it."""
    found = difflib.get_close_matches(name, list(names), n=1)
    return f", did you mean {found[0]}?" if found else ""


def checked(name: Named, value: object) -> int | float | str:
    """``value`` as the setting has it. Raises :class:`SettingError`, without the value where that is secret."""
    metadata = name.field.metadata
    given = _as(metadata["kind"], value)
    fits = given is not None
    if "choices" in metadata:
        fits = given in metadata["choices"]
    elif "low" in metadata and given is not None:
        fits = bool(metadata["low"] <= given <= metadata["high"])
    if given is None or not fits:
        shown = "this" if name.is_secret else repr(value)
        raise SettingError(f"{name}: {shown} is not {metadata['expected']}")
    return given


def _known(setting: str, given_name: str) -> str:
    """``given_name``: as it was given, which may be longer."""
    if setting in BY_NAME:
        return setting
    raise SettingError(f"unknown setting {given_name!r}{_meant(given_name) or near(setting, BY_NAME)}")


def _meant(name: str) -> str:
    """The end of a message about an option's name where a setting's should be; "" for any other.

    What is nearest to it may be something else.
    """
    option = name.removeprefix("--").replace(".", "-").replace("_", "-")
    return f", did you mean {_BY_OPTION[option]}?" if option in _BY_OPTION else ""


def _as(kind: type, value: object) -> int | float | str | None:
    """None for what is no such value."""
    if kind is str:
        return value if isinstance(value, str) else None
    if kind is bool:
        return {"true": True, "false": False}.get(str(value).lower())
    if (
        isinstance(value, bool)
        or not isinstance(value, str | int | float)
        or (kind is int and isinstance(value, float))
    ):
        return None
    try:
        return kind(value) if isinstance(value, str) else value
    except ValueError:
        return None
