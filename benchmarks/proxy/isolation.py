"""A network of its own for a program: loopback and nothing else, for servers that listen on every address."""

import fcntl
import os
import socket
import struct
import subprocess
import sys
from typing import Final, NoReturn

INSIDE: Final = "BENCHMARKS_PROXY_ISOLATED"
"""Set in the environment of a program that has one."""

_SIOCGIFFLAGS, _SIOCSIFFLAGS = 0x8913, 0x8914  # linux/sockios.h
_IFF_UP: Final = 1
_INTERFACE: Final = struct.Struct("16sh22x")  # struct ifreq with flags


class NoNetworkOfItsOwn(RuntimeError):
    """The system lets this user have none; says why."""


def is_isolated() -> bool:
    return INSIDE in os.environ


def again_in_isolation(module: str, arguments: list[str]) -> NoReturn:
    """Run `python -m module` anew, inside; this process ends as it does. Raises :class:`NoNetworkOfItsOwn`."""
    unshare = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--net"]
    try:
        tried = subprocess.run([*unshare, "true"], capture_output=True, text=True)
    except FileNotFoundError as error:
        raise NoNetworkOfItsOwn("there is no unshare here (util-linux)") from error
    if tried.returncode:
        raise NoNetworkOfItsOwn(tried.stderr.strip())
    command = [*unshare, sys.executable, "-m", module, *arguments]
    sys.exit(subprocess.run(command, env={**os.environ, INSIDE: "yes"}).returncode)


def loopback_up() -> None:
    """What a new network has is down. Raises OSError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = fcntl.ioctl(sock, _SIOCGIFFLAGS, _INTERFACE.pack(b"lo", 0))
        _, flags = _INTERFACE.unpack(request)
        fcntl.ioctl(sock, _SIOCSIFFLAGS, _INTERFACE.pack(b"lo", flags | _IFF_UP))
