"""Addresses and counts in the text of a setting, and what is raised for a setting that cannot be used."""

from __future__ import annotations

import ipaddress
from typing import NamedTuple

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


class ConnectString(NamedTuple):
    """``chroot``: ``/a/b``; empty where there is none."""

    servers: tuple[HostPort, ...]
    chroot: str


def parse_connect_string(text: str) -> ConnectString:
    """Read ``host:port[,host:port]…[/chroot]``, as ZooKeeper's clients do. Raises :class:`SettingError`."""
    servers, slash, chroot = text.strip().partition("/")
    names = chroot.removesuffix("/").split("/") if chroot else []
    if any(name in ("", ".", "..") or "\0" in name for name in names):
        raise SettingError(f"{text!r}: {slash + chroot!r} is no path of a znode")
    return ConnectString(parse_servers(servers), "".join(f"/{name}" for name in names))


def check_admin_reach(address: HostPort, *, guarded: bool, stands_for: str = "") -> None:
    """Whether the admin port may be opened there: not where other machines reach it, unless it is ``guarded``, by a
    token, certificates or who says so. ``stands_for``: the address that a name has; of a name alone nobody can tell.

    Raises :class:`SettingError`.
    """
    try:
        is_own = ipaddress.ip_address(stands_for or address.host).is_loopback
    except ValueError:  # a name
        return
    if not guarded and not is_own:
        raise SettingError(
            f"whoever reaches {address} could move, reset and delete groups: set admin.token.file, have clients "
            "show certificates (admin:SSL in listener.security.protocol.map, listener.name.admin.ssl.client.auth="
            "required), give --admin a loopback address, or say admin.insecure=true"
        )


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
