"""What ``serve`` was given: where it listens, what it stands in front of, and where its data is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from shim.config import (
    BY_NAME,
    DEFAULT,
    OPTIONS,
    Configuration,
    HostPort,
    SettingError,
    Settings,
    check_admin_reach,
    parse_connect_string,
    parse_host_port,
    parse_servers,
)
from shim.listener_config import (
    AdminListener,
    Listener,
    ShimsListener,
    admin_listener_of,
    listeners_of,
    shims_listener_of,
)
from shim.workers_folder import MOST_PATH_BYTES, has_room_for_sockets

_REQUIRED: Final = ("bootstrap.servers", "listen", "data.dir")


class Given(NamedTuple):
    """``listening``: never empty. ``zookeeper``: a connect string."""

    settings: Settings
    bootstrap: tuple[HostPort, ...]
    listening: tuple[Listener, ...]
    data_dir: Path
    admin: AdminListener | None
    zookeeper: str | None
    registrar: bool
    secrets: frozenset[str]
    """What is not to be printed, of listeners, too."""
    shims_listener: ShimsListener | None = None


def given_to_serve(configuration: Configuration) -> Given:
    """Raises :class:`SettingError` for what is missing or cannot be read, with where it was given."""
    missing = [name for name in _REQUIRED if not _is_given(configuration, name)]
    if missing:
        needed = " and ".join(f"{OPTIONS[name]} (or the setting {name})" for name in missing)
        raise SettingError(f"missing: {needed}")
    check_given(configuration)
    settings = configuration.settings
    return Given(
        settings,
        parse_servers(settings.bootstrap_servers),
        _listening(configuration),
        Path(settings.data_dir),
        admin_listener_of(configuration),
        settings.zookeeper_connect or None,
        settings.registrar_enable,
        configuration.secrets,
        shims_listener_of(configuration),
    )


def check_given(configuration: Configuration) -> None:
    """What was given, judged as ``serve`` judges it; what is missing yet is let pass.

    Raises :class:`SettingError` for what cannot be read or does not go together, with where it was given.
    """
    settings = configuration.settings
    for setting, parse in _READ.items():
        text = getattr(settings, BY_NAME[setting].name)
        if text or (setting in _REQUIRED and _is_given(configuration, setting)):
            with _naming(configuration, setting):
                parse(text)
    if (admin := admin_listener_of(configuration)) is not None:
        with _naming(configuration, "admin.listen"):
            guarded = bool(settings.admin_token_file or settings.admin_insecure or admin.wants_certificates)
            check_admin_reach(admin.address, guarded=guarded)
    if _is_given(configuration, "listen"):  # the listeners hang on it
        _listening(configuration)
    shims_listener_of(configuration)
    _check_workers(configuration)
    if settings.registrar_enable and not settings.zookeeper_connect:
        raise SettingError(f"{configuration.called('registrar.enable')} needs to know where: --zookeeper")


def _check_workers(configuration: Configuration) -> None:
    """What several processes cannot share yet."""
    settings = configuration.settings
    if settings.workers == 1:
        return
    workers = f"{configuration.called('workers')} {settings.workers}"
    if settings.workers > settings.offsets_topic_num_partitions:
        raise SettingError(
            f"{workers}: offsets.topic.num.partitions is {settings.offsets_topic_num_partitions}, and each needs one"
        )
    if settings.offsets_log == "moving":
        raise SettingError(
            f"{workers} does not go with {configuration.called('offsets.log')}=moving: start it without workers until "
            "the move is over"
        )
    for setting, why in _NOT_WITH_WORKERS.items():
        if getattr(settings, BY_NAME[setting].name) != BY_NAME[setting].default:
            raise SettingError(f"{workers} does not go with {configuration.called(setting)} yet: {why}")
    if not has_room_for_sockets(Path(settings.data_dir), settings.workers):
        raise SettingError(
            f"{configuration.called('data.dir')}: {workers} need sockets in it, and a socket's path has "
            f"{MOST_PATH_BYTES} bytes at most: have it in a folder whose path is shorter"
        )


def _is_given(configuration: Configuration, setting: str) -> bool:
    return configuration.source_of(setting) != DEFAULT


def _listening(configuration: Configuration) -> tuple[Listener, ...]:
    settings = configuration.settings
    return listeners_of(configuration, parse_host_port(settings.listen), settings.advertised_host or None)


def _folder(text: str) -> Path:
    path = Path(text)
    if not text:
        raise SettingError("no folder is named")
    try:
        is_file = path.exists() and not path.is_dir()
    except OSError as error:
        raise SettingError(f"{text[:200]!r}: {error.strerror}") from error
    if is_file:
        raise SettingError(f"{text!r} is a file")
    return path


_NOT_WITH_WORKERS: Final[Mapping[str, str]] = {
    "offsets.log": "shims share that log among themselves, start another one",
    "zookeeper.connect": "one process watches what is there",
    "metrics.statsd.address": "each would send its own part as the whole",
}

_READ: Final[Mapping[str, Callable[[str], object]]] = {
    "bootstrap.servers": parse_servers,
    "listen": parse_host_port,
    "data.dir": _folder,
    "admin.listen": parse_host_port,
    "zookeeper.connect": parse_connect_string,
    "shims.listener": parse_host_port,
}


@contextmanager
def _naming(configuration: Configuration, setting: str) -> Iterator[None]:
    """Whoever gave a wrong value is told where."""
    try:
        yield
    except SettingError as error:
        raise SettingError(f"{configuration.called(setting)}: {error}") from error
