"""Names that are given, or taken away, for good, in a folder whose sync may fail.

A sync that has failed may find nothing to write when it is repeated, and succeed: what every process sees then is not
what the disk has. So whoever cannot know that a name was synced gives it, or takes it away, once more.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from shim.log.disk.files import Files

STAND_IN: Final = b"taken away\n"
"""In a file that has a name for a moment only, so that this can be taken away once more."""


def give_anew(files: Files, path: Path, content: bytes = b"") -> None:
    """To a file with this content, at one stroke, in the place of what is there. Durable only after
    :meth:`Files.sync_directory`, and of the content nothing is sure. Raises OSError."""
    unnamed = _unnamed(files, path)
    fd = files.create(unnamed)
    try:
        if content:
            files.write_at(fd, content, 0)
    finally:
        files.close(fd)
    files.rename(unnamed, path)


def take_away(files: Files, path: Path, beside: Path) -> None:
    """Gives the file, at one stroke, the name ``beside``, which tells until that is synced that ``path`` may come back:
    then this is to be done once more, by this process or by the next one, before anything rests on it. Durable only
    after :meth:`Files.sync_directory`. Raises OSError.

    For that it is there again for a moment, with ``STAND_IN`` in it. A process that dies then leaves it.
    """
    if not files.exists(path):
        unnamed = _unnamed(files, beside)
        fd = files.create(unnamed)  # not the one beside: that may have another name in a backup, and stays as it is
        try:
            files.write_at(fd, STAND_IN, 0)
            files.fdatasync(fd)
        finally:
            files.close(fd)
        files.rename(unnamed, path)
    files.rename(path, beside)


def stands_in(files: Files, path: Path) -> bool:
    """Whether it is there for that moment only, and to be taken away. No batch is that short. Raises OSError."""
    return files.size_of(path) == len(STAND_IN) and files.read_file(path) == STAND_IN


def _unnamed(files: Files, path: Path) -> Path:
    unnamed = path.with_name(f"{path.name}.tmp")
    if files.exists(unnamed):
        files.unlink(unnamed)
    return unnamed
