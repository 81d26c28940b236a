"""Which listeners there are: where each listens, what its clients are told, what is spoken there, its settings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from shim.config import PROTOCOLS, Configuration, HostPort, SettingError, Settings, parse_host_port

WILDCARDS: Final = ("0.0.0.0", "::", "")  # noqa: S104  # refused as an address to tell clients

SHIMS: Final = "shims"
"""The name that the listener for other shims has in settings, and among a shim's addresses."""

ADMIN: Final = "admin"
"""Likewise that of the admin interface."""

TOO_NEAR: Final = "the listeners' ports are too near to each other"
"""What :func:`overlap` has found."""

_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")
_ADDRESS: Final = re.compile(rf"({_NAME.pattern})://(.*)")


class Listener(NamedTuple):
    """Bootstrap is at ``listen``, and the broker with node id i at its port + 1 + i. Clients are told of
    ``advertised``, counted in the same way. ``settings`` are as they are here.
    """

    name: str
    listen: HostPort
    advertised: HostPort
    security_protocol: str
    settings: Settings
    setting: str = "--listen"
    """What says where it listens."""

    @property
    def speaks_tls(self) -> bool:
        return self.security_protocol.endswith("SSL")

    @property
    def speaks_sasl(self) -> bool:
        return self.security_protocol.startswith("SASL_")

    def __str__(self) -> str:
        told = "" if self.advertised == self.listen else f", clients are told {self.advertised}"
        return f"{self.name} ({self.security_protocol}) at {self.listen}{told}"


class ShimsListener(NamedTuple):
    """Where other shims forward requests to. ``principals``: empty where no certificate is asked for."""

    address: HostPort
    speaks_tls: bool
    principals: frozenset[str]
    settings: Settings


class AdminListener(NamedTuple):
    """Where the admin interface is."""

    address: HostPort
    speaks_tls: bool
    settings: Settings

    @property
    def wants_certificates(self) -> bool:
        """Whether nobody gets in who does not show one."""
        return self.speaks_tls and self.settings.ssl_client_auth == "required"


def admin_listener_of(configuration: Configuration) -> AdminListener | None:
    """None where none is wanted. Raises :class:`SettingError`."""
    settings = configuration.settings
    if not settings.admin_listen:
        return None
    speaks_tls = _speaks_tls(settings, ADMIN, "at the admin interface")
    _check_not_in_vain(configuration, ADMIN, speaks_tls=speaks_tls)
    return AdminListener(parse_host_port(settings.admin_listen), speaks_tls, configuration.of_listener(ADMIN))


def _speaks_tls(settings: Settings, name: str, where: str) -> bool:
    """At a listener that is not for clients; ``name`` in any case, as Kafka's are. Raises :class:`SettingError`."""
    protocols = {
        each.lower(): protocol for each, protocol in _protocols(settings.listener_security_protocol_map).items()
    }
    protocol = protocols.get(name, "PLAINTEXT")
    if protocol not in ("PLAINTEXT", "SSL"):
        raise SettingError(f"listener.security.protocol.map: {protocol} is not spoken {where}, but SSL")
    return protocol == "SSL"


def _check_not_in_vain(configuration: Configuration, name: str, *, speaks_tls: bool) -> None:
    """Who sets up TLS does not mean a listener in clear; and it has nothing else for itself. Raises
    :class:`SettingError`."""
    for setting in sorted(each.setting for each in configuration.given if each.listener == name):
        if not setting.startswith("ssl."):
            raise SettingError(f"listener.name.{name}.{setting}: this listener has settings of TLS alone for itself")
        if not speaks_tls:
            raise SettingError(
                f"listener.name.{name}.{setting}: there is no TLS there without {name}:SSL in "
                "listener.security.protocol.map"
            )


def shims_listener_of(configuration: Configuration) -> ShimsListener | None:
    """None where none is wanted. What is forwarded is believed, so where clients have to say who they are other shims
    have to, too. Raises :class:`SettingError`."""
    settings = configuration.settings
    if not settings.shims_listener:
        return None
    where = configuration.called("shims.listener")
    if settings.offsets_log != "kafka":
        raise SettingError(f"{where}: it is for shims that share a log: offsets.log=kafka")
    address = parse_host_port(settings.shims_listener)
    if address.host in WILDCARDS:
        raise SettingError(f"{where}: other shims cannot connect to {address.host or 'every address'}")
    speaks_tls = _speaks_tls(settings, SHIMS, "between shims")
    own = configuration.of_listener(SHIMS)
    principals = frozenset(_parts(settings.shims_principals))
    is_vouched = speaks_tls and own.ssl_client_auth == "required" and bool(principals)
    if settings.brokers_authenticate and not is_vouched:
        raise SettingError(
            f"{where}: where clients authenticate other shims have to, too: listener.security.protocol.map=shims:SSL, "
            "listener.name.shims.ssl.client.auth=required and shims.principals"
        )
    if principals and not is_vouched:
        raise SettingError(
            f"{configuration.called('shims.principals')}: nobody shows a certificate without shims:SSL in "
            "listener.security.protocol.map and listener.name.shims.ssl.client.auth=required"
        )
    _check_not_in_vain(configuration, SHIMS, speaks_tls=speaks_tls)
    return ShimsListener(address, speaks_tls, principals, own)


def listeners_of(configuration: Configuration, listen: HostPort, advertised_host: str | None) -> tuple[Listener, ...]:
    """First the one of ``--listen`` and ``--advertised-host``, then those of ``listeners``.

    Raises :class:`SettingError`.
    """
    settings = configuration.settings
    if settings.upstream_security_protocol == "SASL_SSL" and not settings.security_protocol:
        raise SettingError(
            "upstream.security.protocol=SASL_SSL: say what clients speak at --listen: security.protocol=SASL_SSL (with "
            "ssl.keystore.location), or SASL_PLAINTEXT, by which their passwords pass in clear"
        )
    default = settings.security_protocol or ("SASL_PLAINTEXT" if settings.brokers_authenticate else "PLAINTEXT")
    addresses = {default: listen}
    for name, address in _addresses("listeners", settings.listeners):
        if name.lower() == default.lower():
            raise SettingError(f"listeners: {name} is the name of the one at --listen")
        addresses[name] = address
    protocols = {**_protocols(settings.listener_security_protocol_map), default: default}
    advertised = dict(_addresses("advertised.listeners", settings.advertised_listeners))
    if advertised_host:
        if default in advertised:
            raise SettingError(f"advertised.listeners: {default} is at --listen, and has its --advertised-host")
        advertised[default] = HostPort(advertised_host, listen.port)
    _all_known("advertised.listeners", advertised, addresses)
    lower = {name.lower() for name in addresses}
    for name, where in (
        (SHIMS, settings.shims_listener and "shims.listener"),
        (ADMIN, settings.admin_listen and "--admin"),
    ):
        if where:
            if name in lower:
                raise SettingError(f"listeners: {name} is the name of the one at {where}")
            lower.add(name)
    for name in configuration.by_listener:
        if name not in lower:
            raise SettingError(f"listener.name.{name}: there is no such listener (its name is in lower case here)")

    listeners = []
    for name, address in addresses.items():
        told = advertised.get(name, address)
        if told.host in WILDCARDS:
            of_two = ("listen", "advertised.host") if name == default else ("listeners", "advertised.listeners")
            where = configuration.called(of_two[name in advertised])
            remedy = _remedy(name, default)
            raise SettingError(f"{where}: clients cannot connect to {told.host or 'every address'}: {remedy}")
        if name not in protocols:
            raise SettingError(f"listener.security.protocol.map: it does not say what is spoken at {name}")
        listener = Listener(name, address, told, protocols[name], configuration.of_listener(name))
        if name != default:
            listener = listener._replace(setting="listeners")
        if listener.speaks_sasl != settings.brokers_authenticate:
            raise SettingError(
                f"{protocols[name]} at listener {name} and upstream.security.protocol="
                f"{settings.upstream_security_protocol} do not go together: it is the brokers that SASL is spoken with"
            )
        listeners.append(listener)
    if found := overlap(listeners):
        raise SettingError(f"{TOO_NEAR}: {found}")
    return tuple(listeners)


def overlap(listeners: Sequence[Listener], node_ids: Iterable[int] = ()) -> str | None:
    """Whether two listeners, one of them and the port for other shims, or the admin port, want the same port for what
    they have, with brokers of these node ids: which, in a line."""
    node_ids = sorted(node_ids)
    taken: dict[int, list[tuple[str, str]]] = {}
    for host, port, what in _wanted(listeners, node_ids):
        for other_host, other in taken.setdefault(port, []):
            if _same_interface(host, other_host):
                return f"port {port} would be {other} and {what}"
        taken[port].append((host, what))
    return None


def _wanted(listeners: Sequence[Listener], node_ids: Sequence[int]) -> Iterator[tuple[str, int, str]]:
    """Host, port and what it is for."""
    for listener in listeners:
        host, first = listener.listen
        yield host, first, f"bootstrap of {listener.name}"
        for node_id in node_ids:
            yield host, first + 1 + node_id, f"broker {node_id} of {listener.name}"
    settings = listeners[0].settings
    for text, what in ((settings.shims_listener, "shims.listener"), (settings.admin_listen, "--admin")):
        if text:
            host, port = parse_host_port(text)
            yield host, port, what


def _same_interface(one: str, other: str) -> bool:
    return one == other or one in WILDCARDS or other in WILDCARDS


def _remedy(name: str, default: str) -> str:
    return "give --advertised-host" if name == default else f"give {name} in advertised.listeners"


def _addresses(setting: str, text: str) -> Iterator[tuple[str, HostPort]]:
    seen: set[str] = set()
    for part in _parts(text):
        match = _ADDRESS.fullmatch(part)
        if match is None:
            raise SettingError(f"{setting}: {part!r} is not NAME://host:port")
        name, address = match.groups()
        if name.lower() in seen:
            raise SettingError(f"{setting}: {name} is there twice")
        seen.add(name.lower())
        try:
            # Kafka's form of every interface: nothing in front of the port.
            parsed = parse_host_port(f"*{address}" if address.startswith(":") else address)
        except SettingError as error:
            raise SettingError(f"{setting}: {name}: {error}") from error
        yield name, HostPort("", parsed.port) if parsed.host == "*" else parsed


def _protocols(text: str) -> dict[str, str]:
    protocols = {name: name for name in PROTOCOLS}
    for part in _parts(text):
        name, _, protocol = part.partition(":")
        if not _NAME.fullmatch(name) or protocol not in PROTOCOLS:
            raise SettingError(
                f"listener.security.protocol.map: {part!r} is not a name and one of {', '.join(PROTOCOLS)}, as in A:SSL"
            )
        protocols[name] = protocol
    return protocols


def _all_known(setting: str, names: Mapping[str, HostPort], known: Mapping[str, HostPort]) -> None:
    for name in names:
        if name not in known:
            raise SettingError(f"{setting}: there is no listener {name}, only {', '.join(known)}")


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
