"""Which Java runs Spark's driver, found before Spark looks for it: its own words for a missing one are no help."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Final

from pipeline.errors import CannotRun

OLDEST_JAVA: Final = 17
"""Spark 4.0: https://spark.apache.org/docs/4.0.0/#downloading."""


def java_executable() -> Path:
    """The ``java`` of $JAVA_HOME, else of the PATH. Raises :class:`CannotRun` where there is none, or one too old."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if found is None:
        where = f"in JAVA_HOME ({home})" if home else "on the PATH"
        raise CannotRun(f"no java {where}: install a Java runtime, {OLDEST_JAVA} or newer")
    java = Path(found).resolve()
    release = java.parent.parent / "release"
    text = release.read_text(encoding="utf-8", errors="replace") if release.is_file() else ""
    version = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', text, re.MULTILINE)
    if version and int(version[1]) < OLDEST_JAVA:
        raise CannotRun(f"{found} is Java {version[1]}: Spark needs {OLDEST_JAVA} or newer")
    return java
