"""After a repair nothing is taken for clean that the cleaner has not cleaned."""

from __future__ import annotations

from protocol.topic_partition import TopicPartition
from shim.log.disk.checkpoint import CLEANER_OFFSET_CHECKPOINT, read_checkpoint, write_checkpoint
from shim.log.disk.layout import segment_base_offsets, segment_name
from tests.admin.damaging import DATA_DIR, FOLDER, compact, log_of, overwrite, repaired

PATH = DATA_DIR / CLEANER_OFFSET_CHECKPOINT
OTHER = TopicPartition("__offset_shim_history", 0)


def test_the_checkpoint_of_the_cleaner_forgets_the_partition() -> None:
    """The folder may be of an older copy than the checkpoint, and the damage anywhere."""
    files = log_of([(0, offset) for offset in range(20)])
    compact(files)
    cleaned = read_checkpoint(files, PATH)
    assert list(cleaned) == [TopicPartition("__consumer_offsets", 0)]
    write_checkpoint(files, PATH, {**cleaned, OTHER: 7})
    active = FOLDER / segment_name(segment_base_offsets(files, FOLDER)[-1])
    overwrite(files, active, 30, b"damage")
    repaired(files, skip=False)
    assert read_checkpoint(files, PATH) == {OTHER: 7}
