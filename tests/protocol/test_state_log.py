"""The records of `__offset_shim_state`, bytes and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import DecodeError
from protocol.own.state_log import (
    About,
    GroupChangeKey,
    GroupHandsKey,
    GroupHandsValue,
    Hands,
    StateKey,
    StateRecord,
    Step,
    WrittenKey,
    WrittenValue,
    decode_state,
    encode_state,
)

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
times = st.integers(-(2**63), 2**63 - 1)
keys: st.SearchStrategy[StateKey] = st.builds(GroupHandsKey, names, st.just(())) | st.builds(
    GroupChangeKey, names, times, st.just(())
)
values = st.builds(
    GroupHandsValue,
    st.sampled_from(list(map(int, Hands))),
    times,
    names,
    st.sampled_from(list(map(int, Step))),
    st.integers(0, 1),
    st.just(()),
)
numbers = st.integers(-(2**31), 2**31 - 1)
written_keys = st.builds(WrittenKey, names, names, numbers, st.just(()))
written = st.builds(WrittenValue, times, numbers, times, st.sampled_from(list(map(int, About))), st.just(()))
records: st.SearchStrategy[StateRecord] = st.tuples(keys, values) | st.tuples(written_keys, written | st.none())


@given(records)
def test_there_and_back(record: StateRecord) -> None:
    assert decode_state(*encode_state(record)) == record


def test_before_there_were_steps() -> None:
    """What an older shim has written is of a group whose offsets are in the log alone."""
    _, value = decode_state(bytes.fromhex("0000026700"), bytes.fromhex("0000 01 0000000000000007 03 6362 00"))
    assert value == GroupHandsValue(Hands.SERVED, 7, "cb", Step.KAFKA, 0)


def test_the_bytes() -> None:
    value = bytes.fromhex("0000 01 0000000000000007 03 6362 00".replace(" ", ""))
    assert encode_state((GroupHandsKey("g"), GroupHandsValue(1, 7, "cb"))) == (bytes.fromhex("0000026700"), value)
    assert encode_state((GroupChangeKey("g", 7), GroupHandsValue(1, 7, "cb"))) == (
        bytes.fromhex("00010267000000000000000700"),
        value,
    )


@given(keys, values, st.data())
def test_what_is_cut_off_or_has_more_is_refused(key: StateKey, value: GroupHandsValue, data: st.DataObject) -> None:
    raw_key, raw_value = encode_state((key, value))
    assert raw_value is not None
    for wrong in (
        (raw_key[: data.draw(st.integers(0, len(raw_key) - 1))], raw_value),
        (raw_key, raw_value[: data.draw(st.integers(0, len(raw_value) - 1))]),
        (raw_key + b"\0", raw_value),
        (raw_key, raw_value + b"\0"),
        (raw_key, None),
        (b"\0\3" + raw_key[2:], raw_value),
        (raw_key, b"\0\1" + raw_value[2:]),
        (raw_key, raw_value[:2] + b"\7" + raw_value[3:]),
    ):
        with pytest.raises(DecodeError):
            decode_state(*wrong)
