"""Looking at a data directory that cannot be written to: a disk that has gone read-only, or somebody else's files."""

from __future__ import annotations

import errno
import functools
import json
import logging
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import pytest

from shim.admin.at_rest.backing_up import back_up
from shim.admin.at_rest.data_dir import data_dir_at_rest, data_dir_to_read
from shim.admin.errors import BrokenOff
from shim.admin.files_to_read import FilesToRead
from shim.log import OffsetsLog, PartitionWrite
from shim.log.directory.data_dir import LOCK_NAME
from shim.log.disk.files import Files
from shim.log.disk.layout import segment_name
from tests.admin.running import SILENT, TIME_LIMIT_SECONDS, TIMESTAMP, Result, commit_record, log, served

COMMITS = 5
MOUNTED = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'


COMMANDS = """
import json, sys
from click.testing import CliRunner
from shim.admin.commands.log import log_commands
ended = (CliRunner().invoke(log_commands, args, catch_exceptions=False) for args in json.loads(sys.argv[1]))
print(json.dumps([(each.exit_code, each.stdout, each.stderr) for each in ended]))
"""

Command = Sequence[str | Path]
"""The arguments of `log`."""


class Looking(Protocol):
    def __call__(self, data_dir: Path, *commands: Command) -> list[Result]:
        """`log` commands of one process that cannot write to ``data_dir``."""


def opened(data_dir: Path) -> OffsetsLog:
    offsets_log = OffsetsLog.open(data_dir, 1)
    assert all(offsets_log.recover(0))
    return offsets_log


def commit(offsets_log: OffsetsLog, offset: int) -> None:
    record = commit_record("g", f"topic-{offset}", 0, offset)
    assert offsets_log.write([PartitionWrite(0, [[record]], TIMESTAMP)]) == {}


def segment_of(data_dir: Path) -> Path:
    return data_dir / "__consumer_offsets-0" / segment_name(0)


def content_of(data_dir: Path) -> dict[Path, tuple[bytes, int]]:
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in data_dir.rglob("*") if path.is_file()}


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    """In good order, with ``COMMITS`` commits of group g, each to a topic of its own."""
    offsets_log = opened(tmp_path / "closed")
    for offset in range(COMMITS):
        commit(offsets_log, offset)
    offsets_log.close()
    return tmp_path / "closed"


@pytest.fixture
def lost(tmp_path: Path) -> Path:
    """The same, in the journal alone: what a crash of the machine leaves at worst."""
    offsets_log = opened(tmp_path / "written")
    for offset in range(COMMITS):
        commit(offsets_log, offset)
    shutil.copytree(tmp_path / "written", tmp_path / "lost")
    offsets_log.close()
    segment_of(tmp_path / "lost").write_bytes(b"")
    return tmp_path / "lost"


@functools.cache
def cannot_mount() -> str:
    """Why, or nothing."""
    tried = subprocess.run(["unshare", "--mount", "true"], capture_output=True, text=True, check=False)
    return tried.stderr


def on_a_read_only_disk(data_dir: Path, *commands: Command) -> list[Result]:
    return _ended(["unshare", "--mount", "sh", "-c", MOUNTED, str(data_dir)], commands)


def without_the_right_to_write(data_dir: Path, *commands: Command) -> list[Result]:
    """Root has it, whatever the mode says, by a capability."""
    for path in (data_dir, *data_dir.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        return _ended(["setpriv", "--bounding-set=-all"] if os.geteuid() == 0 else [], commands)
    finally:
        for path in (data_dir, *data_dir.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)


def _ended(under: Sequence[str], commands: Sequence[Command]) -> list[Result]:
    args = json.dumps([[str(arg) for arg in command] for command in commands])
    process = [*under, sys.executable, "-c", COMMANDS, args]
    done = subprocess.run(process, capture_output=True, text=True, timeout=TIME_LIMIT_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    return [Result(*each) for each in json.loads(done.stdout)]


@pytest.fixture(params=[on_a_read_only_disk, without_the_right_to_write], ids=lambda each: each.__name__)
def looking(request: pytest.FixtureRequest) -> Looking:
    way: Looking = request.param
    if way is on_a_read_only_disk and (why := cannot_mount()):
        pytest.skip(f"no mount of one's own: {why}")
    return way


@pytest.mark.parametrize("left", ["lost", "closed"])
def test_whoever_looks_needs_no_right_to_write(
    request: pytest.FixtureRequest, tmp_path: Path, looking: Looking, left: str
) -> None:
    data_dir: Path = request.getfixturevalue(left)
    if left == "closed":  # and copied without it, say
        (data_dir / LOCK_NAME).unlink()
    before = content_of(data_dir)
    told = looking(
        data_dir,
        ("verify", "--data-dir", data_dir, "--json"),
        ("dump", "--data-dir", data_dir, "--state"),
        ("export", "--data-dir", data_dir, "--to-folder", tmp_path / "to", "--partitions", "1"),
        ("backup", "--data-dir", data_dir, tmp_path / "backup"),
        ("repair", "--data-dir", data_dir, "--dry-run"),
        ("compact", "--data-dir", data_dir, "--dry-run"),
    )
    assert [each.status for each in told] == [0] * 6, told
    verified, dumped, *_ = told
    assert [each["records"] for each in verified.json["partitions"]] == [COMMITS]
    assert all(f"topic-{offset}" in dumped.stdout for offset in range(COMMITS))
    assert content_of(data_dir) == before
    assert sorted(each.offset for each in served(tmp_path / "backup")["g"].values()) == list(range(COMMITS))
    imported = log("import", "--data-dir", tmp_path / "new", "--from-folder", tmp_path / "to", "--partitions", "1")
    assert imported.status == 0, imported.stderr
    assert len(served(tmp_path / "new")["g"]) == COMMITS


def test_a_damage_is_planned_for(closed: Path, looking: Looking) -> None:
    (closed / "__consumer_offsets-0").rename(closed / "__consumer_offsets-1")
    (told,) = looking(closed, ("repair", "--data-dir", closed, "--dry-run"))
    assert (told.status, "the partition's folder is missing" in told.stdout) == (0, True), told


def test_what_would_change_something_says_why_it_does_not(closed: Path, tmp_path: Path, looking: Looking) -> None:
    source = tmp_path / "to"
    assert log("export", "--data-dir", closed, "--to-folder", source, "--partitions", "1").status == 0
    before = content_of(closed)
    for told in looking(
        closed,
        ("repair", "--data-dir", closed),
        ("compact", "--data-dir", closed),
        ("import", "--data-dir", closed, "--from-folder", source, "--partitions", "1"),
    ):
        assert (told.status, told.stdout) == (2, "")
        line = told.stderr.splitlines()[-1]
        assert line.startswith(f"Error: {closed}/")
        assert line.endswith((": Read-only file system", ": Permission denied"))
    assert content_of(closed) == before


def test_one_that_is_in_use_is_left_alone(tmp_path: Path, looking: Looking) -> None:
    """The lock is seen where it cannot be written."""
    offsets_log = opened(tmp_path / "data")
    commit(offsets_log, 0)
    (told,) = looking(tmp_path / "data", ("verify", "--data-dir", tmp_path / "data"))
    offsets_log.close()
    assert told.status == 2
    assert told.stderr == (
        f"Error: data directory {tmp_path / 'data'} is in use by another process (it holds {LOCK_NAME}): "
        "end that first, or look at a copy, which `log backup` makes of one in use\n"
    )


@pytest.fixture
def restored(closed: Path) -> Path:
    """Without the file that locks it, as a backup is."""
    (closed / LOCK_NAME).unlink()
    return closed


def test_who_looks_makes_no_file(restored: Path, tmp_path: Path) -> None:
    """Root's would keep the shim out, and a full disk take none."""
    before = sorted(restored.rglob("*"))
    for args in (
        ("verify", "--data-dir", restored),
        ("dump", "--data-dir", restored),
        ("repair", "--data-dir", restored, "--dry-run"),
        ("compact", "--data-dir", restored, "--dry-run"),
        ("export", "--data-dir", restored, "--to-folder", tmp_path / "to", "--partitions", "1"),
        ("import", "--data-dir", restored, "--from-folder", tmp_path / "to", "--partitions", "1", "--dry-run"),
        ("backup", "--data-dir", restored, tmp_path / "backup"),
    ):
        told = log(*args)
        assert told.status == 0, told
        assert sorted(restored.rglob("*")) == before, args


def test_what_is_told_is_what_the_disk_has(closed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for a start: memory may show what a failed sync has left there."""
    calls: list[tuple[str, int]] = []

    def told_of(name: str) -> None:
        call = getattr(Files, name)

        def tell(self: Files, fd: int, *args: int) -> object:
            calls.append((name, os.fstat(fd).st_ino))
            return call(self, fd, *args)

        monkeypatch.setattr(Files, name, tell)

    told_of("drop_cache")
    told_of("pread")
    assert log("verify", "--data-dir", closed).status == 0
    of_the_segment = [name for name, inode in calls if inode == segment_of(closed).stat().st_ino]
    assert of_the_segment[0] == "drop_cache"
    assert "pread" in of_the_segment


def test_who_could_not_be_kept_away_is_told_of(restored: Path) -> None:
    with data_dir_to_read(restored):
        pass
    with pytest.raises(BrokenOff, match="may be of different moments"), data_dir_to_read(restored):
        opened(restored).close()


def test_what_fails_as_somebody_has_come_is_told_as_that(restored: Path) -> None:
    """A file that is gone, say: compacted away."""

    def look() -> None:
        with data_dir_to_read(restored) as (files, _):
            opened(restored).close()
            segment_of(restored).unlink()
            files.open(segment_of(restored))

    with pytest.raises(BrokenOff, match="may be of different moments") as told:
        look()
    assert isinstance(told.value.__cause__, FileNotFoundError)


def test_what_fails_while_nobody_comes_is_told_as_it_is(restored: Path) -> None:
    with pytest.raises(FileNotFoundError), data_dir_to_read(restored) as (files, _):
        files.open(restored / "none")


def test_a_lock_that_cannot_be_looked_at_may_be_held(closed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Files, path: Path) -> int:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Files, "lock_shared", refuse)
    with pytest.raises(PermissionError), data_dir_to_read(closed):
        pass


def test_many_may_look_and_nobody_write_meanwhile(closed: Path) -> None:
    with data_dir_to_read(closed):
        assert log("verify", "--data-dir", closed).status == 0
        for changing in ("repair", "compact"):
            told = log(changing, "--data-dir", closed)
            assert (told.status, "is in use by another process" in told.stderr) == (2, True)
    assert log("compact", "--data-dir", closed).status == 0


def test_who_looks_says_nothing_of_writing(lost: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with data_dir_to_read(lost):
        assert caplog.messages == []
    with data_dir_at_rest(Files(), lost):
        assert caplog.messages == [f"{lost}: taken over from the journal into 1 partition"]


# --- files that are read alone ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(50))
def test_what_is_written_is_read_and_stays_in_memory(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    path, files = tmp_path / "file", FilesToRead()
    expected = bytearray(rng.randbytes(rng.randrange(200)))
    path.write_bytes(expected)
    stands = bytes(expected)
    for _ in range(rng.randrange(12)):
        at, data = rng.randrange(300), rng.randbytes(rng.randrange(1, 40))
        expected.extend(bytes(max(0, at - len(expected))))
        expected[at : at + len(data)] = data
        fd = files.open(path)
        files.write_at(fd, data, at)
        files.fsync(fd)
        files.close(fd)
    fd = files.open(path)
    assert files.size(fd) == files.size_of(path) == len(expected)
    assert files.read_at(fd, 1000, 0) == files.read_file(path) == expected
    for _ in range(20):
        position, size = rng.randrange(400), rng.randrange(400)
        assert files.read_at(fd, size, position) == expected[position : position + size]
    files.close(fd)
    files.forget()
    assert path.read_bytes() == files.read_file(path) == stands


def test_what_was_written_is_of_the_file_and_not_of_its_name(tmp_path: Path) -> None:
    """As where a running shim's compaction puts another one in its place."""
    path, files = tmp_path / "segment", FilesToRead()
    path.write_bytes(b"one")
    fd = files.open(path)
    files.write_at(fd, b"journal", 3)
    files.close(fd)
    (tmp_path / "compacted").write_bytes(b"another")
    (tmp_path / "compacted").rename(path)
    assert files.read_file(path) == b"another"
    files.forget()


def test_no_other_file_gets_the_inode_of_one_that_was_written_to(tmp_path: Path) -> None:
    path, files = tmp_path / "segment", FilesToRead()
    path.write_bytes(b"one")
    fd = files.open(path)
    files.write_at(fd, b"journal", 3)
    files.close(fd)
    path.unlink()
    assert open_in(tmp_path) == [f"{path} (deleted)"]
    for number in range(100):
        another = tmp_path / str(number)
        another.write_bytes(b"another")
        assert files.read_file(another) == b"another"
    files.forget()
    assert open_in(tmp_path) == []


def open_in(folder: Path) -> list[str]:
    """What this process has open there."""
    found = [str(fd.readlink()) for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink()]
    return [name for name in found if name.startswith(f"{folder}/")]


@pytest.mark.parametrize("looks", ["to read", "backup"])
def test_whoever_has_looked_has_no_file_open(lost: Path, tmp_path: Path, looks: str) -> None:
    if looks == "backup":
        back_up(Files(), lost, tmp_path / "backup", SILENT)
    else:
        with data_dir_to_read(lost):
            assert str(segment_of(lost)) in open_in(lost)
    assert open_in(lost) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda files, path: files.create(path.with_name("new")),
        lambda files, path: files.truncate(files.open(path), 0),
        lambda files, path: files.mkdir(path.with_name("new")),
        lambda files, path: files.rmdir(path.with_name("folder")),
        lambda files, path: files.unlink(path),
        lambda files, path: files.rename(path, path.with_name("new")),
        lambda files, path: files.lock(path.with_name("new")),
        lambda files, path: files.wait_for_lock(path.with_name("new")),
    ],
    ids=["create", "truncate", "mkdir", "rmdir", "unlink", "rename", "lock", "wait_for_lock"],
)
def test_nothing_is_changed_through_files_to_read(tmp_path: Path, change: Callable[[Files, Path], object]) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="Read-only file system"):
        change(FilesToRead(), path)
    assert sorted(tmp_path.iterdir()) == [path, tmp_path / "folder"]
    assert path.read_bytes() == b"one"
