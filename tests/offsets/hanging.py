"""A server that hangs: it is there, and does nothing."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from shim.demo.parts import ZooKeeper


@contextmanager
def hanging(zookeeper: ZooKeeper) -> Iterator[None]:
    os.kill(zookeeper.pid, signal.SIGSTOP)
    try:
        os.waitid(os.P_PID, zookeeper.pid, os.WSTOPPED | os.WNOWAIT)  # each of its threads
        yield
    finally:
        os.kill(zookeeper.pid, signal.SIGCONT)
