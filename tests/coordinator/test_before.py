"""What was committed before the first commit of each offset, of some groups."""

from __future__ import annotations

import struct

from protocol.commit_rows import CommitRows
from protocol.offsets_log import CommittedOffset, OffsetCommitKey, OffsetCommitValue
from protocol.own.position import Producer
from shim.coordinator.state.offsets import Before, Offsets

TIME = 1_767_225_600_000
PRODUCER = Producer(7, 1)


def commit(offsets: Offsets, group: str, partition: int, offset: int) -> None:
    offsets.commit(OffsetCommitKey(group, "t", partition), OffsetCommitValue(offset, 2, "m", TIME))


def commit_rows(offsets: Offsets, group: str, *partitions: int) -> None:
    raw = b"".join(struct.pack(">iqi", partition, 90, 3) for partition in partitions)
    offsets.commit_rows(group, "t", CommitRows(raw, 16, len(partitions), ""), TIME + 1)


def loaded() -> Offsets:
    offsets = Offsets()
    for partition in range(3):
        commit(offsets, "g", partition, 5)
    offsets.before = Before(most=3)
    offsets.before.add("g")
    return offsets


def test_the_first_change_counts_be_it_one_or_of_many_offsets() -> None:
    offsets, five = loaded(), CommittedOffset(5, 2, "m", TIME)
    commit_rows(offsets, "g", 1, 8)
    commit(offsets, "g", 1, 6)
    commit(offsets, "g", 2, 6)
    commit_rows(offsets, "other", 1)
    assert offsets.before.take("g") == {("t", 1): five, ("t", 8): None, ("t", 2): five}
    commit(offsets, "g", 0, 6)
    assert offsets.before.take("g") == {}, "nobody asks any more"


def test_neither_a_deletion_nor_what_a_transaction_puts_in_force_is_one() -> None:
    offsets = loaded()
    offsets.delete(OffsetCommitKey("g", "t", 0))
    commit(offsets, "g", 1, 6)
    for partition in (1, 2):
        offsets.add_pending(PRODUCER, None, OffsetCommitKey("g", "t", partition), OffsetCommitValue(9, 2, "m", TIME))
    offsets.end(PRODUCER, None, committed=True)
    assert offsets.before.groups == {"g": {}}
    commit(offsets, "g", 1, 10)
    assert offsets.before.take("g") == {("t", 1): CommittedOffset(9, 2, "m", TIME)}


def test_it_has_a_bound() -> None:
    offsets = loaded()
    commit_rows(offsets, "g", *range(5))
    assert list(offsets.before.groups["g"]) == [("t", 0), ("t", 1), ("t", 2)]
    offsets.before.take("g")
    offsets.before.add("g")
    commit_rows(offsets, "g", *range(5))
    assert len(offsets.before.take("g")) == 3, "what is taken away makes room"
