"""The cache on this machine: folders that are whole, or not there, whatever happens while they are made."""

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from shim.demo.parts.process import spawn

_OUTPUT_SHOWN = 4_000  # characters of a program's output in an error


class PartsUnavailable(RuntimeError):
    """The real parts cannot be had here: Java or Maven is missing, or the jars cannot be fetched. Says what to do."""


def cache_folder() -> Path:
    """`$OFFSET_SHIM_CACHE`, by default `offset-shim` in the user's cache folder. It need not exist."""
    chosen = os.environ.get("OFFSET_SHIM_CACHE")
    if chosen:
        return Path(chosen).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "offset-shim"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a cache folder (a file beside it), against other processes and threads. A kill releases it."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = (folder.parent / f".{folder.name}.lock").open("w")
    except OSError as error:
        raise PartsUnavailable(
            f"the cache cannot be written ({error}): set OFFSET_SHIM_CACHE to a folder that can"
        ) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def made_whole(folder: Path) -> Iterator[Path]:
    """A sibling to fill, which is renamed to `folder` at the end of the block. The lock is held."""
    for left_over in folder.parent.glob(f".{folder.name}.fetch-*"):
        shutil.rmtree(left_over)
    new = Path(tempfile.mkdtemp(prefix=f".{folder.name}.fetch-", dir=folder.parent))
    try:
        yield new
        new.chmod(0o755)
        if folder.exists():
            # Moved aside, not emptied in place: whoever runs from the old files keeps those that it has open.
            folder.rename(new / "replaced")
        new.rename(folder)
        shutil.rmtree(folder / "replaced", ignore_errors=True)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def run_to_fill(
    program: str,
    work: str,
    command: Sequence[str],
    *,
    cwd: Path,
    timeout: float,
    env: Mapping[str, str] | None = None,
) -> None:
    """Run a program that fetches or makes what is missing. Raises PartsUnavailable, with what it has printed last.

    `program` and `work` (`fetch …`) are for the error.
    """
    process = spawn(command, cwd=cwd, env=env)
    with process:
        try:
            output, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired as error:
            raise PartsUnavailable(f"{program} did not {work} within {timeout:g} s") from error
        finally:
            process.kill()
    if process.returncode != 0:
        shown = output[-_OUTPUT_SHOWN:]
        raise PartsUnavailable(f"{program} could not {work} (exit status {process.returncode}):\n{shown}")
