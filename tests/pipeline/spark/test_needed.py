"""Without Java, PySpark, or the right ones of them, each command says so in one line, before anything else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

_TIMEOUT_S: Final = 60

COMMANDS: Final = {
    "audit": (2, ["audit", "--shim", "127.0.0.1:1", "--upstream", "127.0.0.1:1"]),
    "history": (1, ["history", "who", "--data-dir", "."]),
}
"""Exit status, and arguments. `load` is in tests/pipeline/load/test_bad_input.py."""


@pytest.fixture(params=COMMANDS)
def refused(request: pytest.FixtureRequest) -> Callable[..., str]:
    status, args = COMMANDS[request.param]

    def run(**environment: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "pipeline.main", *args],
            capture_output=True, text=True, timeout=_TIMEOUT_S, stdin=subprocess.DEVNULL,
            env={**os.environ, **environment},
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (status, "")
        (line,) = done.stderr.splitlines()
        return line

    return run


def test_no_java(refused: Callable[..., str], tmp_path: Path) -> None:
    line = refused(JAVA_HOME=str(tmp_path))
    assert line.startswith(f"Error: no java in JAVA_HOME ({tmp_path}): install a Java runtime, 17 or newer")


def test_another_spark(refused: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").write_text('__version__ = "3.5.1"\n')
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH"), str(Path.cwd())])])
    line = refused(PYTHONPATH=path)
    assert line == "Error: PySpark 3.5.1 is installed, and the connector jars are of 4.0"


def test_maven_fails(tmp_path: Path) -> None:
    (tmp_path / "mvn").write_text("#!/bin/sh\necho '[INFO] it begins'\necho '[ERROR] the disk is full'\nexit 1\n")
    (tmp_path / "mvn").chmod(0o755)
    path = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    done = subprocess.run(
        [sys.executable, "-m", "pipeline.main", "jars"],
        capture_output=True, text=True, timeout=_TIMEOUT_S,
        env={**os.environ, "PATH": path, "OFFSET_SHIM_CACHE": str(tmp_path / "cache")},
    )  # fmt: skip
    line = "Error: Maven could not fetch spark-4.0.0 (exit status 1): [ERROR] the disk is full\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", line)
