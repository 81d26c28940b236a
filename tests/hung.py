"""A process that hangs: it is there, and does nothing."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Final

from tests.waiting import wait_until

_WITHIN_SECONDS: Final = 30.0


@contextmanager
def hung(pid: int) -> Iterator[None]:
    """Within the block it hangs, unless it is killed there; see :func:`stop`. Whoever's child it is."""
    fd = os.pidfd_open(pid)  # the id alone may be another process's, once this one was killed
    try:
        stop(pid)
        yield
    finally:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(fd, signal.SIGCONT)
        os.close(fd)


def stop(pid: int) -> None:
    """On return each of its threads stands still, until there is a SIGCONT. The signal alone does not do that: each
    thread takes it when it next has a core, and answers what came before that.

    Raises TimeoutError where they do not, and ProcessLookupError where the process has ended."""
    os.kill(pid, signal.SIGSTOP)
    # In a thread, as there is no bound to it otherwise. It is over when the process is.
    told = Thread(target=_wait_to_be_told, args=(pid,), name=f"hung-{pid}", daemon=True)
    told.start()
    told.join(_WITHIN_SECONDS)
    # Of those that are not this process's children, as a shim's workers, it is told nothing: they are looked at.
    seconds = 0.0 if told.is_alive() else _WITHIN_SECONDS
    wait_until(lambda: _stands_still(pid), f"process {pid} does not stand still", seconds)


def _wait_to_be_told(pid: int) -> None:
    with suppress(ChildProcessError):  # another process's, or it has ended
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)


def _stands_still(pid: int) -> bool:
    try:
        threads = [each.read_text(errors="replace") for each in Path(f"/proc/{pid}/task").glob("*/stat")]
    except (FileNotFoundError, ProcessLookupError):
        return False  # one has ended since
    states = {each.rpartition(")")[2].split()[0] for each in threads} - {"Z", "X"}  # there, and dead
    if not states:
        raise ProcessLookupError(f"process {pid} has ended")
    return states == {"T"}
