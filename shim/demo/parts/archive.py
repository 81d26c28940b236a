"""Class data archives (AppCDS, JEP 350) of the jar sets: with one, a Kafka broker starts in half the time.

Made once per jar set and Java runtime, by a server that is started and stopped for nothing else. Where none can be
made, everything runs as it does without.
"""

import hashlib
import logging
from collections.abc import Callable
from pathlib import Path

from shim.demo.parts.cache import PartsUnavailable, locked
from shim.demo.parts.jars import JarSet, java_release
from shim.demo.parts.process import StartFailed


class ArchiveRefused(RuntimeError):
    """The Java runtime ran and stopped in order, yet wrote no archive: it would not another time either."""


_log = logging.getLogger("shim.demo.parts")


def archive_path(jars: JarSet, java: Path) -> Path:
    """Where the archive of this jar set and this Java runtime is kept. It need not exist."""
    runtime = hashlib.sha256(f"{java}\n{java_release(java)}".encode()).hexdigest()[:12]
    return jars.folder / f"classes-{runtime}.jsa"


def made_archive(jars: JarSet, java: Path, train: Callable[[Path], None]) -> Path | None:
    """The archive of a jar set, made now when there is none; None when it cannot be made.

    `train` runs a process that writes an archive to the path it is given, and returns when that process has ended.
    When it raises ArchiveRefused that is noted beside the archive's place and not tried again; what else goes wrong
    (a cache that cannot be written, a start that failed) is logged, and tried again next time.
    """
    archive = archive_path(jars, java)
    refused = archive.with_suffix(".refused")
    if archive.exists():
        return archive
    if refused.exists():
        return None
    try:
        with locked(jars.folder):
            if not archive.exists() and not refused.exists():
                _make(archive, refused, train)
    except (OSError, PartsUnavailable, StartFailed) as error:
        _log.warning("no class data archive of %s this time: %s", jars.name, error)
    return archive if archive.exists() else None


def _make(archive: Path, refused: Path, train: Callable[[Path], None]) -> None:
    _log.info("making the class data archive %s", archive)
    new = archive.with_suffix(".new")
    new.unlink(missing_ok=True)  # of a process that was killed while it made one
    try:
        train(new)
    except ArchiveRefused as error:
        _log.warning("no class data archive %s: %s", archive, error)
        refused.write_text(f"{error}\n\nRemove this file to have it tried again.\n", encoding="utf-8")
    else:
        new.rename(archive)
