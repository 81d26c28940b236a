"""Offsets that are in ZooKeeper, too: what somebody else has written there, and notes of what the shim writes."""

from collections.abc import Iterable, Mapping
from typing import Final

from protocol.offsets_log import CommittedOffset, OffsetCommitKey, OffsetCommitValue
from protocol.own.history_log import READ_IN_ZOOKEEPER, Who
from protocol.own.state_log import NO_OFFSET, NOT_CARRIED, About, Step, WrittenValue
from shim.coordinator.decision import Decision, record_size
from shim.coordinator.outcome import Asker, Caller, HandsTaken
from shim.coordinator.state.partition_state import PartitionState

_DIRECTLY: Final = Who(-1, "", None, READ_IN_ZOOKEEPER, "", "")


def carry(
    decision: Decision,
    group_id: str,
    offsets: Mapping[tuple[str, int], int],
    asker: Asker,
) -> None:
    """Commit what somebody has written to ZooKeeper directly: in the order of the log it comes now. A negative offset
    stands for none.
    """
    settings = decision.state.settings
    for (topic, partition), offset in offsets.items():
        decision.make_room(record_size(group_id, topic))
        key = OffsetCommitKey(group_id, topic, partition)
        if offset < 0:
            decision.delete(key, "it was deleted in ZooKeeper", Caller(READ_IN_ZOOKEEPER, ""))
            continue
        value = OffsetCommitValue(offset, commit_timestamp=decision.now)
        decision.write(key, value)
        decision.state.offsets.moved.leave_out(group_id, topic, partition)
        if settings.offsets_history_retention_minutes > 0:
            decision.remember(key, value, _DIRECTLY)
    decision.answer(asker, HandsTaken(True))


def note_written(
    decision: Decision, group_id: str, written: Mapping[tuple[str, int], WrittenValue | None], asker: Asker
) -> None:
    """Note what ZooKeeper is about to be given, before it is, or what is about to be carried from there, and what
    stands there then, each with its version: after a crash that says whether what is found there is known. None: the
    shim knows of nothing there.
    """
    if written:
        decision.write_written(group_id, written)
    decision.answer(asker, HandsTaken(True))


def before_commit(
    state: PartitionState, group_id: str, partitions: Iterable[tuple[str, int]]
) -> Mapping[tuple[str, int], CommittedOffset | None]:
    """What is committed of these, by topic and partition, where something is noted of ZooKeeper: for
    :func:`note_way_back`."""
    if group_id not in state.with_stores or state.step_of(group_id) is not Step.KAFKA_DUAL:
        return {}
    written = state.written.get(group_id, {})
    return {at: state.offsets.committed.get(group_id, *at) for at in partitions if at in written}


def note_way_back(decision: Decision, group_id: str, before: Mapping[tuple[str, int], CommittedOffset | None]) -> None:
    """Where one that was committed just now has come back to what is noted of ZooKeeper, the note is another one from
    here on: after a crash nothing else tells that from no commit at all. The same once more is no way back. Once for
    all that is committed together. ``before``: of these, as :func:`before_commit` gave it.
    """
    state = decision.state
    notes: dict[tuple[str, int], WrittenValue | None] = {}
    for at, was in before.items():
        last, its = state.written[group_id][at], state.offsets.committed.get(group_id, *at)
        if its is None or (was is not None and was.offset == its.offset):
            continue
        if last.replaced == its.offset:
            notes[at] = last._replace(replaced=NOT_CARRIED)  # it has been carried, or need not be any more
        elif last.offset == its.offset != NO_OFFSET:
            # As if something else had been about to be written. What was to be carried need not have been.
            notes[at] = WrittenValue(NO_OFFSET, last.version + 1, last.replaced, About.WRITES)
    if notes:
        decision.write_written(group_id, notes)
