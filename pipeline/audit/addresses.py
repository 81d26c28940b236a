"""Addresses as they are given on the command line."""

from __future__ import annotations

import click

from shim.config import HostPort, SettingError, parse_host_port


def address(option: str, text: str) -> HostPort:
    """Read ``host:port``; an IPv6 address stands in brackets. Raises :class:`click.BadParameter`."""
    try:
        return parse_host_port(text)
    except SettingError as error:
        raise click.BadParameter(str(error), param_hint=option) from None


def servers(option: str, text: str) -> tuple[HostPort, ...]:
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
