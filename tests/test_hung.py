"""Who hangs stands still in each of its threads, whoever's child it is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests import hung as hung_module
from tests.hung import hung, stop
from tests.workers.processes import wait_until_gone

_AT_WORK = """
import threading, time

def work():
    while True:
        time.sleep(0.001)

for _ in range(20):
    threading.Thread(target=work).start()
print(threading.get_native_id(), flush=True)
"""
_PARENT = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)"


@pytest.fixture(params=["a child", "a child's child"])
def pid(request: pytest.FixtureRequest) -> Iterator[int]:
    command = [sys.executable, "-c", _AT_WORK]
    if request.param == "a child's child":
        command = [sys.executable, "-c", _PARENT, *command]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        found = int(child.stdout.readline())
        fd = os.pidfd_open(found)
        try:
            yield found
        finally:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(fd, signal.SIGKILL)
            os.close(fd)


def states(pid: int) -> list[str]:
    """Of each thread."""
    threads = Path(f"/proc/{pid}/task").glob("*/status")
    return [line.split()[1] for each in threads for line in each.read_text().splitlines() if line.startswith("State:")]


def test_each_thread_stands_still_and_goes_on(pid: int) -> None:
    for _ in range(20):
        with hung(pid):
            assert states(pid) == ["T"] * 21
        assert states(pid) != ["T"] * 21


def test_it_may_be_killed_meanwhile(pid: int) -> None:
    with hung(pid):
        os.kill(pid, signal.SIGKILL)
        wait_until_gone([pid])


def test_who_has_ended_does_not_hang() -> None:
    with subprocess.Popen(["/bin/true"]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(ProcessLookupError, match=f"process {child.pid} has ended"):
            stop(child.pid)
    with pytest.raises(ProcessLookupError), hung(child.pid):
        pytest.fail("it is gone")


def test_who_does_not_stand_still_in_time(pid: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hung_module, "_WITHIN_SECONDS", 0.05)
    monkeypatch.setattr(signal, "SIGSTOP", signal.SIGCONT)
    with pytest.raises(TimeoutError, match=f"process {pid} does not stand still"), hung(pid):
        pytest.fail("it goes on")
