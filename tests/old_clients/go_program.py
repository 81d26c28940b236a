"""The old client in Go, compiled into the cache and found whole there ever after."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from shim.demo.parts import PartsUnavailable, cache_folder
from shim.demo.parts.jars import locked
from shim.demo.parts.process import spawn

SOURCE: Final = Path(__file__).with_name("go")
_FILES: Final = ("go.mod", "go.sum", "main.go")
_PROGRAM: Final = "oldsarama"
_TIMEOUT_S: Final = 600.0
_OUTPUT_SHOWN: Final = 4_000  # characters of the compiler's output in an error


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
    """Put the program at `folder`, through a sibling that is renamed when it is complete. The lock is held."""
    compiler = shutil.which("go")
    if compiler is None:
        raise PartsUnavailable("no go on the PATH: install Go (Debian: golang)")
    for left_over in folder.parent.glob(f".{folder.name}.build-*"):
        shutil.rmtree(left_over)
    new = Path(tempfile.mkdtemp(prefix=f".{folder.name}.build-", dir=folder.parent))
    try:
        _compile(compiler, new / _PROGRAM)
        new.chmod(0o755)
        new.rename(folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _compile(compiler: str, program: Path) -> None:
    command = [compiler, "build", "-mod=readonly", "-trimpath", "-ldflags=-s -w", "-o", str(program), "."]
    # Standard compilers of another version than go.mod wants fetch that one.
    process = spawn(command, cwd=SOURCE, env={**os.environ, "CGO_ENABLED": "0"})
    with process:
        try:
            output, _ = process.communicate(timeout=_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            raise PartsUnavailable(f"the old client in Go was not compiled within {_TIMEOUT_S:g} s") from error
        finally:
            process.kill()
    if process.returncode != 0:
        raise PartsUnavailable(
            f"the old client in Go could not be compiled (exit status {process.returncode}):\n{output[-_OUTPUT_SHOWN:]}"
        )
