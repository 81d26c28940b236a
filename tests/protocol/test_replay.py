"""The quick reader of many records says what the general one says, of any bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from protocol import replay
from protocol.errors import DecodeError
from protocol.offsets_log import (
    GroupMetadataKey,
    GroupMetadataValue,
    Key,
    OffsetCommitKey,
    OffsetCommitValue,
    UnknownKey,
    Value,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from protocol.replay import RecordDecoder

names = st.text(max_size=3)
keys = st.one_of(
    st.builds(OffsetCommitKey, names, names, st.integers(-(2**31), 2**31 - 1)).map(encode_key),
    st.builds(OffsetCommitKey, names, names, st.integers(0, 3)).map(lambda key: b"\0\0" + encode_key(key)[2:]),
    names.map(lambda group: encode_key(GroupMetadataKey(group))),
    st.binary(max_size=20).map(lambda raw: b"\0\x07" + raw),
    st.binary(max_size=20),
    st.binary(max_size=6).map(lambda raw: b"\0\1" + raw),
)
offsets = st.builds(
    OffsetCommitValue,
    offset=st.integers(-(2**63), 2**63 - 1),
    leader_epoch=st.integers(-(2**31), 2**31 - 1),
    metadata=st.sampled_from(["", "", "m", "é\udcff"]),
    commit_timestamp=st.integers(-(2**63), 2**63 - 1),
    expire_timestamp=st.just(-1),
    topic_id=st.just(bytes(16)),
    tagged=st.just(()),
)
values = st.one_of(
    st.none(),
    offsets.map(encode_value),
    st.tuples(offsets, st.integers(0, 4)).map(lambda each: encode_value(*each)),
    st.just(encode_value(GroupMetadataValue("consumer", 1, None, None))),
    st.binary(min_size=22, max_size=22).map(lambda rest: b"\0\3" + rest),
    st.binary(max_size=30),
)


def said(raw_key: bytes, raw_value: bytes | None, decoder: RecordDecoder | None) -> object:
    try:
        if decoder is not None:
            return decoder.decode(raw_key, raw_value)
        key: Key = decode_key(raw_key)
        value: Value | None = decode_value(key, raw_value)
    except DecodeError as error:
        return str(error)
    return key, value


@given(st.lists(st.tuples(keys, values), max_size=12))
def test_it_says_what_the_general_decoder_says(records: list[tuple[bytes, bytes | None]]) -> None:
    decoder = RecordDecoder()
    for raw_key, raw_value in records * 2:  # what was met before, too
        quick, general = said(raw_key, raw_value, decoder), said(raw_key, raw_value, None)
        assert quick == general
        if isinstance(quick, tuple) and isinstance(general, tuple):
            assert [type(each) for each in quick] == [type(each) for each in general]


def test_a_key_cut_off_is_not_taken_for_another() -> None:
    decoder = RecordDecoder()
    raw = encode_key(OffsetCommitKey("group", "topic", 3))
    value = encode_value(OffsetCommitValue(5))
    assert decoder.decode(raw, value)[0] == OffsetCommitKey("group", "topic", 3)
    for size in range(len(raw)):
        assert said(raw[:size], value, decoder) == said(raw[:size], value, None)
    assert said(raw + b"\0", value, decoder) == said(raw + b"\0", value, None)
    assert isinstance(decoder.decode(b"\0\x63", b"x")[0], UnknownKey)


def test_names_are_kept_once_and_not_without_bound() -> None:
    decoder = RecordDecoder()
    first, second = (decoder.decode(encode_key(OffsetCommitKey("g" * 9, "t" * 9, p)), None)[0] for p in range(2))
    assert isinstance(first, OffsetCommitKey)
    assert isinstance(second, OffsetCommitKey)
    assert first.group is second.group
    assert first.topic is second.topic
    replayed = replay._MOST_NAMES
    for number in range(replayed + 10):
        decoder.decode(encode_key(OffsetCommitKey("g", str(number), 0)), None)
    assert len(decoder._names) <= replayed
