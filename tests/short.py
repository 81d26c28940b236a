"""`make test`: everything that is not marked `soak`, four processes at a time. Arguments go to all, so they cannot be
tests, nor a folder that each would make anew.

Tests of real parts mostly wait for them, so three lanes take them, group by group; what is in no group is the first
one. Those that need none run beside them, and so do those of Spark: they get what processor time is left, so that the
others do not notice. A lane that has no group any more takes of these. What a group said is printed when it ends, and
of those that are ended what they have said so far.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Final

TESTS: Final = Path(__file__).parent

GROUPS: Final = (
    ("migration", "legacy"),
    ("faults", "groups", "serve", "streams"),
    ("admin", "authorization", "benchmarks", "clients"),
    ("cluster", "connect", "crash", "demo", "differential", "endurance"),
    ("ownership", "relocation", "workers"),
    ("compat", "docs", "hostile", "secured"),
    ("kafka_log", "forwarding"),
)
"""The longest first. A group has its own real parts, which take some seconds to start."""

BESIDE: Final = (
    ("api", "client", "coordinator", "following", "log", "log_format", "runtime", "security"),
    ("pipeline",),
    (
        *("config", "logs", "metrics", "net", "packaging", "protocol", "tls", "upstream"),
        *("test_config.py", "test_counted.py", "test_hung.py", "test_listener_config.py"),
    ),
)
"""Tests without real parts (some start a broker for a test or two), and those of Spark, which are in a process of their
own: what is not in use any more is looked for after each, among all that the process has."""

_LANES: Final = 3
_LEAST_PRIORITY: Final = ("nice", "-n", "10")
_TEST_SECONDS: Final = 600  # a test that takes longer is stuck: its process ends and says where it was
_GROUP_SECONDS: Final = 2400  # all of them: one that does not end when its tests have is ended
_NO_TESTS: Final = 5  # pytest's exit status where arguments leave none


class Group:
    """One pytest. ``name``: what its output is printed under."""

    def __init__(self, name: str, command: Sequence[str]) -> None:
        self._name = name
        self._command = command
        self._running: subprocess.Popen[bytes] | None = None
        self._is_ended = False
        self._starting = Lock()

    def run(self, printing: Lock) -> int | None:
        """pytest's exit status, negative where a signal has ended it; None where another runs it already."""
        begun = time.monotonic()
        with tempfile.TemporaryFile("w+") as said:
            with self._starting:
                if self._running is not None:
                    return None
                if self._is_ended:
                    return 1
                self._running = subprocess.Popen(self._command, stdout=said, stderr=subprocess.STDOUT)
            try:
                status = self._running.wait(_GROUP_SECONDS)
            except subprocess.TimeoutExpired:
                self._running.kill()
                status = self._running.wait()
            said.seek(0)
            with printing:
                print(
                    f"---- {self._name}: exit status {status} after {time.monotonic() - begun:.0f} s\n{said.read()}",
                    flush=True,
                )
        return status

    def end(self) -> None:
        with self._starting:
            self._is_ended = True
            if self._running is not None:
                self._running.kill()


def main(arguments: list[str]) -> int:
    stuck = ("-o", f"faulthandler_timeout={_TEST_SECONDS}", "-o", "faulthandler_exit_on_timeout=true")
    # Unbuffered, so that it is told how far one had come that is ended.
    slowest = ("--durations=10", "--durations-min=5")
    pytest = (sys.executable, "-u", "-m", "pytest", "-m", "not soak", *stuck, *slowest, *arguments)
    named = sorted(name for group in (*GROUPS, *BESIDE) for name in group)
    groups = [
        Group("all others", (*pytest, *(f"--ignore={path}" for path in _paths(named)))),
        *(Group(" ".join(names), (*pytest, *_paths(names))) for names in GROUPS),
    ]
    beside = [Group(" ".join(names), (*_LEAST_PRIORITY, *pytest, *_paths(names))) for names in BESIDE]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    printing = Lock()
    with ThreadPoolExecutor(_LANES) as lanes, ThreadPoolExecutor(1) as another:
        running = [lanes.submit(group.run, printing) for group in (*groups, *beside)]
        running += [another.submit(group.run, printing) for group in beside]
        try:
            statuses = {each.result() for each in running}
        finally:
            for each in running:
                each.cancel()
            for group in (*groups, *beside):
                group.end()
    return 0 if statuses - {None} <= ({0, _NO_TESTS} if arguments else {0}) else 1


def _paths(names: Iterable[str]) -> list[str]:
    return [str(TESTS / name) for name in names]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
