"""Segments that are put in the place of others: at every moment, whatever breaks off, the log means the same."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from protocol.records.batches import batches
from shim.log.cleaner.cleaning import CleanerSettings
from shim.log.disk.checkpoint import CLEANER_OFFSET_CHECKPOINT, read_checkpoint
from shim.log.disk.files import Files
from shim.log.disk.layout import index_name
from shim.log.errors import CorruptLog
from shim.log.segments.swap import finish_swap
from tests.log.cleaner.folder import ALWAYS, NOW, Folder, clean, cleaner, put
from tests.log.faulty_files import FaultyFiles
from tests.log.mortal_files import Killed, MortalFiles


def merged(folder: Folder) -> None:
    """Five small segments, cleaned into one; of the third to the fifth nothing but the end is left."""
    for value in "12":
        folder.append(put("a", value), put("b", value))
        folder.append(put("gone", None))
        folder.begin_segment()
    for value in "345":
        folder.append(put("a", value), put("last", value))
        folder.begin_segment()
    folder.append(put("a", "6"), put("last", "6"))
    folder.begin_segment()
    folder.append(put("b", "active"))


def one_by_one(folder: Folder) -> None:
    """Segments that stay apart, one of them the same as before, with indexes."""
    merged(folder)
    (folder.folder / index_name(0)).write_bytes(b"old")


SCENES = [(merged, ALWAYS), (one_by_one, CleanerSettings(min_cleanable_ratio=0.0, segment_bytes=100))]


SCENE = pytest.mark.parametrize(("build", "settings"), SCENES, ids=["merged", "apart"])


@SCENE
def test_killed_at_any_call_and_again_at_any_call_of_the_start(
    tmp_path: Path, build: Callable[[Folder], None], settings: CleanerSettings
) -> None:
    whole = copy_of(tmp_path, build, "whole", Files())
    before = whole.replay()
    clean(whole, settings)
    after = whole.contents()
    kills = 0
    for at in count(1):
        files = MortalFiles(at)
        folder = copy_of(tmp_path, build, f"killed-{at}", files)
        try:
            cleaner(folder, settings).step(NOW)
        except Killed:
            kills += 1
        else:
            break
        folder.swap_failed = False  # who comes next knows nothing of it
        crashed = folder.contents()
        for second in count(1):
            files.at, files.calls = second, 0
            try:
                finish_swap(files, folder.folder)
            except Killed:
                kills += 1
                files.at = 1 << 30
                finish_swap(files, folder.folder)
                done = False
            else:
                done = True
            assert folder.replay() == before, (at, second)
            assert all(name.endswith((".log", ".index")) for name in folder.contents()), (at, second)
            if done:
                break
            for path in folder.folder.iterdir():
                path.unlink()
            for name, data in crashed.items():
                (folder.folder / name).write_bytes(data)
        files.at = 1 << 30
        while cleaner(folder, settings).step(NOW):
            pass
        assert folder.replay() == before
        assert {name: data for name, data in folder.contents().items() if name.endswith(".log")} == {
            name: data for name, data in after.items() if name.endswith(".log")
        }, f"killed at {at}, the next round comes to the same"
    assert kills > 30


def copy_of(tmp_path: Path, build: Callable[[Folder], None], name: str, files: Files) -> Folder:
    (tmp_path / name).mkdir()
    folder = Folder(tmp_path / name, files)
    build(folder)
    return folder


class FailingFiles(FaultyFiles):
    """The call number ``at`` of those that take a path or a descriptor fails, once."""

    def __init__(self, at: int, error: int) -> None:
        super().__init__()
        self.at = at
        self.error = error
        self.count = 0

    def _fail(self, what: object) -> None:
        self.count += 1
        if self.count == self.at:
            raise OSError(self.error, os.strerror(self.error), str(what))

    def create(self, path: Path) -> int:
        self._fail(path)
        return super().create(path)

    def open(self, path: Path) -> int:
        self._fail(path)
        return super().open(path)

    def pread(self, fd: int, size: int, position: int) -> bytes:
        self._fail(fd)
        return super().pread(fd, size, position)

    def pwrite(self, fd: int, data: bytes | memoryview, position: int) -> int:
        self._fail(fd)
        return super().pwrite(fd, data, position)

    def fdatasync(self, fd: int) -> None:
        self._fail(fd)
        super().fdatasync(fd)

    def sync_directory(self, path: Path) -> None:
        self._fail(path)
        super().sync_directory(path)

    def rename(self, source: Path, target: Path) -> None:
        self._fail(source)
        super().rename(source, target)

    def unlink(self, path: Path) -> None:
        self._fail(path)
        super().unlink(path)

    def names(self, path: Path) -> list[str]:
        self._fail(path)
        return super().names(path)


@SCENE
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_any_call_fails(
    tmp_path: Path,
    build: Callable[[Folder], None],
    settings: CleanerSettings,
    error: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    failures = 0
    for at in count(1):
        files = FailingFiles(at, error)
        folder = copy_of(tmp_path, build, f"failing-{at}", files)
        before = folder.replay()
        compactor = cleaner(folder, settings)
        caplog.clear()
        stats = compactor.step(NOW)
        assert files.open_files == {}
        if files.count < at:
            assert stats is not None
            break
        failures += 1
        assert stats is not None or len(caplog.messages) == 1
        assert compactor.uncleanable == {}
        while compactor.step(NOW):
            pass
        assert files.open_files == {}
        assert folder.replay() == before
        assert [name for name in folder.contents() if not name.endswith(".log")] == [], at
        assert [segment.next_offset for segment in folder.closed_segments()][-1] == read_checkpoint(
            Files(), folder.folder.parent / CLEANER_OFFSET_CHECKPOINT
        )[folder.topic_partition]
    assert failures > 30


def test_a_swap_that_is_refused_changes_nothing(folder: Folder) -> None:
    merged(folder)
    before = folder.contents()
    folder.refuses_swaps = True
    assert cleaner(folder).step(NOW) is None
    assert folder.contents() == before


@pytest.mark.parametrize("at", ["a base offset upward", "a base offset downward", "a header", "a record"])
def test_a_damaged_swap_file_is_not_believed(folder: Folder, at: str) -> None:
    merged(folder)
    folder.files = files = MortalFiles()
    files.dies_after_rename = True
    with pytest.raises(Killed):
        cleaner(folder).step(NOW)
    (swap_file,) = folder.folder.glob("*.swap")
    damaged = bytearray(swap_file.read_bytes())
    last = [position for position, _ in batches(bytes(damaged))][-1]  # its base offset says what is replaced
    position, bit = {
        "a base offset upward": (last, 0x01),
        "a base offset downward": (last + 7, 0x01),
        "a header": (last + 26, 0x01),
        "a record": (last + 70, 0x20),
    }[at]
    damaged[position] ^= bit
    swap_file.write_bytes(damaged)
    # A crash between the renames: of a replaced segment nothing else is left.
    replaced = next(each for each in folder.closed_segments() if each.base_offset > int(swap_file.name[:20])).path
    replaced.with_name(f"{replaced.name}.deleted").write_bytes(replaced.read_bytes())
    before = folder.contents()
    with pytest.raises(CorruptLog) as corrupt:
        finish_swap(Files(), folder.folder)
    assert corrupt.value.path == swap_file
    assert corrupt.value.position == last
    assert folder.contents() == before
