"""Ports that are free now and that no outgoing connection will be given later."""

import fcntl
import os
import random
import socket
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

_EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST = 10_240
_DEFAULT_EPHEMERAL_START = 32_768  # Linux; also below the range of other systems (IANA: 49152)
_ATTEMPTS = 1_000

_CLAIMS = Path(tempfile.gettempdir()) / f"offset-shim-ports-{os.getuid()}"
"""A file for each port that a process of this user has been given, with its process id: what it starts need not listen
yet, or any more."""

_given: set[int] = set()
_given_lock = threading.Lock()


def _ephemeral_start() -> int:
    if not _EPHEMERAL_RANGE.exists():
        return _DEFAULT_EPHEMERAL_START
    start = int(_EPHEMERAL_RANGE.read_text().split()[0])
    # A system that gives out nearly every port leaves no room below.
    return start if start >= _LOWEST + 2_000 else _DEFAULT_EPHEMERAL_START


def _is_free(host: str, port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As brokers bind: a connection in TIME_WAIT is no obstacle, a listener is.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Among all processes of this user."""
    _CLAIMS.mkdir(mode=0o700, exist_ok=True)
    lock = os.open(_CLAIMS / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _is_another_one_s(port: int) -> bool:
    try:
        pid = int((_CLAIMS / str(port)).read_text())
        os.kill(pid, 0)
    except (FileNotFoundError, ValueError, ProcessLookupError, PermissionError):  # another user's is not its any more
        return False
    return pid != os.getpid()


def _claim(ports: Iterable[int]) -> None:
    for port in ports:
        (_CLAIMS / str(port)).write_text(str(os.getpid()))


def free_port_range(count: int, host: str = "127.0.0.1") -> int:
    """The first of `count` consecutive free TCP ports of `host`; no port is given twice by one process, nor to another
    one of this user while that is there.

    They lie below the system's ephemeral ports: a part that is stopped and started again finds its port free,
    which a client's outgoing connection could otherwise have been given meanwhile. Raises OSError when none is found.
    """
    end = _ephemeral_start()
    with _given_lock, _one_at_a_time():
        for _ in range(_ATTEMPTS):
            first = random.randrange(_LOWEST, end - count)  # noqa: S311 - nothing secret
            ports = range(first, first + count)
            if not _given.isdisjoint(ports) or any(map(_is_another_one_s, ports)):
                continue
            if all(_is_free(host, port) for port in ports):
                _given.update(ports)
                _claim(ports)
                return first
    raise OSError(f"no {count} consecutive free ports on {host} between {_LOWEST} and {end}")


def free_port(host: str = "127.0.0.1") -> int:
    """One free TCP port of `host`, as `free_port_range` chooses it."""
    return free_port_range(1, host)
