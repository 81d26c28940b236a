"""Child processes: they end with their parent, and in every other way that they should."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from shim.demo.parts.process import Child, StartFailed
from tests.parts.ended import ends_within

_STUBBORN = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("deaf to SIGTERM", flush=True)
signal.pause()
"""

# The thread that asks for the child ends at once: the child must live on for as long as the process does.
_PARENT = """
import sys, threading, signal
from shim.demo.parts.process import Child
children = []
thread = threading.Thread(target=lambda: children.append(Child(["/bin/sleep", "600"])))
thread.start()
thread.join()
print(children[0].pid, flush=True)
signal.pause()
"""


def test_a_child_dies_with_its_parent_and_not_before() -> None:
    with subprocess.Popen([sys.executable, "-c", _PARENT], stdout=subprocess.PIPE, text=True) as parent:
        try:
            assert parent.stdout is not None
            child = int(parent.stdout.readline())
            assert not ends_within(child, 0.3)
        finally:
            parent.send_signal(signal.SIGKILL)
    assert ends_within(child, 10)


def test_lines_reach_the_log_file_and_the_callback(tmp_path: Path) -> None:
    seen: list[str] = []
    log = tmp_path / "log"
    child = Child(["/bin/sh", "-c", "echo one; echo two >&2; exit 3"], log=log, on_line=seen.append)
    assert child.wait(10)
    assert (seen, log.read_text(), child.returncode, child.running) == (["one", "two"], "one\ntwo\n", 3, False)


def test_stop_kills_what_does_not_heed_sigterm() -> None:
    child = Child([sys.executable, "-c", _STUBBORN], ready="deaf")
    child.wait_ready(10)
    child.stop(timeout=0.2)
    assert child.returncode == -signal.SIGKILL
    child.stop(timeout=0.2)  # a second time is no error


def test_stop_ends_with_sigterm_what_heeds_it() -> None:
    child = Child(["/bin/sh", "-c", "echo up; exec sleep 600"], ready="up")
    child.wait_ready(10)
    child.stop(timeout=10)
    assert child.returncode == -signal.SIGTERM


def test_an_early_end_shows_the_last_lines() -> None:
    child = Child(["/bin/sh", "-c", "echo no such disk; exit 4"], ready="started")
    with pytest.raises(StartFailed, match=r"(?s)exit status 4.*no such disk"):
        child.wait_ready(10)


def test_silence_is_a_failed_start() -> None:
    child = Child(["/bin/sh", "-c", "echo loading; exec sleep 600"], ready="started")
    try:
        with pytest.raises(StartFailed, match=r"'started' within 0\.2 s"):
            child.wait_ready(0.2)
        assert child.running
    finally:
        child.kill()


def test_an_early_end_shows_the_first_error_however_much_follows() -> None:
    script = """
        echo '[1] ERROR port taken'
        echo '  at bind'
        for i in $(seq 99); do echo "[$i] INFO stopping $i"; done
        exit 1
    """
    child = Child(["/bin/sh", "-c", script], ready="started")
    with pytest.raises(StartFailed, match=r"(?s)\[1\] ERROR port taken\n  at bind\n…\n\[70\].*stopping 99"):
        child.wait_ready(10)
