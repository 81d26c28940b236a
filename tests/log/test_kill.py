"""A process killed while it writes: whatever it said was durable is there, and no request by half."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from shim.log.offsets_log import OffsetsLog

PARTITIONS = 5
WRITER = """
import pathlib, random, sys
from shim.log.offsets_log import OffsetsLog, PartitionWrite
log = OffsetsLog.open(pathlib.Path(sys.argv[1]), 5)
for partition in range(5):
    for record in log.recover(partition):
        pass
rng = random.Random(int(sys.argv[2]))
number = int(sys.argv[3])
while True:
    writes, said = [], []
    for partition in rng.sample(range(5), rng.randint(1, 5)):
        groups = []
        for _ in range(rng.randint(1, 4)):
            size = rng.randint(1, 6)
            groups.append([(b"%d/%d/%d" % (number, i, size), b"x" * rng.randint(0, 3000)) for i in range(size)])
            said.append(f"{partition}:{number}:{size}")
            number += 1
        writes.append(PartitionWrite(partition, groups, 1767225600000))
    assert log.write(writes) == {}
    print(*said, flush=True)
"""


def complete_groups(data_dir: Path) -> dict[tuple[int, int], int]:
    """(partition, group number) to size, of what is on disk; asserts that each group is there in one piece."""
    groups: dict[tuple[int, int], list[int]] = {}
    sizes: dict[tuple[int, int], int] = {}
    log = OffsetsLog.open(data_dir, PARTITIONS)
    for partition in range(PARTITIONS):
        for record in log.recover(partition):
            number, index, size = map(int, record.key.split(b"/"))
            groups.setdefault((partition, number), []).append(index)
            sizes[partition, number] = size
    log.close()
    for group, indexes in groups.items():
        assert indexes == list(range(sizes[group]))
    return sizes


@pytest.mark.parametrize("seed", [*range(2), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 20))])
def test_killed_while_writing(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    said: dict[tuple[int, int], int] = {}
    for start in range(2):  # the second one continues what the first one's recovery left
        command = [sys.executable, "-c", WRITER, str(tmp_path), str(seed * 10 + start), str(start * 1_000_000)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            for _ in range(rng.randint(1, 150)):
                said |= parsed(writer.stdout.readline())
            writer.kill()
            for line in writer.stdout:
                if line.endswith("\n"):
                    said |= parsed(line)
        found = complete_groups(tmp_path)
        assert said
        assert said.items() <= found.items()


def parsed(line: str) -> dict[tuple[int, int], int]:
    entries = [tuple(map(int, entry.split(":"))) for entry in line.split()]
    return {(partition, number): size for partition, number, size in entries}
