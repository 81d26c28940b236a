"""Settings: Kafka's names, Kafka's defaults (but for flushing), and one clear line for whatever is wrong with a value.

A setting's attribute is its Kafka name with the dots turned into underscores, so the table below is the only place
where a setting is named. Values come from a TOML file (``--config``), then from ``--set name=value``; the later wins.
"""

from __future__ import annotations

import difflib
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


class SettingError(ValueError):
    """A setting that cannot be used; the message is one line fit for a terminal."""


class HostPort(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_host_port(text: str) -> HostPort:
    """Read ``host:port``; an IPv6 address stands in brackets. Raises :class:`SettingError`."""
    host, colon, port = text.strip().rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or not host or (":" in host and not bracketed):
        raise SettingError(f"{text!r} is not host:port (an IPv6 address stands in brackets)")
    if not port.isascii() or not port.isdecimal() or not 0 < int(port) < 65536:
        raise SettingError(f"{text!r}: the port must be a number from 1 to 65535")
    return HostPort(host[1:-1] if bracketed else host, int(port))


def parse_servers(text: str) -> tuple[HostPort, ...]:
    """Read ``host:port[,host:port]…``. Raises :class:`SettingError`."""
    servers = tuple(parse_host_port(part) for part in text.split(",") if part.strip())
    if not servers:
        raise SettingError("no server given, expected host:port[,host:port]")
    return servers


def _integer(default: int, low: int, high: int, doc: str) -> Any:
    return field(default=default, metadata={"kind": int, "low": low, "high": high, "doc": doc})


def _number(default: float, low: float, high: float, doc: str) -> Any:
    return field(default=default, metadata={"kind": float, "low": low, "high": high, "doc": doc})


def _boolean(default: bool, doc: str) -> Any:
    return field(default=default, metadata={"kind": bool, "low": False, "high": True, "doc": doc})


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting of ``serve`` that is not a command-line option of its own. Times are in milliseconds."""

    offsets_topic_num_partitions: int = _integer(50, 1, 100_000, "Partitions of the offsets log; fixed once written.")
    # An emptied segment is 61 bytes: two of them at least must fit into one, or compaction never merges them.
    offsets_topic_segment_bytes: int = _integer(104_857_600, 1024, INT32_MAX, "Size at which a log segment is closed.")
    log_roll_ms: int = _integer(604_800_000, 1, INT64_MAX, "Age at which a log segment is closed.")
    log_flush_interval_messages: int = _integer(1, 1, INT64_MAX, "Most unflushed records of a partition.")
    log_flush_interval_ms: int = _integer(INT64_MAX, 1, INT64_MAX, "Longest that a record stays unflushed.")
    log_flush_offset_checkpoint_interval_ms: int = _integer(
        60_000, 1, INT32_MAX, "How often flushed offsets are noted."
    )
    log_cleaner_enable: bool = _boolean(True, "Whether the offsets log is compacted while the shim runs.")
    log_cleaner_backoff_ms: int = _integer(15_000, 0, INT64_MAX, "Pause of the cleaner when nothing is to be cleaned.")
    log_cleaner_min_cleanable_ratio: float = _number(0.5, 0.0, 1.0, "Share of a log that is dirty when it is cleaned.")
    log_cleaner_delete_retention_ms: int = _integer(
        86_400_000, 0, INT64_MAX, "How long tombstones stay after they were first cleaned."
    )
    log_cleaner_dedupe_buffer_size: int = _integer(
        134_217_728, 1, INT64_MAX, "Memory for the keys of one round of cleaning."
    )
    log_cleaner_io_max_bytes_per_second: float = _number(
        sys.float_info.max, 1.0, sys.float_info.max, "Most that the cleaner reads and writes."
    )
    offset_metadata_max_bytes: int = _integer(4096, 0, INT32_MAX, "Longest metadata string of a commit (UTF-16 units).")
    offsets_commit_timeout_ms: int = _integer(5000, 1, INT32_MAX, "Longest wait for a commit to become durable.")
    offsets_retention_minutes: int = _integer(10_080, 1, INT32_MAX, "How long offsets stay when nobody uses them.")
    offsets_retention_check_interval_ms: int = _integer(600_000, 1, INT64_MAX, "How often old offsets are looked for.")
    offsets_history_retention_minutes: int = _integer(
        10_080, 0, INT32_MAX, "How long every commit is kept in the history; 0: there is none."
    )
    group_min_session_timeout_ms: int = _integer(6000, 1, INT32_MAX, "Shortest session time-out a member may ask for.")
    group_max_session_timeout_ms: int = _integer(1_800_000, 1, INT32_MAX, "Longest session time-out a member may have.")
    group_initial_rebalance_delay_ms: int = _integer(3000, 0, INT32_MAX, "Wait for more members of an empty group.")
    group_max_size: int = _integer(INT32_MAX, 1, INT32_MAX, "Most members a group may have.")
    group_memory_max_bytes: int = _integer(
        1 << 30, 1 << 20, INT64_MAX, "Most memory that all groups and members may take."
    )
    socket_request_max_bytes: int = _integer(104_857_600, 1024, INT32_MAX, "Largest request a client may send.")
    socket_connection_setup_timeout_ms: int = _integer(10_000, 1, INT32_MAX, "Longest wait for a broker to connect.")
    request_timeout_ms: int = _integer(30_000, 1, INT32_MAX, "Longest wait for a broker's answer to the shim itself.")
    topology_refresh_interval_ms: int = _integer(
        5000, 10, INT32_MAX, "How often the cluster's brokers and topics are looked up."
    )
    shutdown_drain_timeout_ms: int = _integer(4000, 0, INT32_MAX, "Longest wait for requests in flight at shutdown.")

    def __post_init__(self) -> None:
        if self.group_min_session_timeout_ms > self.group_max_session_timeout_ms:
            raise SettingError(
                f"group.min.session.timeout.ms ({self.group_min_session_timeout_ms}) is larger than "
                f"group.max.session.timeout.ms ({self.group_max_session_timeout_ms})"
            )


_BY_NAME = {f.name.replace("_", "."): f for f in fields(Settings)}


def load_settings(config: Path | None, assignments: Iterable[str]) -> Settings:
    """Settings from a TOML file and from ``name=value`` texts, the latter winning.

    Raises :class:`SettingError` for a file that cannot be read, an unknown name (a near one is suggested) or a value
    of the wrong type or out of range.
    """
    values: dict[str, Any] = {}
    if config is not None:
        for name, value in _flatten(_read_toml(config)):
            attribute = _attribute(name)
            values[attribute] = _checked(name, value)
    for text in assignments:
        name, equals, raw = text.partition("=")
        if not equals:
            raise SettingError(f"--set {text}: expected name=value")
        attribute = _attribute(name.strip())
        values[attribute] = _checked(name.strip(), raw.strip())
    return Settings(**values)


def _read_toml(path: Path) -> Mapping[str, Any]:
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise SettingError(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingError(f"{path}: {error}") from error


def _flatten(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """TOML reads ``a.b = 1`` as nested tables: put the dotted names together again."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _attribute(name: str) -> str:
    if name in _BY_NAME:
        return _BY_NAME[name].name
    near = difflib.get_close_matches(name, _BY_NAME, n=1)
    raise SettingError(f"unknown setting {name!r}" + (f", did you mean {near[0]}?" if near else ""))


def _checked(name: str, value: object) -> int | float:
    metadata = _BY_NAME[name].metadata
    kind, low, high = metadata["kind"], metadata["low"], metadata["high"]
    number: int | float | None
    if kind is bool:
        number = {"true": True, "false": False}.get(str(value).lower())
        expected = "true or false"
    else:
        expected = f"a {'whole ' if kind is int else ''}number from {low} to {high}"
        try:
            number = kind(value) if isinstance(value, str) else value if isinstance(value, int | float) else None
        except ValueError:
            number = None
        if isinstance(number, bool) or (kind is int and not isinstance(number, int)):
            number = None
    if number is None or not low <= number <= high:
        raise SettingError(f"{name}: {value!r} is not {expected}")
    return number
