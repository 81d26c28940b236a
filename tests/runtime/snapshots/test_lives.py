"""Whatever happens to disks, logs and snapshots, a start from one is a start from the log."""

from __future__ import annotations

import errno
import random
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from protocol.errors import ErrorCode
from protocol.offsets_log import OffsetCommitKey, encode_key
from protocol.partition import partition_for
from shim.config import Settings
from shim.disk_log import open_log
from shim.log import LogError, PartitionWrite
from tests.runtime.running import TOPIC, offset_in, running
from tests.runtime.snapshots.as_replayed import (
    ONE,
    assert_as_replayed,
)
from tests.runtime.test_runtime import served_again


def delete(data_dir: Path, settings: Settings, groups: Iterable[str]) -> None:
    """As `log import --replace` does it, at rest."""
    log = open_log(data_dir, settings)
    for number in range(log.num_partitions):
        list(log.recover(number))
    for group in groups:
        tombstone = (encode_key(OffsetCommitKey(group, TOPIC, 0)), None)
        assert log.write([PartitionWrite(partition_for(group, log.num_partitions), [[tombstone]], 1)]) == {}
    log.close()


@pytest.mark.parametrize("seed", range(4))
async def test_lives_with_failing_disks_compactions_and_snapshots(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever happens, what is loaded is what the log says, and what was acknowledged is in it."""
    monkeypatch.setattr("shim.runtime.keeping.RELOAD_RETRY_SECONDS", 0.005)
    rng = random.Random(seed)
    acknowledged: dict[str, int] = {}
    number = 0
    used = 0
    for _ in range(6):
        settings = replace(
            ONE,
            offsets_topic_num_partitions=2,
            offsets_topic_segment_bytes=rng.choice((300, 1_000, 10_000)),
            log_cleaner_enable=rng.random() < 0.7,
            log_cleaner_min_cleanable_ratio=0.1,
            log_cleaner_delete_retention_ms=0,
            log_cleaner_backoff_ms=1,
        )
        async with running(tmp_path, settings) as shim:
            shim.log.release(100_000)
            for _ in range(rng.randrange(60)):
                group = f"g{rng.randrange(6)}"
                number += 1
                if rng.random() < 0.05:
                    shim.log.files.fail(rng.choice(("pwrite", "fdatasync", "rename", "create")), errno.EIO)
                answer = await shim.commit(group, number).result()
                shim.log.files.heal()
                if isinstance(answer, ErrorCode):
                    assert offset_in(await served_again(shim, group)) == acknowledged.get(group)
                else:
                    acknowledged[group] = number
        if rng.random() < 0.7:
            deleted = rng.sample(sorted(acknowledged), min(len(acknowledged), 2))
            delete(tmp_path, settings, deleted)
            acknowledged = {group: offset for group, offset in acknowledged.items() if group not in deleted}
        for partition in range(2):
            try:
                used += assert_as_replayed(tmp_path, settings, partition)[1] > 0
            except LogError as error:
                raise AssertionError(str(error)) from error
    async with running(tmp_path, replace(ONE, offsets_topic_num_partitions=2)) as shim:
        for group in (f"g{each}" for each in range(6)):
            assert offset_in(await shim.fetch(group).result()) == acknowledged.get(group)
    assert used, "no snapshot was ever of use"
