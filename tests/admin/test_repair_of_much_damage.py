"""Several damages at once, of every kind: after a repair the log is sound, and holds nothing that nobody wrote."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from shim.log.directory.handover import CLEAN_SHUTDOWN
from shim.log.disk.checkpoint import RECOVERY_POINT_CHECKPOINT
from shim.log.disk.layout import segment_base_offsets, segment_name
from tests.admin.damaging import DATA_DIR, FOLDER, compact, examined, log_of, opens, overwrite, records, repaired
from tests.log.lost_files import LostFiles

Damaging = Callable[[LostFiles, random.Random, Path, bytes], None]


def flip(files: LostFiles, rng: random.Random, path: Path, data: bytes) -> None:
    at = rng.randrange(len(data))
    overwrite(files, path, at, bytes((data[at] ^ 1 << rng.randrange(8),)))


def zero(files: LostFiles, rng: random.Random, path: Path, data: bytes) -> None:
    at = rng.randrange(len(data))
    overwrite(files, path, at, bytes(min(len(data) - at, rng.randrange(1, 300))))


def cut(files: LostFiles, rng: random.Random, path: Path, data: bytes) -> None:
    fd = files.open(path)
    files.truncate(fd, rng.randrange(len(data)))
    files.fsync(fd)
    files.close(fd)


def append_garbage(files: LostFiles, rng: random.Random, path: Path, data: bytes) -> None:
    overwrite(files, path, len(data), rng.randbytes(rng.randrange(1, 200)))


def append_its_beginning(files: LostFiles, rng: random.Random, path: Path, data: bytes) -> None:
    overwrite(files, path, len(data), data[: rng.randrange(len(data)) + 1])


def move_a_part(files: LostFiles, rng: random.Random, path: Path, data: bytes) -> None:
    first, second = sorted((rng.randrange(len(data)), rng.randrange(len(data))))
    overwrite(files, path, first, data[second:])


def remove(files: LostFiles, rng: random.Random, path: Path, data: bytes) -> None:
    if len(segment_base_offsets(files, FOLDER)) > 1:
        files.unlink(path)


KINDS: list[Damaging] = [flip, zero, cut, append_garbage, append_its_beginning, move_a_part, remove]


def damage_and_repair(seed: int) -> None:
    rng = random.Random(seed)
    files = log_of([(rng.randrange(3), rng.randrange(999)) for _ in range(rng.randrange(1, 20))])
    if rng.random() < 0.5:
        compact(files)
    if rng.random() < 0.5:
        files.unlink(DATA_DIR / CLEAN_SHUTDOWN)
        if rng.random() < 0.5:
            files.unlink(DATA_DIR / RECOVERY_POINT_CHECKPOINT)
    before = set(records(files))
    newest = max(path for path in files.content() if path.suffix == ".log")
    size = len(files.content()[newest])
    kinds = [rng.choice(KINDS) for _ in range(rng.randrange(1, 5))]
    for kind in kinds:
        path = FOLDER / segment_name(rng.choice(segment_base_offsets(files, FOLDER)))
        data = files.content()[path]
        if data:
            kind(files, rng, path, data)
    (examination,) = examined(files).partitions
    # Without the note of what was synced nobody can tell that the newest segment is missing, or its end.
    may_be_shorter = not files.exists(DATA_DIR / RECOVERY_POINT_CHECKPOINT)
    is_shorter = len(files.content().get(newest, b"")) < size
    repaired(files, skip=rng.random() < 0.5)
    found = opens(files)
    assert {(key, value) for _, key, value in found} <= {(key, value) for _, key, value in before}
    if not examination.damages and not examination.notes and not (is_shorter and may_be_shorter):
        assert set(found) == before


def test_any_damage() -> None:
    for seed in range(300):
        damage_and_repair(seed)


@pytest.mark.soak
@pytest.mark.parametrize("first_seed", range(1_000, 51_000, 10_000))
def test_much_damage(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 10_000):
        damage_and_repair(seed)


def test_bytes_that_have_displaced_nothing_cost_nothing_else() -> None:
    """Behind a closed segment, where the next one begins just where it should: all that is sound stays, cut or not."""
    for skip in (False, True):
        files = log_of([(n % 3, n) for n in range(16)])
        before = records(files)
        first = FOLDER / segment_name(0)
        size = len(files.content()[first])
        overwrite(files, first, size, b"litter")
        (damage,) = examined(files).all_damages
        assert (damage.path, damage.position, damage.end) == (first, size, size + 6)
        (plan,) = repaired(files, skip=skip)
        assert (plan.doubts, plan.aside) == ([], [])
        assert files.content()[first.with_name(f"{first.name}.cut-{size}")] == b"litter"
        assert opens(files) == before
