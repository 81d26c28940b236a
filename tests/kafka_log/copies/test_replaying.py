"""A topic's records, one by one: what they do to a coordinator, and what is refused."""

import pytest

from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue, encode_key, encode_value
from protocol.own.position import Position, Producer
from protocol.own.record_sets import LoggedRecord
from protocol.own.state_log import GroupHandsKey, GroupHandsValue, Hands
from protocol.own.topic_log import Owner, OwnerKey, OwnRecord, encode_own, pending, pending_key, position_record
from protocol.partition import partition_for
from shim.kafka_log.copies.replaying import TopicReplay
from shim.log import LogError
from shim.runtime.replaying import Home
from tests.coordinator.driving import START, new_coordinator
from tests.kafka_log.topic_partition import replayed

KEY = OffsetCommitKey("g", "t", 0)
VALUE = encode_value(OffsetCommitValue(5))
PRODUCER = Producer(3, 7)
PENDING = pending(PRODUCER, KEY, VALUE, Position(3, 9))
HANDS: OwnRecord = (GroupHandsKey("g"), GroupHandsValue(Hands.SERVED, 7, "why"))


def logged(*records: OwnRecord) -> list[LoggedRecord]:
    return [LoggedRecord(offset, START, *encode_own(record)) for offset, record in enumerate(records)]


def test_a_pending_offset_says_where_it_began_and_not_how_far_the_cluster_was_read() -> None:
    transactions = replayed(logged(position_record(Position(3, 99)), PENDING))._state.offsets.transactions
    assert transactions.begun(PRODUCER) == Position(3, 9)
    assert transactions.positions == {3: Position(3, 99)}


def test_the_transaction_goes_with_the_last_pending_offset() -> None:
    other = pending(PRODUCER, KEY._replace(partition=1), VALUE, Position(3, 9))
    settled = [(pending_key(PRODUCER, KEY._replace(partition=partition)), None) for partition in (0, 1)]
    some = replayed(logged(PENDING, other, settled[0]))._state.offsets.transactions
    assert some.is_open(PRODUCER)
    assert list(some.pending[PRODUCER]) == [KEY._replace(partition=1)]
    none = replayed(logged(PENDING, other, *settled, *settled))._state.offsets.transactions
    assert not none.is_open(PRODUCER)
    assert none.pending == {}


def test_owners_change_nothing_of_groups() -> None:
    owner = Owner(b"u" * 16, "somebody", 1000)
    records = logged(PENDING, (OwnerKey(), owner), HANDS, (OwnerKey(), owner._replace(released=True)))
    coordinator = replayed(records)
    assert coordinator.hands_of("g") is Hands.SERVED


def test_foreign_types_are_skipped() -> None:
    skipped: list[tuple[int, int]] = []
    replay = TopicReplay(new_coordinator(), Home(0, 1, "t-0"), lambda *each: skipped.append(each))
    replay.apply([LoggedRecord(4, START, b"\0\x05rest", b"v"), LoggedRecord(5, START, b"\x4e\x84rest", None)])
    assert skipped == [(4, 5), (5, 20_100)]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"\x4e\x24rest", b"\0\0"),
        (encode_own(position_record(Position(3, 9)))[0], None),
        encode_own(pending(PRODUCER, KEY, b"\0\3", None)),
        (encode_key(KEY), b"\0\3"),
    ],
)
def test_what_cannot_be_read_is_not_passed_over(key: bytes, value: bytes | None) -> None:
    with pytest.raises(LogError, match=r"^__offset_shim_offsets-0 offset 4: the record cannot be decoded"):
        replayed([LoggedRecord(4, START, key, value)])


@pytest.mark.parametrize("record", [PENDING, HANDS])
def test_records_of_another_partition(record: OwnRecord) -> None:
    elsewhere = 1 - partition_for("g", 2)
    replay = TopicReplay(new_coordinator(), Home(elsewhere, 2, f"t-{elsewhere}"), print)
    with pytest.raises(LogError, match=f"^t-{elsewhere} holds group 'g', which belongs into partition"):
        replay.apply(logged(record))


def test_they_are_applied_in_their_order() -> None:
    """A commit between records of our own: it wins over what is pending before it, not over what is behind."""
    plain = LoggedRecord(1, START, encode_key(KEY), VALUE)
    (first,) = logged(PENDING)
    (last,) = logged(pending(Producer(3, 8), KEY, VALUE, None))
    pending_ones = replayed([first, plain, last])._state.offsets.transactions.pending
    assert {producer: its[KEY].value is None for producer, its in pending_ones.items()} == {
        PRODUCER: True,
        Producer(3, 8): False,
    }
