"""The settings that are in force, and where each is from: a file, then the environment, then the command line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from shim.config.addresses import SettingError
from shim.config.environment import read_environment
from shim.config.names import BY_NAME, OPTIONS, Named, checked, named
from shim.config.settings import Settings
from shim.config.toml_file import read_toml

DEFAULT: Final = "default"
HIDDEN: Final = "***"

_SETTING_IN_TEXT: Final = re.compile(r"[a-z]+(?:\.[a-z]+)+")


class Said(NamedTuple):
    """``source``: ``FILE:LINE``, a variable's name, ``--set``, or an option."""

    name: Named
    value: Any
    source: str


class Effective(NamedTuple):
    """``value``: ``***`` in place of a secret that is set; ``source``: as of :class:`Said`, or ``default``."""

    name: str
    value: Any
    source: str
    reloadable: bool


@dataclass(frozen=True, slots=True)
class Configuration:
    """``by_listener``: what a listener, its name in lower case, has for itself, by attribute of :class:`Settings`.
    ``given``: what was said, the last word of each setting.
    """

    settings: Settings
    by_listener: Mapping[str, Mapping[str, Any]]
    given: Mapping[Named, Said] = field(default_factory=dict)

    def of_listener(self, name: str) -> Settings:
        """The settings as they are at one listener. Raises :class:`SettingError` where they do not go together."""
        return replace(self.settings, **self.by_listener.get(name.lower(), {}))

    def source_of(self, setting: str) -> str:
        """Where this setting, which is the same for all listeners, is from: ``default`` where nobody gave it."""
        given = self.given.get(Named(setting))
        return DEFAULT if given is None else given.source

    def called(self, setting: str) -> str:
        """What to name where its value is wrong: file, line and setting, or the option alone where it was one."""
        source = self.source_of(setting)
        if source == OPTIONS.get(setting):
            return source
        return setting if source in {"--set", DEFAULT} else f"{source}: {setting}"

    @property
    def secrets(self) -> frozenset[str]:
        """The values that are never shown."""
        return frozenset(given.value for name, given in self.given.items() if name.is_secret and given.value)

    def effective(self) -> Iterator[Effective]:
        """All settings in their order, then those of listeners; no secret is among them."""
        for setting in BY_NAME:
            name = Named(setting)
            value = getattr(self.settings, name.attribute)
            yield _effective(name, value, self.source_of(setting))
        for name, given in sorted(self.given.items(), key=lambda each: (each[0].listener, each[0].setting)):
            if name.listener:
                yield _effective(name, given.value, given.source)


def _effective(name: Named, value: Any, source: str) -> Effective:
    return Effective(str(name), HIDDEN if name.is_secret and value else value, source, name.is_reloadable)


def load_configuration(
    config: Path | None,
    assignments: Iterable[str],
    environ: Mapping[str, str] | None = None,
    options: Mapping[str, tuple[str, object]] | None = None,
) -> Configuration:
    """Settings from a TOML file, from environment variables, from ``name=value`` texts and from options of the command
    line (by the setting's name: how the option is called, and its value); the later wins.

    Raises :class:`SettingError` for a file that cannot be read, an unknown name (a near one is suggested), a value of
    the wrong type or out of range, and values that do not go together: with file and line, or the variable's name.
    """
    given: dict[Named, Said] = {}
    for each in (
        *_from_file(config),
        *_from_environment(environ or {}),
        *_from_assignments(assignments),
        *(Said(Named(name), value, option) for name, (option, value) in (options or {}).items()),
    ):
        given[each.name] = each
    values: dict[str, Any] = {}
    by_listener: dict[str, dict[str, Any]] = {}
    for name, said in given.items():
        place = by_listener.setdefault(name.listener, {}) if name.listener else values
        place[name.attribute] = said.value
    try:
        return Configuration(Settings(**values), by_listener, given)
    except SettingError as error:
        raise SettingError(f"{error}{_places(str(error), given)}") from error


def _from_file(path: Path | None) -> Iterator[Said]:
    for number, name, value in read_toml(path) if path is not None else ():
        source = f"{path}:{number}"
        yield _given(name, value, source, f"{source}: ")


def _from_environment(environ: Mapping[str, str]) -> Iterator[Said]:
    for variable, name, value in read_environment(environ):
        yield Said(name, _checked(name, value, f"{variable}: "), variable)


def _from_assignments(assignments: Iterable[str]) -> Iterator[Said]:
    for text in assignments:
        name, equals, raw = text.partition("=")
        if not equals:
            # No more of it: a password that was meant to be a setting's is not to be printed.
            start = re.match(r"[\w.-]*", text)
            raise SettingError(f"--set {start[0] if start else ''}: expected name=value")
        yield _given(name.strip(), raw.strip(), "--set", "")


def _given(name: str, value: object, source: str, told: str) -> Said:
    try:
        which = named(name)
    except SettingError as error:
        raise SettingError(f"{told}{error}") from error
    return Said(which, _checked(which, value, told), source)


def _checked(name: Named, value: object, told: str) -> int | float | str:
    try:
        return checked(name, value)
    except SettingError as error:
        raise SettingError(f"{told}{error}") from error


def _places(message: str, given: Mapping[Named, Said]) -> str:
    """Where the settings that a message names were given."""
    names = dict.fromkeys(Named(name) for name in _SETTING_IN_TEXT.findall(message))
    found = [f"{name}: {given[name].source}" for name in names if name in given and given[name].source != "--set"]
    return f" ({'; '.join(found)})" if found else ""
