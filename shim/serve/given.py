"""What ``serve`` was given: where it listens, what it stands in front of, and where its data is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from shim.config import DEFAULT, Configuration, HostPort, SettingError, Settings, parse_host_port, parse_servers
from shim.listener_config import Listener, listeners_of
from shim.offsets.zookeeper.kazoo_client import parse_connect_string

OPTIONS: Final = {
    "bootstrap.servers": "--bootstrap-servers",
    "listen": "--listen",
    "data.dir": "--data-dir",
    "advertised.host": "--advertised-host",
    "admin.listen": "--admin",
    "zookeeper.connect": "--zookeeper",
    "registrar.enable": "--registrar",
}
"""The settings that are options of ``serve`` as well."""

_REQUIRED: Final = ("bootstrap.servers", "listen", "data.dir")

Read = TypeVar("Read")


class Given(NamedTuple):
    """``listening``: never empty. ``zookeeper``: a connect string."""

    settings: Settings
    bootstrap: tuple[HostPort, ...]
    listening: tuple[Listener, ...]
    data_dir: Path
    admin: HostPort | None
    zookeeper: str | None
    registrar: bool
    secrets: frozenset[str]
    """What is not to be printed, of listeners, too."""


def given_to_serve(configuration: Configuration) -> Given:
    """Raises :class:`SettingError` for what is missing or cannot be read, with where it was given."""
    settings = configuration.settings
    missing = [name for name in _REQUIRED if configuration.source_of(name) == DEFAULT]
    if missing:
        needed = " and ".join(f"{OPTIONS[name]} (or the setting {name})" for name in missing)
        raise SettingError(f"missing: {needed}")

    def read(setting: str, text: str, parse: Callable[[str], Read]) -> Read:
        with _naming(configuration, setting):
            return parse(text)

    bootstrap = read("bootstrap.servers", settings.bootstrap_servers, parse_servers)
    address = read("listen", settings.listen, parse_host_port)
    data_dir = read("data.dir", settings.data_dir, _folder)
    admin = read("admin.listen", settings.admin_listen, parse_host_port) if settings.admin_listen else None
    listening = listeners_of(configuration, address, settings.advertised_host or None)
    zookeeper = settings.zookeeper_connect or None
    registrar = settings.registrar_enable
    if registrar and zookeeper is None:
        raise SettingError(f"{_called(configuration, 'registrar.enable')} needs to know where: --zookeeper")
    if zookeeper is not None:
        read("zookeeper.connect", zookeeper, parse_connect_string)
    return Given(settings, bootstrap, listening, data_dir, admin, zookeeper, registrar, configuration.secrets)


def _folder(text: str) -> Path:
    path = Path(text)
    if not text:
        raise SettingError("no folder is named")
    if path.exists() and not path.is_dir():
        raise SettingError(f"{text!r} is a file")
    return path


@contextmanager
def _naming(configuration: Configuration, setting: str) -> Iterator[None]:
    """Whoever gave a wrong value is told where."""
    try:
        yield
    except SettingError as error:
        raise SettingError(f"{_called(configuration, setting)}: {error}") from error


def _called(configuration: Configuration, setting: str) -> str:
    """By the option alone where it was one."""
    source = configuration.source_of(setting)
    if source == OPTIONS[setting]:
        return source
    return setting if source == "--set" else f"{source}: {setting}"
