"""Settings: Kafka's names, Kafka's defaults (but for flushing), and one clear line for whatever is wrong with a value.

A setting's attribute is its Kafka name with the dots turned into underscores, so the table below is the only place
where a setting is named. Values come from a TOML file (``--config``), then from ``--set name=value``; the later wins.
"""

from __future__ import annotations

import difflib
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
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


def parse_counts(text: str) -> tuple[tuple[str, int], ...]:
    """Read ``host:count[,host:count]…`` of max.connections.per.ip.overrides; an IPv6 address may stand in brackets.

    Raises :class:`SettingError`.
    """
    counts = []
    for part in filter(None, map(str.strip, text.split(","))):
        host, _, count = part.rpartition(":")
        if not host or not count.isascii() or not count.isdecimal() or int(count) > INT32_MAX:
            raise SettingError(f"max.connections.per.ip.overrides: {part!r} is not host:count")
        counts.append((host.removeprefix("[").removesuffix("]"), int(count)))
    return tuple(counts)


def _integer(default: int, low: int, high: int, doc: str) -> Any:
    metadata = {"kind": int, "expected": f"a whole number from {low} to {high}", "low": low, "high": high, "doc": doc}
    return field(default=default, metadata=metadata)


def _number(default: float, low: float, high: float, doc: str) -> Any:
    metadata = {"kind": float, "expected": f"a number from {low} to {high}", "low": low, "high": high, "doc": doc}
    return field(default=default, metadata=metadata)


def _boolean(default: bool, doc: str) -> Any:
    return field(default=default, metadata={"kind": bool, "expected": "true or false", "doc": doc})


def _text(default: str, doc: str) -> Any:
    """An empty one counts as not set."""
    return field(default=default, metadata={"kind": str, "expected": "text", "doc": doc})


def _choice(default: str, choices: tuple[str, ...], doc: str) -> Any:
    """An empty one counts as not set."""
    expected = ("one of " if all(choices) else "empty or one of ") + ", ".join(filter(None, choices))
    return field(default=default, metadata={"kind": str, "expected": expected, "choices": choices, "doc": doc})


def _secret(doc: str) -> Any:
    """Never shown: not in a message, not in :class:`Settings`' own text."""
    return field(default="", repr=False, metadata={"kind": str, "expected": "text", "secret": True, "doc": doc})


PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""Kafka's names for what is spoken on a connection."""

_PER_LISTENER = ("ssl.", "max.connections", "connections.max.idle.ms", "socket.request.max.bytes")
"""How the names of settings begin that a listener can have for itself, as ``listener.name.<name>.<setting>``."""


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
    offsets_mirror_upstream: bool = _boolean(
        True, "Whether the cluster's own offsets of groups that the shim serves are kept as they are in the log."
    )
    group_min_session_timeout_ms: int = _integer(6000, 1, INT32_MAX, "Shortest session time-out a member may ask for.")
    group_max_session_timeout_ms: int = _integer(1_800_000, 1, INT32_MAX, "Longest session time-out a member may have.")
    group_new_served: bool = _boolean(
        True, "Whether the shim serves a group that neither it nor the cluster knows; otherwise it is passed through."
    )
    group_handover_timeout_ms: int = _integer(
        60_000, 1, INT32_MAX, "How long the members of a group that changes hands have to join again."
    )
    group_initial_rebalance_delay_ms: int = _integer(3000, 0, INT32_MAX, "Wait for more members of an empty group.")
    group_max_size: int = _integer(INT32_MAX, 1, INT32_MAX, "Most members a group may have.")
    group_memory_max_bytes: int = _integer(
        1 << 30, 1 << 20, INT64_MAX, "Most memory that all groups and members may take."
    )
    socket_request_max_bytes: int = _integer(104_857_600, 1024, INT32_MAX, "Largest request a client may send.")
    queued_max_request_bytes: int = _integer(
        104_857_600, -1, INT64_MAX, "Room for the requests that the shim answers itself; -1: no bound."
    )
    max_connections: int = _integer(INT32_MAX, 1, INT32_MAX, "Most connections of clients at a time.")
    max_connections_per_ip: int = _integer(INT32_MAX, 0, INT32_MAX, "Most connections of one address.")
    max_connections_per_ip_overrides: str = _text("", "Others for some addresses: host:count[,host:count].")
    max_connection_creation_rate: int = _integer(INT32_MAX, 1, INT32_MAX, "Most new connections in a second.")
    connections_max_idle_ms: int = _integer(600_000, 1, INT64_MAX, "When a silent connection is closed.")
    socket_connection_setup_timeout_ms: int = _integer(10_000, 1, INT32_MAX, "Longest wait for a broker to connect.")
    upstream_sasl_mechanism: str = _choice(
        "PLAIN", ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"), "How the shim itself authenticates."
    )
    upstream_sasl_username: str = _text("", "Who the shim itself is to the brokers.")
    upstream_sasl_password: str = _secret("The password of that user.")
    upstream_sasl_oauthbearer_token_endpoint_url: str = _text(
        "", "`file:///` and the path of a file with a token; read for each connection."
    )
    sasl_server_max_receive_size: int = _integer(
        524_288, 1, INT32_MAX, "Largest request of a client that has not authenticated."
    )
    request_timeout_ms: int = _integer(30_000, 1, INT32_MAX, "Longest wait for a broker's answer to the shim itself.")
    topology_refresh_interval_ms: int = _integer(
        5000, 10, INT32_MAX, "How often the cluster's brokers and topics are looked up."
    )
    zookeeper_session_timeout_ms: int = _integer(
        18_000, 1, INT32_MAX, "When ZooKeeper takes a shim that it does not hear of for dead."
    )
    zookeeper_username: str = _text("", "Who the shim is to ZooKeeper, in its scheme `digest`; nobody by default.")
    zookeeper_password: str = _secret("The password of that user.")
    zookeeper_set_acl: bool = _boolean(
        False, "Whether what the shim creates in ZooKeeper is that user's alone; otherwise it is everybody's."
    )
    listeners: str = _text("", "Listeners beside the one of `--listen`: `NAME://host:port`, with commas between.")
    advertised_listeners: str = _text(
        "", "What a listener's clients are told: `NAME://host:port`, with commas between."
    )
    listener_security_protocol_map: str = _text("", "What is spoken at each listener: `NAME:SSL`, with commas between.")
    security_protocol: str = _choice("", ("", *PROTOCOLS), "What is spoken at `--listen`.")
    ssl_keystore_type: str = _choice("PEM", ("PEM",), "Kind of the file in `ssl.keystore.location`.")
    ssl_keystore_location: str = _text("", "File with the key and the certificate chain that clients are shown.")
    ssl_key_password: str = _secret("Password of that key, if it has one.")
    ssl_truststore_type: str = _choice("PEM", ("PEM",), "Kind of the file in `ssl.truststore.location`.")
    ssl_truststore_location: str = _text("", "File with the CAs that clients' certificates have to be from.")
    ssl_client_auth: str = _choice("none", ("none", "requested", "required"), "Whether clients show a certificate.")
    ssl_enabled_protocols: str = _text("TLSv1.2,TLSv1.3", "TLS versions that clients may speak.")
    ssl_cipher_suites: str = _text("", "Cipher suites of TLS 1.2 that clients may use; empty: those of OpenSSL.")
    upstream_security_protocol: str = _choice("PLAINTEXT", PROTOCOLS, "What is spoken with brokers.")
    upstream_ssl_truststore_type: str = _choice(
        "PEM", ("PEM",), "Kind of the file in `upstream.ssl.truststore.location`."
    )
    upstream_ssl_truststore_location: str = _text(
        "", "File with the CAs that brokers' certificates have to be from; empty: those of the system."
    )
    upstream_ssl_keystore_type: str = _choice("PEM", ("PEM",), "Kind of the file in `upstream.ssl.keystore.location`.")
    upstream_ssl_keystore_location: str = _text(
        "", "File with the key and the certificate chain that brokers are shown."
    )
    upstream_ssl_key_password: str = _secret("Password of that key, if it has one.")
    upstream_ssl_endpoint_identification_algorithm: str = _choice(
        "https", ("", "https"), "Whether a broker's certificate has to be for its host name; empty: it need not."
    )
    authorization_cache_ms: int = _integer(
        10_000, 0, INT32_MAX, "How long what a client may do is believed; 0: it is asked for with each request."
    )
    fault_injection_file: str = _text("", "For tests alone: a TOML file of faults.")
    shutdown_drain_timeout_ms: int = _integer(4000, 0, INT32_MAX, "Longest wait for requests in flight at shutdown.")

    def __post_init__(self) -> None:
        if self.group_min_session_timeout_ms > self.group_max_session_timeout_ms:
            raise SettingError(
                f"group.min.session.timeout.ms ({self.group_min_session_timeout_ms}) is larger than "
                f"group.max.session.timeout.ms ({self.group_max_session_timeout_ms})"
            )
        overrides = parse_counts(self.max_connections_per_ip_overrides)
        if not self.max_connections_per_ip and not overrides:
            raise SettingError("max.connections.per.ip can be 0 only where max.connections.per.ip.overrides is set")
        if self.brokers_authenticate:
            self._check_credentials()
        if bool(self.zookeeper_username) != bool(self.zookeeper_password):
            raise SettingError("zookeeper.username and zookeeper.password are of use only together")
        if self.zookeeper_set_acl and not self.zookeeper_username:
            raise SettingError("zookeeper.set.acl needs zookeeper.username: what is created has to be somebody's")

    @property
    def brokers_authenticate(self) -> bool:
        """Whether brokers want SASL, of clients and of the shim."""
        return self.upstream_security_protocol.startswith("SASL_")

    def _check_credentials(self) -> None:
        """Without any the shim could not ask the brokers anything."""
        mechanism = self.upstream_sasl_mechanism
        if mechanism == "OAUTHBEARER":
            url = self.upstream_sasl_oauthbearer_token_endpoint_url
            if not url.startswith("file:///"):
                raise SettingError(
                    f"upstream.sasl.oauthbearer.token.endpoint.url: {url!r} is not file:/// and the path of a file"
                )
        elif not self.upstream_sasl_username or not self.upstream_sasl_password:
            raise SettingError(
                f"upstream.sasl.mechanism {mechanism} needs upstream.sasl.username and upstream.sasl.password"
            )


_BY_NAME = {f.name.replace("_", "."): f for f in fields(Settings)}


_LISTENER_PREFIX = "listener.name."


class Configuration(NamedTuple):
    """``by_listener``: what a listener, its name in lower case, has for itself, by attribute of :class:`Settings`."""

    settings: Settings
    by_listener: Mapping[str, Mapping[str, Any]]

    def of_listener(self, name: str) -> Settings:
        """The settings as they are at one listener. Raises :class:`SettingError` where they do not go together."""
        return replace(self.settings, **self.by_listener.get(name.lower(), {}))


def load_settings(config: Path | None, assignments: Iterable[str]) -> Settings:
    """As :func:`load_configuration`, without what a listener has for itself."""
    return load_configuration(config, assignments).settings


def load_configuration(config: Path | None, assignments: Iterable[str]) -> Configuration:
    """Settings from a TOML file and from ``name=value`` texts, the latter winning.

    Raises :class:`SettingError` for a file that cannot be read, an unknown name (a near one is suggested) or a value
    of the wrong type or out of range.
    """
    values: dict[str, Any] = {}
    by_listener: dict[str, dict[str, Any]] = {}

    def take(name: str, value: object) -> None:
        if not name.startswith(_LISTENER_PREFIX):
            attribute = _attribute(name, name)
            values[attribute] = _checked(name, name, value)
            return
        listener, _, setting = name.removeprefix(_LISTENER_PREFIX).partition(".")
        attribute = _attribute(setting, name)
        if not setting.startswith(_PER_LISTENER):
            raise SettingError(f"{name}: {setting} is the same for all listeners")
        by_listener.setdefault(listener, {})[attribute] = _checked(setting, name, value)

    if config is not None:
        for name, value in _flatten(_read_toml(config)):
            take(name, value)
    for text in assignments:
        name, equals, raw = text.partition("=")
        if not equals:
            raise SettingError(f"--set {text}: expected name=value")
        take(name.strip(), raw.strip())
    return Configuration(Settings(**values), by_listener)


def _read_toml(path: Path) -> Mapping[str, Any]:
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise SettingError(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        # max.connections = 1 and max.connections.per.ip = 2 are a number and a table of the same name to TOML.
        quotes = '; write names in quotes: "max.connections" = 100' if "overwrite" in str(error) else ""
        raise SettingError(f"{path}: {error}{quotes}") from error


def _flatten(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """TOML reads ``a.b = 1`` as nested tables: put the dotted names together again."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _attribute(name: str, shown_name: str) -> str:
    """``shown_name``: the name as it was given, which may be longer."""
    if name in _BY_NAME:
        return _BY_NAME[name].name
    near = difflib.get_close_matches(name, _BY_NAME, n=1)
    raise SettingError(f"unknown setting {shown_name!r}" + (f", did you mean {near[0]}?" if near else ""))


def _checked(name: str, shown_name: str, value: object) -> int | float | str:
    metadata = _BY_NAME[name].metadata
    given = _as(metadata["kind"], value)
    fits = given is not None
    if "choices" in metadata:
        fits = given in metadata["choices"]
    elif "low" in metadata and given is not None:
        fits = bool(metadata["low"] <= given <= metadata["high"])
    if given is None or not fits:
        shown = "this" if metadata.get("secret") else repr(value)
        raise SettingError(f"{shown_name}: {shown} is not {metadata['expected']}")
    return given


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
