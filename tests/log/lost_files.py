"""A disk in memory that forgets what was not synced, as disks do when the power fails.

What the log sees is the page cache: everything that it wrote. What survives a power failure is what was synced, and of
the rest whatever the seed says: single blocks of a write in any order, sizes without their data, names one by one. A
process that is killed loses nothing of it, but has synced nothing either.

Not modelled, because no file system does it: bytes of other files, or names that were never given. Nor, because no
process can tell: names of folders whose sync has failed in an earlier one, and that another sync does not bring to the
disk.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from shim.log.disk.files import Files

BLOCK = 64
"""Bytes that reach the disk together. Real ones are larger; with small ones a small batch is torn in many ways."""


class PowerFailure(BaseException):
    """What every call raises from the chosen one on. No part of the log may catch it."""


class _File:
    def __init__(self, content: bytes = b"") -> None:
        self.cache = bytearray(content)
        self.disk = bytes(content)
        # Since the last sync: (position, bytes) of a write, (size, None) of a truncation.
        self.pending: list[tuple[int, bytes | None]] = []

    def sync(self, *, cuts_too: bool = True) -> None:
        """Of a file that was only cut short since the last write, nothing has to be kept to read its data."""
        done = len(self.pending)
        while not cuts_too and done and self.pending[done - 1][1] is None:
            done -= 1
        # Not all that is seen: what a failed sync has left in memory only is not written again.
        content = bytearray(self.disk)
        for position, data in self.pending[:done]:
            _write(content, position, data)
        self.disk = bytes(content)
        del self.pending[:done]

    def survivor(self, rng: random.Random) -> bytes:
        content = bytearray(self.disk)
        odds = rng.choice((0.0, 0.3, 0.7, 0.95, 1.0))
        for position, data in self.pending:
            if data is None:
                if rng.random() < odds:
                    _write(content, position, None)
                continue
            for start, end in _blocks(position, position + len(data)):
                if rng.random() < odds:
                    _write(content, start, data[start - position : end - position])
        if self.pending and rng.random() < 0.2:  # the size got there, the data did not
            content.extend(bytes(max(0, len(self.cache) - len(content))))
        return bytes(content)


def _write(content: bytearray, position: int, data: bytes | None) -> None:
    content.extend(bytes(max(0, position - len(content))))
    if data is None:
        del content[position:]
    else:
        content[position : position + len(data)] = data


def _blocks(start: int, end: int) -> Iterator[tuple[int, int]]:
    while start < end:
        stop = min(end, start // BLOCK * BLOCK + BLOCK)
        yield start, stop
        start = stop


class _Folder:
    def __init__(self) -> None:
        self.cache: dict[str, _File | _Folder] = {}
        self.disk: dict[str, _File | _Folder] = {}
        self.pending: list[dict[str, _File | _Folder | None]] = []

    def change(self, names: dict[str, _File | _Folder | None]) -> None:
        self.pending.append(names)
        _apply(self.cache, names)

    def sync(self) -> None:
        # Not all that is seen, as with files.
        for change in self.pending:
            _apply(self.disk, change)
        self.pending.clear()

    def sync_fails(self, rng: random.Random) -> None:
        self.disk = self._left(rng)
        self.pending.clear()

    def folders_changed_anew(self) -> None:
        due = dict(self.disk)
        for change in self.pending:
            _apply(due, change)
        folders = {name: node for name, node in self.cache.items() if isinstance(node, _Folder)}
        lost: dict[str, _File | _Folder | None] = {
            name: node for name, node in folders.items() if due.get(name) is not node
        }
        if lost:
            self.pending.append(lost)
        for node in folders.values():
            node.folders_changed_anew()

    def _left(self, rng: random.Random) -> dict[str, _File | _Folder]:
        names = dict(self.disk)
        odds = rng.choice((0.0, 0.5, 0.8, 1.0))
        for change in self.pending:
            if rng.random() < odds:
                _apply(names, change)
        return names

    def survivor(self, rng: random.Random) -> _Folder:
        survivor = _Folder()
        for name, node in self._left(rng).items():
            survivor.cache[name] = node.survivor(rng) if isinstance(node, _Folder) else _File(node.survivor(rng))
        survivor.disk = dict(survivor.cache)
        return survivor


def _apply(names: dict[str, _File | _Folder], change: dict[str, _File | _Folder | None]) -> None:
    for name, node in change.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


class LostFiles(Files):
    """``calls`` counts those that change something. Call number ``crash_at`` is not made any more: PowerFailure. Where
    ``crash_in`` names methods, it is the first call of one of these from that number on.

    ``errors``: number of a call to the error that it fails with. A write then leaves a part of itself; a sync leaves
    what a failed one does: pages, or names, that count as clean and may be on the disk or not, for this process and
    those after it. Where ``error_in`` names methods, the first calls of these from those numbers on fail. Files in the
    folder ``refuses`` take no writes, as on a full disk, while others do.
    """

    def __init__(self, root: _Folder | None = None, *, rng: random.Random | None = None) -> None:
        self.calls = 0
        self.crash_at: int | None = None
        self.crash_in: frozenset[str] = frozenset()
        self.errors: dict[int, int] = {}
        self.error_in: frozenset[str] = frozenset()
        self.refuses: Path | None = None
        self._folders: dict[int, Path] = {}
        self._given: set[int] = set()
        self.longest_write = 1 << 40
        self._root = root or _Folder()
        self._rng = rng or random.Random(0)
        self._open: dict[int, _File] = {}
        self._locked: dict[int, Path] = {}
        self._next_fd = 3
        self._down = False

    def after_kill(self) -> Self:
        """The process is gone, the machine goes on: nothing is lost, and nothing is synced."""
        self.forget_failed_folders()
        return type(self)(self._root, rng=self._rng)

    def forget_failed_folders(self) -> None:
        """The next sync brings their names to the disk after all: a start cannot give them anew."""
        self._root.folders_changed_anew()

    def after_power_failure(self) -> Self:
        """What is there when the machine is up again."""
        return type(self)(self._root.survivor(self._rng), rng=self._rng)

    def content(self) -> dict[Path, bytes]:
        """All files, as they are seen, whatever has happened."""
        found: dict[Path, bytes] = {}

        def collect(folder: _Folder, path: Path) -> None:
            for name, node in folder.cache.items():
                if isinstance(node, _Folder):
                    collect(node, path / name)
                else:
                    found[path / name] = bytes(node.cache)

        collect(self._root, Path("/"))
        return found

    @property
    def open_files(self) -> int:
        return len(self._open)

    # --- how calls go wrong ------------------------------------------------------------------------------------------

    def _alive(self) -> None:
        if self._down:
            raise PowerFailure

    def _change(self, method: str) -> int:
        """Counts a call; gives the error that it has to fail with, or 0."""
        self._alive()
        due = self.crash_at is not None and self.calls >= self.crash_at
        if due and (not self.crash_in or method in self.crash_in):
            self._down = True
            raise PowerFailure
        self.calls += 1
        if not self.error_in:
            return self.errors.get(self.calls - 1, 0)
        left = sorted(self.errors.keys() - self._given)
        if method not in self.error_in or not left or left[0] >= self.calls:
            return 0
        self._given.add(left[0])
        return self.errors[left[0]]

    def _change_or_fail(self, method: str, path: object) -> None:
        if error := self._change(method):
            raise OSError(error, os.strerror(error), str(path))

    # --- names -------------------------------------------------------------------------------------------------------

    def _node(self, path: Path) -> _File | _Folder:
        node: _File | _Folder = self._root
        for name in path.parts[1:]:
            if not isinstance(node, _Folder):
                raise NotADirectoryError(errno.ENOTDIR, "not a folder", str(path))
            if name not in node.cache:
                raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
            node = node.cache[name]
        return node

    def _folder(self, path: Path) -> _Folder:
        node = self._node(path)
        if not isinstance(node, _Folder):
            raise NotADirectoryError(errno.ENOTDIR, "not a folder", str(path))
        return node

    def _file(self, path: Path) -> _File:
        node = self._node(path)
        if not isinstance(node, _File):
            raise IsADirectoryError(errno.EISDIR, "a folder", str(path))
        return node

    def _descriptor(self, file: _File, path: Path) -> int:
        self._next_fd += 1
        self._folders[self._next_fd] = path.parent
        self._open[self._next_fd] = file
        return self._next_fd

    def create(self, path: Path) -> int:
        self._change_or_fail("create", path)
        folder = self._folder(path.parent)
        if path.name in folder.cache:
            raise FileExistsError(errno.EEXIST, "it is there already", str(path))
        file = _File()
        folder.change({path.name: file})
        return self._descriptor(file, path)

    def open(self, path: Path) -> int:
        self._alive()
        return self._descriptor(self._file(path), path)

    def mkdir(self, path: Path) -> None:
        self._change_or_fail("mkdir", path)
        folder = self._folder(path.parent)
        if path.name in folder.cache:
            raise FileExistsError(errno.EEXIST, "it is there already", str(path))
        folder.change({path.name: _Folder()})

    def unlink(self, path: Path) -> None:
        self._change_or_fail("unlink", path)
        self._file(path)
        self._folder(path.parent).change({path.name: None})

    def rmdir(self, path: Path) -> None:
        self._change_or_fail("rmdir", path)
        if self._folder(path).cache:
            raise OSError(errno.ENOTEMPTY, "there is something in it", str(path))
        self._folder(path.parent).change({path.name: None})

    def rename(self, source: Path, target: Path) -> None:
        self._change_or_fail("rename", target)
        assert source.parent == target.parent, "a rename between folders is not modelled"
        self._folder(source.parent).change({source.name: None, target.name: self._node(source)})

    def sync_directory(self, path: Path) -> None:
        folder = self._folder(path)
        if error := self._change("sync_directory"):
            folder.sync_fails(self._rng)
            raise OSError(error, os.strerror(error), str(path))
        folder.sync()

    def exists(self, path: Path) -> bool:
        self._alive()
        try:
            self._node(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def seconds_old(self, path: Path) -> float:
        """Nothing here knows of time."""
        self._alive()
        self._file(path)
        return 0.0

    def names(self, path: Path) -> list[str]:
        self._alive()
        return sorted(self._folder(path).cache)

    def lock(self, path: Path) -> int:
        self._alive()
        if path in self._locked.values():
            raise BlockingIOError(errno.EWOULDBLOCK, "locked", str(path))
        self._next_fd += 1
        self._locked[self._next_fd] = path
        return self._next_fd

    def unlock(self, fd: int) -> None:
        del self._locked[fd]

    # --- contents ----------------------------------------------------------------------------------------------------

    def close(self, fd: int) -> None:
        del self._open[fd]
        self._alive()

    def size(self, fd: int) -> int:
        self._alive()
        return len(self._open[fd].cache)

    def pread(self, fd: int, size: int, position: int) -> bytes:
        self._alive()
        return bytes(self._open[fd].cache[position : position + size])

    def pwrite(self, fd: int, data: bytes | memoryview, position: int) -> int:
        file = self._open[fd]
        error = self._change("pwrite") or (errno.ENOSPC if self._folders[fd] == self.refuses else 0)
        written = bytes(data[: self.longest_write])
        if error:
            written = written[: self._rng.randrange(len(written) + 1)]
        if written:
            file.pending.append((position, written))
            _write(file.cache, position, written)
        if error:
            raise OSError(error, os.strerror(error))
        return len(written)

    def truncate(self, fd: int, size: int) -> None:
        self._change_or_fail("truncate", fd)
        file = self._open[fd]
        file.pending.append((size, None))
        _write(file.cache, size, None)

    def fdatasync(self, fd: int) -> None:
        self._sync(self._open[fd], cuts_too=False)

    def fsync(self, fd: int) -> None:
        self._sync(self._open[fd], cuts_too=True)

    def _sync(self, file: _File, *, cuts_too: bool) -> None:
        if error := self._change("fsync" if cuts_too else "fdatasync"):
            file.disk = file.survivor(self._rng)
            file.pending.clear()
            raise OSError(error, os.strerror(error))
        file.sync(cuts_too=cuts_too)

    def drop_cache(self, fd: int) -> None:
        self._alive()
        file = self._open[fd]
        if not file.pending:
            file.cache = bytearray(file.disk)
