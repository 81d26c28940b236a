"""Names that are given and taken away in a folder whose sync fails, and crashes at any call."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from shim.log.disk.names import STAND_IN, give_anew, take_away
from tests.log.lost_files import LostFiles, PowerFailure

FOLDER = Path("/folder")
NAME, BESIDE = FOLDER / "name", FOLDER / "name.beside"
CALLS = 12
SEEDS = 40

Content = dict[Path, bytes]


class WithoutDataSync(LostFiles):
    def fdatasync(self, fd: int) -> None:
        pass


def after_a_sync_that_failed(files_type: type[LostFiles], seed: int, change: Callable[[LostFiles], None]) -> LostFiles:
    """In this process or an earlier one, as the seed says."""
    files = files_type(rng=random.Random(seed))
    files.mkdir(FOLDER)
    files.sync_directory(Path("/"))
    fd = files.create(NAME)
    files.write_at(fd, b"whole", 0)
    files.fsync(fd)
    files.close(fd)
    files.sync_directory(FOLDER)
    change(files)
    files.errors = {files.calls: errno.EIO}
    with pytest.raises(OSError, match="Input/output"):
        files.sync_directory(FOLDER)
    return files.after_kill() if seed % 2 else files


def once_more(files: LostFiles, change: Callable[[LostFiles], None]) -> tuple[Content, Content]:
    """What is seen, whenever the process dies, and what is left when the power fails then."""
    files.crash_at = files.calls + files._rng.randrange(CALLS)
    is_done = False
    with suppress(PowerFailure):
        change(files)
        files.sync_directory(FOLDER)
        is_done = True
    seen = files.content()
    left = files.after_power_failure().content()
    assert not is_done or seen.get(NAME) == left.get(NAME)
    return seen, left


def taken_away(files: LostFiles) -> None:
    take_away(files, NAME, BESIDE)


def given(files: LostFiles) -> None:
    give_anew(files, NAME)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_is_taken_away_once_more_is_as_it_was_or_known_for_that(seed: int) -> None:
    seen, left = once_more(after_a_sync_that_failed(LostFiles, seed, taken_away), taken_away)
    assert seen.get(NAME) in (None, STAND_IN)
    assert BESIDE in seen
    assert left.get(NAME) in (None, STAND_IN, b"whole")


def test_a_stand_in_that_is_not_durable_is_noticed() -> None:
    found = set[bytes | None]()
    for seed in range(10 * SEEDS):
        _, left = once_more(after_a_sync_that_failed(WithoutDataSync, seed, taken_away), taken_away)
        found.add(left.get(NAME))
    assert not found <= {None, STAND_IN, b"whole"}


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_name_that_is_given_anew_is_there_at_any_moment(seed: int) -> None:
    seen, left = once_more(after_a_sync_that_failed(LostFiles, seed, given), given)
    assert seen[NAME] == b""
    assert left[NAME] in (b"", b"whole")
