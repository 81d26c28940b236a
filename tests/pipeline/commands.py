"""`offset-pipeline …`, run in this process with a session of Spark that is there, or in one of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest
from click.testing import CliRunner

from pipeline.main import cli
from pipeline.spark import SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TIMEOUT_S: Final = 300
_IMPORTED_TO: Final = ("pipeline.spark", "pipeline.spark.session", "pipeline.history.querying")
"""Where commands have `spark_session` from."""


class Ran(NamedTuple):
    status: int
    stdout: str
    stderr: str


Run = Callable[..., Ran]
"""Takes the command's words."""


def in_a_process(*words: str | Path) -> Ran:
    """With the Python for workers that the command chooses."""
    environment = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    done = subprocess.run(
        [sys.executable, "-m", "pipeline.main", *map(str, words)],
        capture_output=True, text=True, timeout=_TIMEOUT_S, stdin=subprocess.DEVNULL, env=environment,
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    return Ran(done.returncode, done.stdout, done.stderr)


def runs_here(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Each command has ``spark``, which goes on behind it."""

    @contextmanager
    def here(name: str, settings: SparkSettings) -> Iterator[SparkSession]:
        yield spark

    for module in _IMPORTED_TO:
        monkeypatch.setattr(f"{module}.spark_session", here)

    def run(*words: str | Path) -> Ran:
        done = CliRunner().invoke(cli, [*map(str, words)])
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return Ran(done.exit_code, done.stdout, done.stderr)

    return run
