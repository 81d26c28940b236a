"""Keys and values of `__offset_shim_history`, byte by byte."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import DecodeError
from protocol.own.history_log import OffsetHistoryKey, OffsetHistoryValue, decode_history, encode_history

START = 1_767_225_600_123
KEY = OffsetHistoryKey("group", "topic", 3, START)
VALUE = OffsetHistoryValue(5, 6, "é\udcff", START, 4, "member", None, "client", "/127.0.0.1")


def test_the_bytes_of_version_0() -> None:
    key, value = encode_history((KEY, VALUE))
    assert key == b"\0\0" + b"\x06group" + b"\x06topic" + b"\0\0\0\x03" + START.to_bytes(8, "big") + b"\0"
    assert value == b"".join(
        (
            b"\0\0" + (5).to_bytes(8, "big") + (6).to_bytes(4, "big"),
            b"\x04\xc3\xa9\xff" + START.to_bytes(8, "big") + (4).to_bytes(4, "big"),
            b"\x07member" + b"\0" + b"\x07client" + b"\x0b/127.0.0.1" + b"\0",
        )
    )


def test_who_the_cluster_has_accepted_is_a_field_that_older_history_does_not_have() -> None:
    of_nobody = encode_history((KEY, VALUE))
    key, value = encode_history((KEY, VALUE._replace(principal="User:zoë")))
    assert (key, value) == (of_nobody[0], of_nobody[1][:-1] + b"\x01\x00\x0a\x0aUser:zo\xc3\xab")
    assert decode_history(key, value) == (KEY, VALUE._replace(principal="User:zoë"))
    assert decode_history(*of_nobody) == (KEY, VALUE)


texts = st.text(max_size=5)
int64s = st.integers(-(2**63), 2**63 - 1)
int32s = st.integers(-(2**31), 2**31 - 1)


@given(
    st.builds(OffsetHistoryKey, texts, texts, int32s, int64s, st.just(())),
    st.builds(
        OffsetHistoryValue,
        *(int64s, int32s, texts, int64s, int32s, texts, st.none() | texts, texts, texts, texts, st.just(())),
    ),
)
def test_what_is_encoded_is_decoded(key: OffsetHistoryKey, value: OffsetHistoryValue) -> None:
    assert decode_history(*encode_history((key, value))) == (key, value)


def test_what_is_no_history_is_refused_and_what_is_newer_left_alone() -> None:
    key, value = encode_history((KEY, VALUE))
    assert decode_history(b"\0\1" + key[2:], value) is None
    assert decode_history(key, b"\0\1" + value[2:]) is None
    assert decode_history(key, None) is None
    for size in range(len(key)):
        with pytest.raises(DecodeError):
            decode_history(key[:size], value)
    for size in range(len(value)):
        with pytest.raises(DecodeError):
            decode_history(key, value[:size])
    for longer in ((key + b"\0", value), (key, value + b"\0")):
        with pytest.raises(DecodeError, match="too many"):
            decode_history(*longer)
