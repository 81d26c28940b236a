"""The records of an offsets partition on a topic, bytes and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import DecodeError
from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue, UnknownKey, decode_key, encode_key, encode_value
from protocol.own.position import Position, Producer
from protocol.own.state_log import STATE_TOPIC, StateRecord, encode_state
from protocol.own.topic_log import (
    OWN_TYPES,
    Owner,
    OwnerKey,
    OwnRecord,
    PendingKey,
    PendingRecord,
    Place,
    PlaceKey,
    decode_own,
    encode_own,
    is_own,
    own_state,
    pending,
    position_record,
)
from tests.protocol.test_state_log import names, numbers, times
from tests.protocol.test_state_log import records as state_records

uuids = st.binary(min_size=16, max_size=16)
positions = st.builds(Position, numbers, times, numbers, times, uuids)
producers = st.builds(Producer, numbers, times)
offset_keys = st.builds(OffsetCommitKey, names, names, numbers)
offset_values = st.builds(OffsetCommitValue, times, numbers, names, times, st.just(-1), st.just(bytes(16)), st.just(()))
pending_records: st.SearchStrategy[PendingRecord] = st.builds(
    pending, producers, offset_keys, offset_values.map(encode_value), st.none() | positions
)
owners = st.builds(Owner, uuids, names, numbers, st.booleans(), st.just(()))
records: st.SearchStrategy[OwnRecord] = st.one_of(
    state_records,
    pending_records,
    pending_records.map(lambda record: (record[0], None)),
    positions.map(position_record),
    st.tuples(st.just(OwnerKey()), owners),
)


@given(records)
def test_there_and_back(record: OwnRecord) -> None:
    key, value = encode_own(record)
    assert is_own(key)
    assert decode_own(key, value) == record


@given(producers, offset_keys, offset_values, st.none() | positions)
def test_what_is_pending(
    producer: Producer, offset: OffsetCommitKey, committed: OffsetCommitValue, begun: Position | None
) -> None:
    key, value = pending(producer, offset, encode_value(committed), begun)
    assert value is not None
    assert (key.producer, key.offset, value.value) == (producer, offset, committed)
    if begun is not None:
        assert value.begun is not None
        assert value.begun.of(begun.partition) == begun


@given(state_records)
def test_state_has_the_same_bytes_under_another_type(record: StateRecord) -> None:
    key, value = encode_state(record)
    assert encode_own(record) == (own_state(key), value), STATE_TOPIC
    assert own_state(key)[2:] == key[2:]
    assert int.from_bytes(own_state(key)[:2]) == 20_000 + int.from_bytes(key[:2])


def test_the_bytes() -> None:
    of_offset = encode_value(OffsetCommitValue(5))
    begun = "01 0000000000000009 ffffffff 0000000000000000" + "00" * 16 + "00"
    assert encode_own(pending(Producer(3, 7), OffsetCommitKey("g", "t", 1), of_offset, Position(3, 9))) == (
        bytes.fromhex("4e2a 00000003 0000000000000007 0267 0274 00000001 00"),
        bytes.fromhex("0000") + bytes([len(of_offset) + 1]) + of_offset + bytes.fromhex(begun + "00"),
    )
    assert encode_own(position_record(Position(3, 9, 1, 2, b"i" * 16))) == (
        bytes.fromhex("4e2b 00000003 00"),
        bytes.fromhex("0000 0000000000000009 00000001 0000000000000002" + "69" * 16 + "00"),
    )
    assert encode_own((OwnerKey(), Owner(b"u" * 16, "a", 1000, released=True))) == (
        bytes.fromhex("4e34 00"),
        bytes.fromhex("0000" + "75" * 16 + "0261 000003e8 01 00"),
    )


@given(records, st.data())
def test_what_is_cut_off_or_has_more_is_refused(record: OwnRecord, data: st.DataObject) -> None:
    key, value = encode_own(record)
    wrong: list[tuple[bytes, bytes | None]] = [
        (key[: data.draw(st.integers(2, len(key) - 1))], value),
        (key + b"\0", value),
    ]
    if value is not None:
        wrong += [
            (key, value[: data.draw(st.integers(0, len(value) - 1))]),
            (key, value + b"\0"),
            (key, b"\0\1" + value[2:]),
        ]
    for damaged_key, damaged_value in wrong:
        with pytest.raises(DecodeError):
            decode_own(damaged_key, damaged_value)


@pytest.mark.parametrize(
    "record",
    [position_record(Position(3, 9)), (OwnerKey(), Owner(bytes(16), "", 1)), (PlaceKey(), Place("a directory", True))],
)
def test_only_pending_offsets_have_tombstones(record: OwnRecord) -> None:
    key, _ = encode_own(record)
    with pytest.raises(DecodeError, match="tombstone"):
        decode_own(key, None)


@pytest.mark.parametrize("type_", set(OWN_TYPES) - {20_000, 20_001, 20_002, 20_010, 20_011, 20_020, 20_021})
def test_types_of_a_later_version(type_: int) -> None:
    key = type_.to_bytes(2)
    assert is_own(key)
    with pytest.raises(DecodeError, match="of a later version"):
        decode_own(key, b"\0\0")


@pytest.mark.parametrize("type_", [-1, 3, 16, 19_999, 20_100, 2**15 - 1])
def test_types_of_others(type_: int) -> None:
    key = type_.to_bytes(2, signed=True) + b"rest"
    assert not is_own(key)
    assert decode_key(key) == UnknownKey(type_, key)


def test_keys_of_kafkas_are_not_ours() -> None:
    assert not is_own(encode_key(OffsetCommitKey("g", "t", 0)))
    assert not is_own(b"\x4e")
    assert not is_own(b"")


def test_damaged_offsets_are_told() -> None:
    key, value = pending(Producer(3, 7), OffsetCommitKey("g", "t", 1), b"\0\3", None)
    assert isinstance(key, PendingKey)
    assert value is not None
    with pytest.raises(DecodeError):
        _ = value.value
