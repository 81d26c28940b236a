"""`make soak`: every test marked `soak`, one process each, and the tests of properties, a file at a time, with many
times as many examples; resumable; what it found goes to docs/results/.

What has passed at this commit is kept in build/soak.json, so that a run that was cut off goes on where it was. A test
that failed is run again. The report names commit, date and machine, and each test with its outcome and time.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, TypedDict

from tests.examples import VARIABLE

ROOT = Path(__file__).parents[1]
STATE = ROOT / "build" / "soak.json"
REPORT = ROOT / "docs" / "results" / "soak.md"
EXAMPLES_TIMES = 50
PASSED = "passed"
_NO_TESTS = 5  # pytest's exit status
_ROW = re.compile(r"^\| `([^`]+)` \| (\d+) \| \**(\d+)\** \| ([\d,]+) \| (.+) \|$", re.MULTILINE)
_PAGE = """# Soak

What `make soak` found, written by it: each test's newest run. A test of properties, which is one of a file, had {times}
times as many examples as in `make test`. The newest were run on this, often beside other work: {machine}.

| test | runs | failed | seconds | newest |
|---|--:|--:|--:|---|
{rows}
"""


class Result(TypedDict):
    outcome: str
    seconds: float


class Unit(NamedTuple):
    """Of what is run: a pytest of its own. ``path``: of a test, or of a file; ``marked``: which tests of it."""

    path: str
    marked: str
    examples_times: int = 1

    @property
    def name(self) -> str:
        return self.path if self.examples_times == 1 else f"{self.path}, {self.examples_times} times as many examples"

    def run(self) -> int:
        """Exit status."""
        command = [sys.executable, "-m", "pytest", "-q", "-m", self.marked, self.path]
        return subprocess.run(command, cwd=ROOT, env={**os.environ, VARIABLE: str(self.examples_times)}).returncode


def _output(*argv: str) -> str:
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def _units(chosen: list[str]) -> list[Unit]:
    properties = "(hypothesis or examples) and not soak"
    files = dict.fromkeys(test.partition("::")[0] for test in _tests(properties, chosen))
    return [
        *(Unit(test, "soak") for test in _tests("soak", chosen)),
        *(Unit(file, properties, EXAMPLES_TIMES) for file in files),
    ]


def _tests(marked: str, chosen: list[str]) -> list[str]:
    listed = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", marked, *chosen],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    if listed.returncode not in (0, _NO_TESTS):
        raise SystemExit(listed.stdout + listed.stderr)
    return [line for line in listed.stdout.splitlines() if "::" in line]


def _commit() -> str:
    """With what is not committed: another change of it is another code."""
    head = _output("git", "rev-parse", "--short=12", "HEAD").strip()
    of_code = ("--", "compat", "pipeline", "protocol", "pyproject.toml", "requirements*.lock", "shim", "tests")
    if not _output("git", "status", "--porcelain", *of_code):
        return head
    changes = _output("git", "diff", "HEAD", *of_code) + _output("git", "ls-files", "--others", "--exclude-standard")
    return f"{head}+{hashlib.sha256(changes.encode()).hexdigest()[:8]}"


def _machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    processor = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, {memory} GiB"
    return f"{processor}, Python {platform.python_version()}"


class Row(NamedTuple):
    """Of the page. ``test``: without parameters; ``runs``: with how many. ``newest``: day and commit."""

    test: str
    runs: int
    failed: int
    seconds: float
    newest: str

    def __str__(self) -> str:
        failed = f"**{self.failed}**" if self.failed else "0"
        return f"| `{self.test}` | {self.runs} | {failed} | {self.seconds:,.0f} | {self.newest} |"


def rows_of(page: str) -> dict[str, Row]:
    """By test."""
    return {
        test: Row(test, int(runs), int(failed), float(seconds.replace(",", "")), newest)
        for test, runs, failed, seconds, newest in _ROW.findall(page)
    }


def rows_of_run(done: Mapping[str, Result], newest: str) -> dict[str, Row]:
    """Of all that was run at one commit, be it in several runs."""
    rows: dict[str, Row] = {}
    for name, result in done.items():
        test = name.partition("[")[0]
        before = rows.get(test, Row(test, 0, 0, 0.0, newest))
        failed = before.failed + (result["outcome"] != PASSED)
        rows[test] = Row(test, before.runs + 1, failed, before.seconds + result["seconds"], newest)
    return rows


def merged(before: Mapping[str, Row], run: Mapping[str, Row]) -> dict[str, Row]:
    """What failed stays until it was run again with as many parameters."""
    kept = {test: row for test, row in before.items() if row.failed and test in run and run[test].runs < row.runs}
    return {**before, **run, **kept}


def page_of(rows: Mapping[str, Row], machine: str) -> str:
    lines = (str(rows[test]) for test in sorted(rows))
    return _PAGE.format(machine=machine, times=EXAMPLES_TIMES, rows="\n".join(lines))


def _report(commit: str, done: Mapping[str, Result]) -> None:
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    rows = rows_of(REPORT.read_text()) if REPORT.exists() else {}
    rows = merged(rows, rows_of_run(done, f"{today}, {commit}"))
    there = {test: row for test, row in rows.items() if (ROOT / test.partition("::")[0].partition(",")[0]).exists()}
    REPORT.write_text(page_of(there, _machine()))


def main(chosen: list[str]) -> int:
    commit = _commit()
    kept = json.loads(STATE.read_text()) if STATE.exists() else {}
    done = kept.get("done", {}) if kept.get("commit") == commit else {}
    units = _units(chosen)
    for number, unit in enumerate(units, 1):
        if done.get(unit.name, {}).get("outcome") == PASSED:
            print(f"[{number}/{len(units)}] passed before: {unit.name}", flush=True)
            continue
        print(f"[{number}/{len(units)}] {unit.name}", flush=True)
        begun = time.monotonic()
        status = unit.run()
        outcome = PASSED if status == 0 else f"FAILED (exit status {status})"
        done[unit.name] = {"outcome": outcome, "seconds": time.monotonic() - begun}
        STATE.parent.mkdir(exist_ok=True)
        STATE.write_text(json.dumps({"commit": commit, "done": done}, indent=1))
        _report(commit, done)
    print(f"written: {REPORT}")
    return int(any(result["outcome"] != PASSED for result in done.values()) or not units)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
