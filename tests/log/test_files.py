"""What the disk refuses is told with the file that it is of."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from shim.log.disk.files import Files
from shim.log.errors import unusable

FULL = Path("/dev/full")


@pytest.mark.parametrize(
    "call",
    [
        lambda files, fd: files.write_at(fd, b"more", 0),
        lambda files, fd: files.truncate(fd, 0),
        lambda files, fd: files.fdatasync(fd),
        lambda files, fd: files.fsync(fd),
    ],
    ids=["write_at", "truncate", "fdatasync", "fsync"],
)
def test_a_call_that_has_a_descriptor_alone_names_the_file(call: Callable[[Files, int], None]) -> None:
    files = Files()
    fd = files.open(FULL)
    with pytest.raises(OSError, match=r"^\[Errno \d+\] .*: '/dev/full'$"):
        call(files, fd)
    files.close(fd)


def test_so_does_one_that_reads(tmp_path: Path) -> None:
    fd = os.open(tmp_path / "file", os.O_WRONLY | os.O_CREAT)
    with pytest.raises(OSError, match=f": '{tmp_path / 'file'}'$"):
        Files().read_at(fd, 1, 0)
    os.close(fd)


def test_of_a_file_that_nobody_knows_the_error_is_as_it_was() -> None:
    with pytest.raises(OSError, match=r"^\[Errno 9\] Bad file descriptor$"):
        Files().fsync(1 << 20)


def test_a_data_directory_is_told_of_with_the_file_in_it() -> None:
    whole = Path("/var/lib/shim")
    error = OSError(errno.EIO, "Input/output error", f"{whole}/flush.journal")
    told = "data directory /var/lib/shim: Input/output error"
    assert unusable(whole, error) == f"{told} (/var/lib/shim/flush.journal)"
    assert unusable(whole, OSError(errno.EIO, "Input/output error", str(whole))) == told
    assert unusable(whole, OSError(errno.EIO, "Input/output error")) == told
