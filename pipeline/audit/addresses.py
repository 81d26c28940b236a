"""Addresses as they are given on the command line."""

from __future__ import annotations

import click

from pipeline.audit.brokers import Address


def address(option: str, text: str) -> Address:
    """Read ``host:port``; an IPv6 address stands in brackets. Raises :class:`click.BadParameter`."""
    host, colon, port = text.strip().rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or not host or (":" in host and not bracketed):
        raise click.BadParameter(f"{text!r} is not host:port (an IPv6 address stands in brackets)", param_hint=option)
    if not port.isascii() or not port.isdecimal() or not 0 < int(port) < 65536:
        raise click.BadParameter(f"{text!r}: the port must be a number from 1 to 65535", param_hint=option)
    return Address(host[1:-1] if bracketed else host, int(port))


def servers(option: str, text: str) -> tuple[Address, ...]:
    """Read ``host:port[,host:port]…``. Raises :class:`click.BadParameter`."""
    found = tuple(address(option, part) for part in text.split(",") if part.strip())
    if not found:
        raise click.BadParameter("expected host:port[,host:port]", param_hint=option)
    return found


def connect_string(option: str, text: str) -> str:
    """``host:port[,host:port]…[/chroot]``, as it is. Raises :class:`click.BadParameter`."""
    hosts, slash, chroot = text.strip().partition("/")
    servers(option, hosts)
    names = chroot.removesuffix("/").split("/") if chroot else []
    if any(name in ("", ".", "..") or "\0" in name for name in names):
        raise click.BadParameter(f"{text!r}: {slash + chroot!r} is no path of a znode", param_hint=option)
    return hosts + "".join(f"/{name}" for name in names)
