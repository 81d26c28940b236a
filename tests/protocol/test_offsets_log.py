"""Keys and values of `__consumer_offsets`, against bytes as brokers write them."""

import pytest

from protocol.errors import DecodeError, EncodeError
from protocol.offsets_log import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    UnknownKey,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)

KEY = OffsetCommitKey("g", "t", 3)
GROUP = GroupMetadataKey("g")
TOPIC_ID = bytes(range(16))


def test_keys() -> None:
    assert encode_key(KEY) == b"\0\x01\0\x01g\0\x01t\0\0\0\x03"
    assert encode_key(GROUP) == b"\0\x02\0\x01g"
    assert decode_key(encode_key(KEY)) == KEY
    assert decode_key(b"\0\0\0\x01g\0\x01t\0\0\0\x03") == KEY
    assert isinstance(decode_key(encode_key(GROUP)), GroupMetadataKey)


@pytest.mark.parametrize("version", [3, 16, 23, 999, -1])
def test_unknown_keys_are_given_back(version: int) -> None:
    raw = version.to_bytes(2, "big", signed=True) + b"anything"
    key = decode_key(raw)
    assert key == UnknownKey(version, raw)
    assert encode_key(key) == raw
    assert decode_value(key, b"value") == b"value"
    assert encode_value(b"value") == b"value"


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ("0000 0000000000000005 0001 6d 000000000000004d", OffsetCommitValue(5, -1, "m", 77)),
        (
            "0001 0000000000000005 0001 6d 000000000000004d 0000000000000058",
            OffsetCommitValue(5, -1, "m", 77, 88),
        ),
        ("0002 0000000000000005 0001 6d 000000000000004d", OffsetCommitValue(5, -1, "m", 77)),
        ("0003 0000000000000005 00000002 0001 6d 000000000000004d", OffsetCommitValue(5, 2, "m", 77)),
        ("0004 0000000000000005 00000002 02 6d 000000000000004d 00", OffsetCommitValue(5, 2, "m", 77)),
        (
            "0004 0000000000000005 00000002 02 6d 000000000000004d 01 00 10" + TOPIC_ID.hex(),
            OffsetCommitValue(5, 2, "m", 77, topic_id=TOPIC_ID),
        ),
    ],
)
def test_offset_values(raw: str, value: OffsetCommitValue) -> None:
    encoded = bytes.fromhex(raw)
    assert decode_value(KEY, encoded) == value
    assert encode_value(value, version=encoded[1]) == encoded


def test_versions_that_are_written() -> None:
    plain = OffsetCommitValue(5, 2, "m", 77, topic_id=TOPIC_ID)
    assert encode_value(plain)[:2] == b"\0\x03"
    assert encode_value(plain._replace(expire_timestamp=88))[:2] == b"\0\x01"
    assert encode_value(GroupMetadataValue("", 0, None, None))[:2] == b"\0\x03"


def test_a_group_as_a_broker_writes_it() -> None:
    member = MemberMetadata("m-1", None, "c", "/127.0.0.1", 300000, 45000, b"sub", b"as")
    value = GroupMetadataValue("consumer", 4, "range", "m-1", 99, (member,))
    assert encode_value(value) == (
        b"\0\x03\0\x08consumer\0\0\0\x04\0\x05range\0\x03m-1\0\0\0\0\0\0\0\x63\0\0\0\x01"
        b"\0\x03m-1\xff\xff\0\x01c\0\x0a/127.0.0.1\0\x04\x93\xe0\0\0\xaf\xc8\0\0\0\x03sub\0\0\0\x02as"
    )
    assert decode_value(GROUP, encode_value(value)) == value
    assert decode_value(GROUP, encode_value(value, version=4)) == value
    oldest = decode_value(GROUP, encode_value(value, version=0))
    assert oldest == value._replace(
        current_state_timestamp=-1, members=(member._replace(group_instance_id=None, rebalance_timeout=-1),)
    )
    assert decode_value(GROUP, None) is None


@pytest.mark.parametrize("raw", [b"", b"\0", b"\0\x01\0\x01g", b"\0\x02\0\x01g!", b"\0\x02\xff\xff"])
def test_damaged_keys(raw: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_key(raw)


def test_bytes_after_a_value_are_left_alone() -> None:
    for version in (3, 4):
        assert decode_value(KEY, encode_value(OffsetCommitValue(1), version) + b"!") == OffsetCommitValue(1)


def test_damaged_values() -> None:
    good = encode_value(OffsetCommitValue(1))
    for raw in (b"", b"\0", good[:-1], b"\0\x05" + good[2:], b"\xff\xff" + good[2:]):
        with pytest.raises(DecodeError):
            decode_value(KEY, raw)
    with pytest.raises(EncodeError, match="version 5"):
        encode_value(OffsetCommitValue(1), version=5)
    with pytest.raises(EncodeError, match=r"OffsetCommitValue\.metadata"):
        encode_value(OffsetCommitValue(1, metadata="x" * 32768))
