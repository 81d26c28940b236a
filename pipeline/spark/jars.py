"""The connector jars (Kafka, Delta Lake, Avro), fetched by Maven into a cache and found whole there ever after.

``$OFFSET_SHIM_CACHE/jars/<set>/`` holds one set: its jars, the pom they came from and ``complete.json``, written last:
what belongs to the set, and its size in bytes. What Spark brings itself is left out of a set.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Final

from pipeline.errors import CannotRun
from pipeline.spark.java import java_executable

SPARK_JARS: Final = "spark-4.0.0"

_COMPLETE: Final = "complete.json"
_MAVEN_TIMEOUT_S: Final = 900


def jar_files(name: str) -> tuple[Path, ...]:
    """The jars of the set ``name`` (poms/``name``.xml), fetched now where the cache lacks one of them.

    Safe for processes at the same moment, and for a kill at any point. Raises :class:`CannotRun` where they cannot be
    fetched.
    """
    pom = files("pipeline.spark").joinpath("poms", f"{name}.xml").read_bytes()
    folder = _cache_folder() / "jars" / name
    found = _whole(folder, pom)
    if not found:
        with _locked(folder):
            # Somebody else may have fetched it while this process waited for the lock.
            found = _whole(folder, pom)
            if not found:
                _fetch(name, folder, pom)
                found = _whole(folder, pom)
    if not found:
        raise CannotRun(f"{folder} changed while {name} was fetched into it: does something clean this folder?")
    return found


def _cache_folder() -> Path:
    chosen = os.environ.get("OFFSET_SHIM_CACHE")
    if chosen:
        return Path(chosen).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "offset-shim"


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = (folder.parent / f".{folder.name}.lock").open("w")
    except OSError as error:
        raise CannotRun(f"the cache cannot be written ({error}): set OFFSET_SHIM_CACHE to a folder that can") from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _whole(folder: Path, pom: bytes) -> tuple[Path, ...]:
    try:
        complete = json.loads((folder / _COMPLETE).read_bytes())
        sizes = dict(complete["jars"])
        whole = complete["pom"] == hashlib.sha256(pom).hexdigest()
        whole = whole and all((folder / jar).stat().st_size == size for jar, size in sizes.items())
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        return ()  # never fetched, or not to the end, or damaged since: in each case it is fetched (again)
    return tuple(folder / jar for jar in sorted(sizes)) if whole else ()


def _fetch(name: str, folder: Path, pom: bytes) -> None:
    """Put a whole set at ``folder``, through a sibling that is renamed when it is complete. The lock is held."""
    maven = shutil.which("mvn")
    if maven is None:
        raise CannotRun(f"no mvn on the PATH, and {name} is not in the cache yet: install Maven")
    for left_over in folder.parent.glob(f".{name}.fetch-*"):
        shutil.rmtree(left_over)
    new = Path(tempfile.mkdtemp(prefix=f".{name}.fetch-", dir=folder.parent))
    try:
        (new / "pom.xml").write_bytes(pom)
        _run_maven(name, maven, new)
        sizes = {jar.name: jar.stat().st_size for jar in new.glob("*.jar")}
        complete = {"pom": hashlib.sha256(pom).hexdigest(), "jars": sizes}
        (new / _COMPLETE).write_text(json.dumps(complete, indent=1, sort_keys=True))
        new.chmod(0o755)
        if folder.exists():
            # Moved aside, not emptied in place: whoever runs from the old jars keeps the files that it has open.
            folder.rename(new / "replaced")
        new.rename(folder)
        shutil.rmtree(folder / "replaced", ignore_errors=True)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _run_maven(name: str, maven: str, folder: Path) -> None:
    goal = ("dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={folder}")
    environment = {**os.environ, "JAVA_HOME": str(java_executable().parent.parent)}
    try:
        done = subprocess.run(
            [maven, "-B", "-ntp", "-q", "-f", str(folder / "pom.xml"), *goal],
            cwd=folder, env=environment, timeout=_MAVEN_TIMEOUT_S, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise CannotRun(f"Maven did not fetch {name} within {_MAVEN_TIMEOUT_S} s") from error
    if done.returncode != 0:
        told = next((line for line in done.stdout.splitlines() if "ERROR" in line), f"exit status {done.returncode}")
        raise CannotRun(f"Maven could not fetch {name}: {told}")
