"""`make soak`: every test marked `soak`, one process each, and the tests of properties, a file at a time, with many
times as many examples; resumable; what it found goes to docs/results/.

What has passed at this commit is kept in build/soak.json, so that a run that was cut off goes on where it was. A test
that failed is run again. The report names commit, date and machine, and each test with its outcome and time.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from tests.examples import VARIABLE

ROOT = Path(__file__).parents[1]
STATE = ROOT / "build" / "soak.json"
RESULTS = ROOT / "docs" / "results"
EXAMPLES_TIMES = 50
_NO_TESTS = 5  # pytest's exit status


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
    changed = _output("git", "status", "--porcelain", "--", "pipeline", "protocol", "shim", "tests")
    return _output("git", "rev-parse", "--short=12", "HEAD").strip() + ("+changes" if changed else "")


def _machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    processor = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, {memory} GiB"
    return f"{processor}, Python {platform.python_version()}"


def _report(commit: str, done: dict[str, dict[str, float | str]]) -> Path:
    RESULTS.mkdir(parents=True, exist_ok=True)
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    path = RESULTS / f"soak-{today}-{commit}.md"
    failed = [name for name, result in done.items() if result["outcome"] != "passed"]
    lines = [
        f"# Soak of {today}",
        "",
        f"Commit {commit}; {_machine()}. {len(done)} tests, {len(failed)} failed.",
        "",
        "| test | outcome | seconds |",
        "|---|---|---|",
        *(f"| `{name}` | {result['outcome']} | {result['seconds']:.0f} |" for name, result in done.items()),
        "",
    ]
    path.write_text("\n".join(lines))
    return path


def main(chosen: list[str]) -> int:
    commit = _commit()
    kept = json.loads(STATE.read_text()) if STATE.exists() else {}
    done = kept.get("done", {}) if kept.get("commit") == commit else {}
    units = _units(chosen)
    for number, unit in enumerate(units, 1):
        if done.get(unit.name, {}).get("outcome") == "passed":
            print(f"[{number}/{len(units)}] passed before: {unit.name}", flush=True)
            continue
        print(f"[{number}/{len(units)}] {unit.name}", flush=True)
        begun = time.monotonic()
        status = unit.run()
        outcome = "passed" if status == 0 else f"FAILED (exit status {status})"
        done[unit.name] = {"outcome": outcome, "seconds": time.monotonic() - begun}
        STATE.parent.mkdir(exist_ok=True)
        STATE.write_text(json.dumps({"commit": commit, "done": done}, indent=1))
    print(f"written: {_report(commit, done)}")
    return int(any(result["outcome"] != "passed" for result in done.values()) or not units)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
