"""`make test`: everything that is not marked `soak`, four processes at a time. Arguments go to all, so they cannot be
tests, nor a folder that each would make anew.

Tests of real parts wait for them as long as they work, so three lanes take them, group by group; what is in no group is
the first one. Those that need none run beside them, and so do those of Spark: they get what processor time is left, so
that the others do not notice. A lane that has no group any more takes of these. What a group said is printed when it
ends, and of those that are ended what they have said so far.

All in all the processors are busy, so what tests cost decides how long it takes (each pytest ends with which files cost
the most), and what is left to the last one alone: the longest begin first, and those that run beside the others, of
which all lanes take in the end, are in small pieces.

Where few have failed beside the others, these get a second chance alone (docs/decisions/0019), if there are no
arguments; the last lines name those that have passed then.
"""

from __future__ import annotations

import json
import os
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
from xml.etree import ElementTree

TESTS: Final = Path(__file__).parent

GROUPS: Final = (
    ("migration/test_[g-z]*.py", "legacy"),
    ("cluster", "ownership"),
    ("admin", "authorization", "benchmarks", "clients"),
    ("faults", "groups", "serve", "streams"),
    ("migration/test_[a-f]*.py",),
    ("compat", "docs", "hostile", "secured"),
    ("kafka_log", "forwarding"),
    ("connect", "crash", "demo", "differential", "endurance"),
    ("relocation", "workers"),
)
"""The longest first, as measured on two cores: 6 minutes the first ones, the last one 2. Migration is in two parts, as
all together take no less than the longest. A group has its own real parts, which take some seconds to start, a cluster
of three as much as twenty shims: so those that use one are in two groups. Names are patterns of folders and files."""

BESIDE: Final = (
    ("pipeline",),
    ("protocol",),
    ("log", "log_format"),
    ("api", "client", "coordinator", "disk_log", "following", "runtime", "security", "terminal"),
    (
        *("config", "logs", "metrics", "net", "packaging", "tls", "upstream"),
        *("test_config.py", "test_counted.py", "test_hung.py", "test_listener_config.py", "test_parts_end.py"),
        "test_short.py",
        "test_soak.py",
    ),
)
"""Likewise, by processor time, some 150 to 50 seconds each. Tests without real parts (some start a broker for a test or
two), and those of Spark, which are in a process of their own: what is not in use any more is looked for after each."""

_LANES: Final = 3
_LEAST_PRIORITY: Final = ("nice", "-n", "10")
_TEST_SECONDS: Final = 600  # a test that takes longer is stuck: its process ends and says where it was
_GROUP_SECONDS: Final = 3600  # all of them: one that does not end when its tests have is ended
_SOME_FAILED: Final = 1  # pytest's exit status
_NO_TESTS: Final = 5  # likewise, where arguments leave none
_NO_SECOND_CHANCE: Final = tuple(
    f"tests/{name}"
    for name in (
        *("coordinator/", "crash/", "differential/", "faults/", "hostile/", "log/", "protocol/"),
        *("migration/test_dual_commit_model.py", "migration/test_dual_commit_scripts.py", "migration/test_faults.py"),
    )
)
"""Where a failure says that something was lost, or a decision wrong, however busy the machine is."""

_FEW: Final = 3  # so many are a busy machine; more are a fault


class Group:
    """One pytest. ``name``: what its output is printed under. ``chosen``: which tests. ``cache``: a folder of its
    own."""

    def __init__(self, name: str, command: Sequence[str], chosen: Sequence[str], cache: Path) -> None:
        self._name = name
        self._pytest = (*command, "-o", f"cache_dir={cache}")
        self._chosen = chosen
        self._cache = cache
        self._running: subprocess.Popen[bytes] | None = None
        self._is_ended = False
        self._starting = Lock()

    def failed(self) -> list[str]:
        """The tests that have."""
        of_last = self._cache / "v" / "cache" / "lastfailed"
        return sorted(json.loads(of_last.read_text())) if of_last.exists() else []

    def passes_alone(self, printing: Lock) -> bool:
        """Whether those do when nothing else runs. One that is skipped then does not."""
        self._name = f"again, alone: {self._name}"
        self._chosen = self.failed()
        report = self._cache / "alone.xml"
        self._pytest = (*self._pytest, f"--junitxml={report}")
        self._running = None
        if self.run(printing) != 0:
            return False
        results = list(ElementTree.parse(report).iter("testcase"))
        return len(results) == len(self._chosen) and all(result.find("skipped") is None for result in results)

    def run(self, printing: Lock) -> int | None:
        """pytest's exit status, negative where a signal has ended it; None where another runs it already."""
        begun = time.monotonic()
        with tempfile.TemporaryFile("w+") as said:
            with self._starting:
                if self._running is not None:
                    return None
                if self._is_ended:
                    return 1
                self._running = subprocess.Popen((*self._pytest, *self._chosen), stdout=said, stderr=subprocess.STDOUT)
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
    with tempfile.TemporaryDirectory(prefix="caches-") as caches:
        return _run(arguments, Path(caches))


def _run(arguments: list[str], caches: Path) -> int:
    stuck = ("-o", f"faulthandler_timeout={_TEST_SECONDS}", "-o", "faulthandler_exit_on_timeout=true")
    # Unbuffered, so that it is told how far one had come that is ended.
    slowest = ("--durations=10", "--durations-min=5")
    pytest = (sys.executable, "-u", "-m", "pytest", "-m", "not soak", *stuck, *slowest, *arguments)
    named = sorted(name for group in (*GROUPS, *BESIDE) for name in group)
    groups = [
        Group("all others", pytest, [f"--ignore={path}" for path in _paths(named)], caches / "others"),
        *(Group(" ".join(names), pytest, _paths(names), _cache(caches, names)) for names in GROUPS),
    ]
    patient = (*_LEAST_PRIORITY, *pytest)
    beside = [Group(" ".join(names), patient, _paths(names), _cache(caches, names)) for names in BESIDE]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    well = {0, _NO_TESTS} if arguments else {0}
    printing = Lock()
    with ThreadPoolExecutor(_LANES) as lanes, ThreadPoolExecutor(1) as another:
        running = {lanes.submit(group.run, printing): group for group in (*groups, *beside)}
        running |= {another.submit(group.run, printing): group for group in beside}
        try:
            statuses = [(status, group) for each, group in running.items() if (status := each.result()) is not None]
            unwell = [group for status, group in statuses if status not in well]
            not_steady = [test for group in unwell for test in group.failed()]
            if unwell and (
                len(not_steady) > _FEW
                or any(test.startswith(_NO_SECOND_CHANCE) for test in not_steady)
                # One that was stuck has the same exit status, and none that has failed.
                or not all(group.failed() for group in unwell)
                or any(status not in (*well, _SOME_FAILED) for status, _ in statuses)
                # With -x, for one, those behind the first that has failed were not run.
                or arguments
                or os.environ.get("PYTEST_ADDOPTS")
            ):
                return 1
            if not all(group.passes_alone(printing) for group in unwell):
                return 1
        finally:
            for each in running:
                each.cancel()
            for group in (*groups, *beside):
                group.end()
    for test in not_steady:
        print(f"NOT STEADY, failed beside others and passed alone: {test}", flush=True)
    return 0


def _paths(names: Iterable[str]) -> list[str]:
    """Each stands for something: pytest that is told nothing would run everything."""
    found = {name: sorted(TESTS.glob(name)) for name in names}
    if nothing := [name for name, paths in found.items() if not paths]:
        raise FileNotFoundError(f"no tests: {', '.join(nothing)}")
    return [str(path) for paths in found.values() for path in paths]


def _cache(caches: Path, names: Sequence[str]) -> Path:
    return caches / names[0].replace("/", "-")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
