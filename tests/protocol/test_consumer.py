"""Subscriptions and assignments, as members of a consumer group send them."""

import pytest

from protocol.consumer import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
    subscribed_topics,
)
from protocol.errors import DecodeError, EncodeError

SUBSCRIPTION = ConsumerProtocolSubscription(("a", "b"), b"user", (TopicPartition("a", (0, 2)),), 7, "rack")


@pytest.mark.parametrize(
    ("version", "raw"),
    [
        (0, b"\0\0\0\0\0\x02\0\x01a\0\x01b\0\0\0\x04user"),
        (1, b"\0\x01\0\0\0\x02\0\x01a\0\x01b\0\0\0\x04user\0\0\0\x01\0\x01a\0\0\0\x02\0\0\0\0\0\0\0\x02"),
    ],
)
def test_subscription_bytes(version: int, raw: bytes) -> None:
    assert encode_subscription(SUBSCRIPTION, version) == raw
    kept = SUBSCRIPTION if version else SUBSCRIPTION._replace(owned_partitions=())
    assert decode_subscription(raw) == kept._replace(generation_id=-1, rack_id=None)
    assert decode_subscription(memoryview(raw)) == decode_subscription(raw)


def test_newest_versions() -> None:
    assert decode_subscription(encode_subscription(SUBSCRIPTION)) == SUBSCRIPTION
    assignment = ConsumerProtocolAssignment((TopicPartition("a", (1,)),), None)
    for version in range(4):
        assert decode_assignment(encode_assignment(assignment, version)) == assignment


def test_a_version_from_the_future_is_read_as_the_newest_known() -> None:
    raw = b"\0\x09" + encode_subscription(SUBSCRIPTION)[2:] + b"what comes then"
    assert decode_subscription(raw) == SUBSCRIPTION


@pytest.mark.parametrize("version", [-1, -(2**15), 0, 1, 3, 4, 2**15 - 1])
def test_topics_are_read_past_any_version(version: int) -> None:
    for body in (encode_subscription(SUBSCRIPTION, 0)[2:], encode_subscription(SUBSCRIPTION)[2:] + b"more"):
        raw = version.to_bytes(2, "big", signed=True) + body
        assert subscribed_topics(raw) == subscribed_topics(memoryview(raw)) == ("a", "b")
        if version < 0:
            with pytest.raises(DecodeError, match=f"version {version}"):
                decode_subscription(raw)
    # What a version adds may be missing, its user data may not.
    oldest = encode_subscription(SUBSCRIPTION, 0)
    for size in range(len(oldest)):
        with pytest.raises(DecodeError):
            subscribed_topics(oldest[:size])


def test_malformed() -> None:
    raw = encode_subscription(SUBSCRIPTION)
    for size in range(len(raw)):
        with pytest.raises(DecodeError):
            decode_subscription(raw[:size])
    for broken in (b"\xff\xff" + raw[2:], b"\0\0\x7f\xff\xff\xff", b"not a subscription"):
        with pytest.raises(DecodeError):
            decode_subscription(broken)
        with pytest.raises(DecodeError):
            decode_assignment(broken)
    with pytest.raises(EncodeError, match="version 4"):
        encode_subscription(SUBSCRIPTION, 4)
