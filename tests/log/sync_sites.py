"""Where the log (or another room) syncs, and a disk on which one of these places does nothing."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from types import FrameType
from typing import ClassVar, NamedTuple

import shim.log
from tests.log.lost_files import LostFiles

FOLDER = Path(shim.log.__file__).parent
METHODS = ("fdatasync", "fsync", "sync_directory")


class Site(NamedTuple):
    """A call in the source."""

    module: str
    function: str
    method: str
    line: int

    def __str__(self) -> str:
        return f"{self.method} in {self.module}.{self.function}:{self.line}"


class CallPath(NamedTuple):
    """A call as it was made: the line, and the names of the two functions that led there."""

    module: str
    line: int
    callers: tuple[str, str]


def sites(left_out: frozenset[str], folder: Path = FOLDER) -> list[Site]:
    """Every call of a sync in a room's source, but for the modules left out."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        if path.stem in left_out or path.stem == "files" or not _is_of(folder, path):
            continue
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef):
                found += [
                    Site(path.stem, function.name, call.func.attr, call.func.end_lineno or 0)
                    for call in ast.walk(function)
                    if isinstance(call, ast.Call)
                    and isinstance(call.func, ast.Attribute)
                    and call.func.attr in METHODS
                    and ast.unparse(call.func.value) != "self"
                ]
    return found


def _is_of(folder: Path, source: Path) -> bool:
    """The cleaner is no part of the log that it stands on."""
    return folder in source.parents and source.parent.name != "cleaner"


class WatchedFiles(LostFiles):
    """Notes who syncs; the sync that is ``ignored`` is not made, and reports success."""

    folder: ClassVar[Path]
    seen: ClassVar[set[CallPath]]
    ignored: ClassVar[CallPath | None]

    def fdatasync(self, fd: int) -> None:
        if self._counts(sys._getframe(1)):
            super().fdatasync(fd)

    def fsync(self, fd: int) -> None:
        if self._counts(sys._getframe(1)):
            super().fsync(fd)

    def sync_directory(self, path: Path) -> None:
        if self._counts(sys._getframe(1)):
            super().sync_directory(path)

    def _counts(self, frame: FrameType) -> bool:
        source = Path(frame.f_code.co_filename)
        if not _is_of(self.folder, source):
            return True
        callers: list[str] = []
        outer = frame.f_back
        while outer is not None and len(callers) < 2:
            callers.append(outer.f_code.co_name)
            outer = outer.f_back
        path = CallPath(source.stem, frame.f_lineno, (callers[0], callers[1]))
        self.seen.add(path)
        return path != self.ignored


def watching(ignored: CallPath | None = None, folder: Path = FOLDER) -> type[WatchedFiles]:
    class Watching(WatchedFiles):
        seen: ClassVar[set[CallPath]] = set()

    Watching.ignored = ignored
    Watching.folder = folder
    return Watching
