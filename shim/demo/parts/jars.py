"""Jar sets of Kafka and ZooKeeper, fetched by Maven into a cache and found whole there ever after.

`$OFFSET_SHIM_CACHE/jars/<set>/` holds one set: its jars, the pom they came from, `complete.json` (written last: what
belongs to the set, and its size in bytes), and the class data archive that makes it start faster (`archive.py`).
"""

import hashlib
import json
import logging
import os
import re
import shutil
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from shim.demo.parts.cache import PartsUnavailable, cache_folder, locked, made_whole, run_to_fill

KAFKA = "kafka-4.3.1"
ZOOKEEPER = "zookeeper-3.9.5"

POM_FOLDERS: list[Traversable] = [files("shim.demo.parts").joinpath("poms")]
"""Where there is a pom for each jar set, `<name>.xml`; whoever has sets of their own adds a folder."""

_OLDEST_JAVA = 17  # Kafka 4 brokers (KIP-1013)
_MAVEN_TIMEOUT_S = 900
# It lives for seconds: that is half of its processor time.
_MAVEN_OPTS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
_COMPLETE = "complete.json"

_log = logging.getLogger("shim.demo.parts")


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


def _maven_executable(name: str) -> str:
    found = shutil.which("mvn")
    if found is None:
        raise PartsUnavailable(f"no mvn on the PATH, and {name} is not in the cache yet: install Maven (Debian: maven)")
    return found


def look_for(name: str) -> None:
    """What it takes to have a jar set and to run what is in it. Raises PartsUnavailable with all that is missing."""
    missing = []
    try:
        java_executable()
    except PartsUnavailable as error:
        missing.append(str(error))
    try:
        if _whole_set(name, cache_folder() / "jars" / name, _pom(name)) is None:
            _maven_executable(name)
    except PartsUnavailable as error:
        missing.append(str(error))
    if missing:
        raise PartsUnavailable("; ".join(missing))


def _pom(name: str) -> bytes:
    """Raises KeyError for a name without one."""
    poms = [found for folder in POM_FOLDERS if (found := folder.joinpath(f"{name}.xml")).is_file()]
    if not poms:
        raise KeyError(name)
    return poms[0].read_bytes()


def jar_set(name: str) -> JarSet:
    """The jar set `name` (of a pom in one of POM_FOLDERS), fetched now when the cache lacks it or holds it in part.

    Safe for processes and threads at the same moment, and for a kill at any point. Raises PartsUnavailable when it
    cannot be fetched, and KeyError for a name without a pom.
    """
    pom = _pom(name)
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
    """Put a whole set at `folder`. The lock is held."""
    java, maven = java_executable(), _maven_executable(name)
    _log.info("fetching %s with Maven", name)
    with made_whole(folder) as new:
        (new / "pom.xml").write_bytes(pom)
        goal = ("dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={new}")
        run_to_fill(
            "Maven",
            f"fetch {name}",
            [maven, "-B", "-ntp", "-f", str(new / "pom.xml"), *goal],
            cwd=new,
            timeout=_MAVEN_TIMEOUT_S,
            env={
                **os.environ,
                "JAVA_HOME": str(java.parent.parent),
                "MAVEN_OPTS": f"{_MAVEN_OPTS} {os.environ.get('MAVEN_OPTS', '')}",
            },
        )
        sizes = {jar.name: jar.stat().st_size for jar in new.glob("*.jar")}
        complete = {"pom": hashlib.sha256(pom).hexdigest(), "jars": sizes}
        (new / _COMPLETE).write_text(json.dumps(complete, indent=1, sort_keys=True))
