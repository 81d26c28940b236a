"""Whether an address leads to a port of this process: who is behind such a one is nobody but itself."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Any, Final

from shim.config import HostPort
from shim.net.listening import found_for

_PATIENCE_SECONDS: Final = 2.0
_LOOPBACK: Final = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}


async def leads_to(addresses: Iterable[HostPort], listening: Iterable[HostPort]) -> tuple[HostPort, HostPort] | None:
    """The first of ``addresses`` that is one of ``listening``, with that; None where none is, as far as names say so by
    now: who connects there is told what is wrong with one that says nothing."""
    ports = [(own, await _found(own, passive=True)) for own in listening]
    for address in addresses:
        for family, ip in await _found(address, passive=False):
            for own, its in ports:
                if own.port == address.port and any(_is_at(family, ip, each) for each in its):
                    return address, own
    return None


async def _found(address: HostPort, *, passive: bool) -> list[tuple[int, str]]:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            if passive:
                found: list[tuple[Any, ...]] = await found_for(address)
            else:
                found = list(await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM))
    except (OSError, UnicodeError, TimeoutError):
        return []
    return [(family, where[0]) for family, _, _, _, where in found if family in _LOOPBACK]


def _is_at(family: int, ip: str, own: tuple[int, str]) -> bool:
    """Where a socket is bound to all addresses of the machine: whether it is one of those."""
    if family != own[0]:
        return False
    if ip_address(ip).is_unspecified:  # who connects to that reaches this machine
        ip = _LOOPBACK[socket.AddressFamily(family)]
    return _is_of_this_machine(family, ip) if ip_address(own[1]).is_unspecified else ip == own[1]


def _is_of_this_machine(family: int, ip: str) -> bool:
    """Nobody else can be bound to."""
    with socket.socket(family, socket.SOCK_DGRAM) as bound:
        try:
            bound.bind((ip, 0))
        except OSError:
            return False
    return True
