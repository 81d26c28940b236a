"""The old client in Go, compiled into the cache and found whole there ever after."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from typing import Final

from shim.demo.parts.cache import PartsUnavailable, cache_folder, locked, made_whole, run_to_fill

SOURCE: Final = Path(__file__).with_name("go")
_FILES: Final = ("go.mod", "go.sum", "main.go")
_PROGRAM: Final = "oldsarama"
_TIMEOUT_S: Final = 600.0


def go_program() -> Path:
    """The program, compiled now when the cache lacks it: the modules come by the Go proxy, their sums are in `go.sum`.

    It stands at its place, named after its source, only once it is whole: safe for processes and threads at the same
    moment, and for a kill at any point. Raises PartsUnavailable when it cannot be had.
    """
    version = hashlib.sha256(b"".join((SOURCE / name).read_bytes() for name in _FILES)).hexdigest()[:12]
    folder = cache_folder() / "go" / f"sarama-{version}"
    if not folder.exists():
        with locked(folder):
            if not folder.exists():
                _build(folder)
    return folder / _PROGRAM


def _build(folder: Path) -> None:
    """Put the program at `folder`. The lock is held."""
    compiler = shutil.which("go")
    if compiler is None:
        raise PartsUnavailable("no go on the PATH: install Go (Debian: golang)")
    with made_whole(folder) as new:
        command = [compiler, "build", "-mod=readonly", "-trimpath", "-ldflags=-s -w", "-o", str(new / _PROGRAM), "."]
        # Standard compilers of another version than go.mod wants fetch that one.
        environment = {**os.environ, "CGO_ENABLED": "0"}
        run_to_fill("Go", "compile the old client", command, cwd=SOURCE, timeout=_TIMEOUT_S, env=environment)
