"""`make soak`: every test marked `soak`, one process each, resumable; what it found goes to docs/results/.

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

ROOT = Path(__file__).parents[1]
STATE = ROOT / "build" / "soak.json"
RESULTS = ROOT / "docs" / "results"


def _output(*argv: str) -> str:
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def _tests(chosen: list[str]) -> list[str]:
    listed = _output(sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "soak", *chosen)
    return [line for line in listed.splitlines() if "::" in line]


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
    tests = _tests(chosen)
    for number, test in enumerate(tests, 1):
        if done.get(test, {}).get("outcome") == "passed":
            print(f"[{number}/{len(tests)}] passed before: {test}", flush=True)
            continue
        print(f"[{number}/{len(tests)}] {test}", flush=True)
        begun = time.monotonic()
        run = subprocess.run([sys.executable, "-m", "pytest", "-q", "-m", "soak", test], cwd=ROOT)
        outcome = "passed" if run.returncode == 0 else f"FAILED (exit status {run.returncode})"
        done[test] = {"outcome": outcome, "seconds": time.monotonic() - begun}
        STATE.parent.mkdir(exist_ok=True)
        STATE.write_text(json.dumps({"commit": commit, "done": done}, indent=1))
    print(f"written: {_report(commit, done)}")
    return int(any(result["outcome"] != "passed" for result in done.values()) or not tests)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
