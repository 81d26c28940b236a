"""`verify` takes for a torn write what the next start cuts off, and says of all else what the next start says."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import NamedTuple

import pytest

from protocol.topic_partition import TopicPartition
from shim.admin.at_rest.walk import Damage
from shim.log import CorruptLog, LogSettings, OffsetsLog, PartitionWrite
from shim.log.directory.handover import CLEAN_SHUTDOWN, LOOSE_FLUSH
from shim.log.disk.checkpoint import RECOVERY_POINT_CHECKPOINT, write_checkpoint
from shim.log.disk.layout import segment_name
from tests.admin.damaging import DATA_DIR, FOLDER, examined, log_of, overwrite, places
from tests.admin.running import TIMESTAMP, commit_record
from tests.log.faulty_files import FaultyFiles
from tests.log.lost_files import LostFiles

PARTITION = TopicPartition("__consumer_offsets", 0)


class Case(NamedTuple):
    """``hit``: which batch of three is damaged, and ``at`` which of its bytes; ``synced``: the recovery point."""

    hit: int
    reason: str | None
    at: int = 70
    clean: bool = False
    loose: bool = False
    synced: int = 0


CASES = {
    "torn": Case(2, None),
    "torn, in any order": Case(1, None, loose=True),
    "closed in good order": Case(2, "the log was closed in good order", clean=True),
    "synced": Case(2, "offsets up to 6 were synced", synced=6),
    "not the last batch": Case(1, "a sound batch follows at byte"),
    "a gap under a right CRC": Case(2, "base offset 5 where 4 is due", at=7),
}


def damaged(case: Case) -> tuple[LostFiles, Path, int]:
    files = log_of([(0, n) for n in range(3)])
    if not case.clean:
        files.unlink(DATA_DIR / CLEAN_SHUTDOWN)
    if case.loose:
        files.close(files.create(DATA_DIR / LOOSE_FLUSH))
    write_checkpoint(files, DATA_DIR / RECOVERY_POINT_CHECKPOINT, {PARTITION: case.synced})
    place = places(files)[case.hit]
    byte = files.content()[place.path][place.position + case.at]
    overwrite(files, place.path, place.position + case.at, bytes((byte ^ 1,)))
    return files, place.path, place.position


def what_the_next_start_says(files: LostFiles) -> CorruptLog | None:
    offsets_log = OffsetsLog.open(DATA_DIR, 1, files=files)
    try:
        assert list(offsets_log.recover(0))
    except CorruptLog as corrupt:
        return corrupt
    finally:
        offsets_log.close()
    return None


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_verify_and_the_next_start_agree(case: Case) -> None:
    files, path, position = damaged(case)
    assert path == FOLDER / segment_name(0)
    examination = examined(files)
    said = what_the_next_start_says(files)
    if case.reason is None:
        assert (examination.all_damages, said) == ([], None)
        (note,) = examination.partitions[0].notes
        assert f"a torn write of {len(files.content()[path.with_name(f'{path.name}.cut-{position}')])} bytes" in note
        return
    assert said is not None
    assert case.reason in said.reason
    (damage,) = examination.all_damages
    assert isinstance(damage, Damage)
    assert (damage.path, damage.position, damage.reason) == (said.path, said.position, said.reason)


def test_damage_to_what_was_acknowledged_is_not_cut_after_a_failed_write(tmp_path: Path) -> None:
    """Under a loose flush policy, too, where nobody knows whether the damaged batch had been durable."""
    files = FaultyFiles()
    log = OffsetsLog.open(tmp_path, 1, settings=LogSettings(flush_interval_messages=100), files=files)
    path = tmp_path / FOLDER.name / segment_name(0)

    def write(offset: int) -> dict[int, OSError]:
        return log.write([PartitionWrite(0, [[commit_record("group", "topic", 0, offset)]], TIMESTAMP)])

    try:
        assert list(log.recover(0)) == []
        assert (write(1), write(2)) == ({}, {})
        contents = bytearray(path.read_bytes())
        contents[70] ^= 1
        path.write_bytes(contents)
        files.fail("pwrite", errno.EIO, ".log")
        assert set(write(3)) == {0}
        files.heal()
        with pytest.raises(CorruptLog, match=r"damaged at byte 0: CRC mismatch$"):
            list(log.recover(0))
        assert path.read_bytes() == contents
        assert not list(path.parent.glob("*.cut-*"))
    finally:
        log.close()
