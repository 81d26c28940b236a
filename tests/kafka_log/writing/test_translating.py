"""What becomes of each decision on a topic, where the random ones of the model do not show it by name."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.offsets_log import (
    GroupMetadataKey,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_key,
    decode_value,
    encode_value,
)
from protocol.own.position import Position, Producer
from protocol.own.record_sets import DroppingSet, EndOfTransaction, TransactionalSet
from protocol.own.state_log import WrittenKey, WrittenValue, encode_state
from protocol.own.topic_log import (
    PendingKey,
    PositionKey,
    decode_own,
    is_own,
    own_state,
    pending,
    pending_key,
    position_record,
)
from protocol.records.batches import encoded_size
from shim.coordinator import CoordinatorSettings
from shim.kafka_log.writing.translating import SET_BYTES, state_sets, topic_sets
from shim.log.segments.batching import prepare_batches
from shim.runtime.flight import PartitionRecords, RecordSet
from tests.coordinator.driving import START
from tests.examples import examples
from tests.kafka_log.deciding import Deciding, Key, known
from tests.kafka_log.topic_partition import replayed

A, B, C = Producer(3, 1), Producer(3, 2), Producer(3, 3)
K = OffsetCommitKey("g", "t", 0)
OTHER = K._replace(partition=1)


def read(record_set: RecordSet) -> list[tuple[object, object]]:
    assert isinstance(record_set, list)
    found: list[tuple[object, object]] = []
    for key, value in record_set:
        if is_own(key):
            found.append(decode_own(key, value))
        else:
            found.append((decode_key(key), decode_value(decode_key(key), value)))
    return found


def last_sets(d: Deciding) -> list[list[tuple[object, object]]]:
    return [read(each) for each in topic_sets(d.batches[-1], d.most_bytes)]


def value(offset: int) -> OffsetCommitValue:
    return OffsetCommitValue(offset, commit_timestamp=START)


def at(next_offset: int) -> Position:
    """As :meth:`Deciding._next` has it, up to the third."""
    return Position(3, next_offset, 0, 0, b"\3" * 16)


def its_pending(producer: Producer, key: OffsetCommitKey, offset: int, begun: Position) -> object:
    return pending(producer, key, encode_value(value(offset)), begun)


def test_plain_sets_are_as_they_are() -> None:
    d = Deciding()
    d.commit_rows("g", "t", [0, 1], 5)
    d.commit(offsets=[("t", 0, 5)], metadata="m")
    assert [topic_sets(batch) for batch in d.batches] == [[batch] for batch in d.batches]


def test_a_transaction_that_is_committed() -> None:
    d = Deciding()
    d.begin(1, K, offset=5)
    assert last_sets(d) == [[its_pending(A, K, 5, at(1)), position_record(at(1))]]
    d.begin(1, OTHER, offset=6)
    assert last_sets(d) == [[its_pending(A, OTHER, 6, at(1)), position_record(at(2))]], "it began with the first"
    d.commit(offsets=[("t", 1, 7)])
    d.end(1, committed=True)
    ((*records, position),) = last_sets(d)
    assert records == [(K, value(5)), (pending_key(A, K), None), (pending_key(A, OTHER), None)]
    assert position[0] == PositionKey(3)


def test_a_transaction_that_is_aborted() -> None:
    d = Deciding()
    d.begin(1, K, OTHER, offset=5)
    d.end(1, committed=False)
    (records,) = last_sets(d)
    assert records == [(pending_key(A, K), None), (pending_key(A, OTHER), None), position_record(at(2))]


def test_an_end_without_offsets_is_a_position() -> None:
    d = Deciding()
    d.follow(at(2))
    assert last_sets(d) == [[position_record(at(2))]]


def test_what_was_pending_in_a_later_record_is_written_again_behind_the_commit() -> None:
    """Kafka's rule: of pending offsets the one of the later record wins, in whatever order the transactions end."""
    d = Deciding()
    d.begin(3, K, offset=1)
    d.begin(1, K, offset=2)
    d.begin(2, K, offset=3)
    first, middle, last = (d.coordinator._state.offsets.transactions.begun(each) for each in (C, A, B))
    assert first is not None
    assert middle is not None
    assert last is not None
    d.end(3, committed=True)
    ((*records, _),) = last_sets(d)
    assert records == [
        (K, value(1)),
        its_pending(A, K, 2, middle),
        its_pending(B, K, 3, last),
        (pending_key(C, K), None),
    ]
    d.load(d.topic.replayed())
    d.end(2, committed=True)
    ((*records, _),) = last_sets(d)
    assert records == [(K, value(3)), (pending_key(B, K), None)]
    d.end(1, committed=True)
    ((*records, _),) = last_sets(d)
    assert records == [(pending_key(A, K), None)]
    assert known(d.topic.replayed()) == known(d.coordinator)


def test_tombstones_of_an_offset_drop_what_is_pending_of_it() -> None:
    d = Deciding(CoordinatorSettings(commit_max_bytes=50))
    d.begin(2, K, offset=5)
    d.begin(1, K, OTHER, offset=6)
    before = len(d.batches)
    d.delete_group()
    deleted = [read(record_set) for batch in d.batches[before:] for record_set in topic_sets(batch)]
    assert [(K, None), (pending_key(A, K), None), (pending_key(B, K), None)] in deleted
    assert [(OTHER, None), (GroupMetadataKey("g"), None), (pending_key(A, OTHER), None)] in deleted
    # The tombstone of the offset, of which compaction keeps nothing in the end, is not needed for that.
    d.topic.compact(d.topic.ends[-1], lambda _: True)
    assert known(d.topic.replayed()) == known(d.coordinator)
    assert known(d.topic.replayed())["in order"] == {}


def test_the_local_log_has_a_dropping_set_as_any_other() -> None:
    records = [(b"key", None), (b"other", b"value")]
    dropping = DroppingSet(records, [PendingKey(3, 7, "g", "t", 0)])
    assert prepare_batches(5, [records, dropping], START) == prepare_batches(5, [records, records], START)
    written = PartitionRecords()
    written.add(dropping)
    written.add(records)
    assert (written.count, written.offsets) == (4, [dropping, records])


@settings(max_examples=examples(25), deadline=None)
@given(
    begun=st.lists(
        st.tuples(st.integers(1, 3), st.lists(st.integers(0, 9), min_size=1, max_size=8, unique=True)), min_size=1
    ),
    committed=st.booleans(),
    most_bytes=st.integers(0, 1500),
)
def test_an_end_is_cut_where_it_is_too_large_and_read_again_after_a_crash(
    begun: list[tuple[int, list[int]]], committed: bool, most_bytes: int
) -> None:
    d = Deciding(most_bytes=most_bytes)
    for number, (producer, partitions) in enumerate(begun):
        d.begin(producer, *(("g", "t", partition) for partition in partitions), offset=number)
    d.begin(1, ("g", "t", 0), offset=100)
    before, first = d.read_at[3], len(d.topic.ends) - 1
    d.end(1, committed=committed)
    whole = topic_sets(d.batches[-1], most_bytes=SET_BYTES)
    assert len(whole) == 1
    sets = topic_sets(d.batches[-1], most_bytes)
    assert [record for each in sets for record in each] == whole[0]
    assert all(
        encoded_size(each) <= most_bytes or len(units(each)) == 1  # type: ignore[arg-type]
        for each in sets
    )
    assert [sum(key == PositionKey(3) for key, _ in read(each)) for each in sets] == [0] * (len(sets) - 1) + [1]
    for upto in d.topic.ends[first:-1]:
        crashed = Deciding()
        crashed.load(d.topic.replayed(upto))
        assert crashed.read_at[3] == before, "the marker is read again"
        crashed.end(1, committed=committed)
        assert known(crashed.coordinator)["offsets"] == known(d.coordinator)["offsets"]
        assert known(crashed.coordinator)["in order"] == known(d.coordinator)["in order"]
        assert known(crashed.coordinator)["begun"] == known(d.coordinator)["begun"]


def units(record_set: RecordSet) -> list[object]:
    """What ends a part that is not cut: the tombstone of an offset that was pending, and the position."""
    return [key for key, its in read(record_set) if isinstance(key, PositionKey) or its is None]


def test_a_set_is_no_larger_than_a_batch_may_be() -> None:
    d = Deciding()
    keys: list[Key] = [("g", "t" * 2_000, partition) for partition in range(5_000)]
    d.begin(1, *keys, offset=5)
    d.end(1, committed=True)
    sets = topic_sets(d.batches[-1])
    assert len(sets) == 2
    for record_set in sets:
        (batch,) = prepare_batches(0, [record_set], START)
        assert len(batch.data) <= 16 << 20
    assert known(d.topic.replayed())["offsets"] == known(d.coordinator)["offsets"]


def test_notes_of_many_offsets_are_divided_likewise() -> None:
    notes = [encode_state((WrittenKey("g", "t" * 2_000, at), WrittenValue(at, 1))) for at in range(10_000)]
    sets = state_sets(notes)
    assert len(sets) == 2
    for record_set in sets:
        (batch,) = prepare_batches(0, [record_set], START)
        assert len(batch.data) <= 16 << 20
    assert [record for each in sets for record in each] == [(own_state(key), value) for key, value in notes]


@pytest.mark.parametrize("kind", [TransactionalSet, EndOfTransaction])
def test_what_was_taken_over_has_a_position(kind: type[TransactionalSet | EndOfTransaction]) -> None:
    batch = TransactionalSet(1, 0, []) if kind is TransactionalSet else EndOfTransaction(1, 0, True, 0)
    with pytest.raises(AssertionError, match="position"):
        topic_sets(batch)


def test_a_cut_end_after_a_crash_keeps_the_position() -> None:
    """What is written again in a set without a position does not take the position back to where that began."""
    d = Deciding(most_bytes=0)
    d.begin(2, OTHER, offset=1)
    d.begin(1, K, OTHER, offset=2)
    d.begin(2, K, offset=3)
    before = d.read_at[3]
    first = len(d.topic.ends)
    d.end(1, committed=True)
    crashed = d.topic.replayed(d.topic.ends[first])
    assert dict(crashed.followed) == {3: before}
    assert replayed(d.topic.records).followed[3] == d.read_at[3]
