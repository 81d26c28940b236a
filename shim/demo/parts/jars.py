"""Jar sets of Kafka and ZooKeeper, fetched by Maven into a cache and found whole there ever after.

`$OFFSET_SHIM_CACHE/jars/<set>/` holds one set: its jars, the pom they came from, `complete.json` (written last: what
belongs to the set, and its size in bytes), and the class data archive that makes it start faster (`archive.py`).
"""

import fcntl
import hashlib
import json
import logging
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from shim.demo.parts.process import spawn

KAFKA = "kafka-4.3.1"
ZOOKEEPER = "zookeeper-3.9.5"

POM_FOLDERS: list[Traversable] = [files("shim.demo.parts").joinpath("poms")]
"""Where there is a pom for each jar set, `<name>.xml`; whoever has sets of their own adds a folder."""

_OLDEST_JAVA = 17  # Kafka 4 brokers (KIP-1013)
_MAVEN_TIMEOUT_S = 900
_COMPLETE = "complete.json"
_OUTPUT_SHOWN = 4_000  # characters of Maven's output in an error

_log = logging.getLogger("shim.demo.parts")


class PartsUnavailable(RuntimeError):
    """The real parts cannot be had here: Java or Maven is missing, or the jars cannot be fetched. Says what to do."""


@dataclass(frozen=True)
class JarSet:
    """A whole jar set in the cache."""

    name: str
    folder: Path
    jars: tuple[Path, ...]

    @property
    def class_path(self) -> str:
        """The jars in a fixed order: a class data archive only fits the very class path that it was made with."""
        return os.pathsep.join(map(str, self.jars))


def cache_folder() -> Path:
    """`$OFFSET_SHIM_CACHE`, by default `offset-shim` in the user's cache folder. It need not exist."""
    chosen = os.environ.get("OFFSET_SHIM_CACHE")
    if chosen:
        return Path(chosen).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "offset-shim"


def java_executable() -> Path:
    """The `java` of `$JAVA_HOME`, or else of the PATH. Raises PartsUnavailable when there is none, or one too old."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if found is None:
        where = f"in JAVA_HOME ({home})" if home else "on the PATH"
        raise PartsUnavailable(
            f"no java {where}: install a Java runtime, {_OLDEST_JAVA} or newer (Debian: openjdk-17-jre-headless)"
        )
    java = Path(found).resolve()
    version = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', java_release(java), re.MULTILINE)
    if version and int(version[1]) < _OLDEST_JAVA:
        raise PartsUnavailable(f"{found} is Java {version[1]}: install a Java runtime, {_OLDEST_JAVA} or newer")
    return java


def java_release(java: Path) -> str:
    """What the Java installation says of its version (its `release` file); empty when it says nothing."""
    release = java.parent.parent / "release"
    return release.read_text(encoding="utf-8", errors="replace") if release.is_file() else ""


def jar_set(name: str) -> JarSet:
    """The jar set `name` (of a pom in one of POM_FOLDERS), fetched now when the cache lacks it or holds it in part.

    Safe for processes and threads at the same moment, and for a kill at any point. Raises PartsUnavailable when it
    cannot be fetched, and KeyError for a name without a pom.
    """
    poms = [found for folder in POM_FOLDERS if (found := folder.joinpath(f"{name}.xml")).is_file()]
    if not poms:
        raise KeyError(name)
    pom = poms[0].read_bytes()
    folder = cache_folder() / "jars" / name
    whole = _whole_set(name, folder, pom)
    if whole:
        return whole
    with locked(folder):
        # Somebody else may have fetched it while this process waited for the lock.
        whole = _whole_set(name, folder, pom)
        if whole is None:
            _fetch(name, folder, pom)
            whole = _whole_set(name, folder, pom)
    if whole is None:
        raise PartsUnavailable(f"{folder} changed while {name} was fetched into it: does something clean this folder?")
    return whole


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


def _whole_set(name: str, folder: Path, pom: bytes) -> JarSet | None:
    try:
        complete = json.loads((folder / _COMPLETE).read_bytes())
        sizes = dict(complete["jars"])
        whole = complete["pom"] == hashlib.sha256(pom).hexdigest() and bool(sizes)
        whole = whole and all((folder / jar).stat().st_size == size for jar, size in sizes.items())
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        return None  # never fetched, or not to the end, or damaged since: in each case it is fetched (again)
    return JarSet(name, folder, tuple(folder / jar for jar in sorted(sizes))) if whole else None


def _fetch(name: str, folder: Path, pom: bytes) -> None:
    """Put a whole set at `folder`, through a sibling that is renamed when it is complete. The lock is held."""
    java = java_executable()
    maven = shutil.which("mvn")
    if maven is None:
        raise PartsUnavailable(f"no mvn on the PATH, and {name} is not in the cache yet: install Maven (Debian: maven)")
    _log.info("fetching %s with Maven", name)
    for left_over in folder.parent.glob(f".{name}.fetch-*"):
        shutil.rmtree(left_over)
    new = Path(tempfile.mkdtemp(prefix=f".{name}.fetch-", dir=folder.parent))
    try:
        (new / "pom.xml").write_bytes(pom)
        _run_maven(name, Path(maven), java, new)
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


def _run_maven(name: str, maven: Path, java: Path, folder: Path) -> None:
    process = spawn(
        [
            str(maven),
            "-B",
            "-ntp",
            "-f",
            str(folder / "pom.xml"),
            "dependency:copy-dependencies",
            "-DincludeScope=runtime",
            f"-DoutputDirectory={folder}",
        ],
        cwd=folder,
        env={**os.environ, "JAVA_HOME": str(java.parent.parent)},
    )
    with process:
        try:
            output, _ = process.communicate(timeout=_MAVEN_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            raise PartsUnavailable(f"Maven did not fetch {name} within {_MAVEN_TIMEOUT_S} s") from error
        finally:
            process.kill()
    if process.returncode != 0:
        raise PartsUnavailable(
            f"Maven could not fetch {name} (exit status {process.returncode}):\n{output[-_OUTPUT_SHOWN:]}"
        )
