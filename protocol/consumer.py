"""The `consumer` protocol: what members put into JoinGroup (subscription) and SyncGroup (assignment).

A payload is an int16 version and the fields of that version. The version is the writer's word, which nobody negotiates:
consumers take one that is newer than they know as the newest they know and leave what follows alone (KIP-429), so bytes
after the last field are no error, and refuse a negative one. Brokers do not look at it: see `subscribed_topics`.

Source: Kafka 4.3.1 (`ConsumerProtocol`, `ClassicGroup`), KIP-429, KIP-792, KIP-881.
"""

from struct import Struct
from typing import Annotated, Final, NamedTuple, TypeVar

from protocol.codec import Buffer, codec
from protocol.errors import DecodeError, EncodeError
from protocol.wire import Int32, NullableBytes, NullableString, String, ignorable, since

NEWEST_VERSION: Final = 3

T = TypeVar("T")

_INT16 = Struct(">h")


class TopicPartition(NamedTuple):
    topic: String
    partitions: tuple[Int32, ...]


class ConsumerProtocolSubscription(NamedTuple):
    """`generation_id` is that of `owned_partitions`, -1 for none."""

    topics: tuple[String, ...]
    user_data: NullableBytes = None
    owned_partitions: Annotated[tuple[TopicPartition, ...], since(1), ignorable] = ()
    generation_id: Annotated[Int32, since(2), ignorable] = -1
    rack_id: Annotated[NullableString, since(3), ignorable] = None


class ConsumerProtocolAssignment(NamedTuple):
    assigned_partitions: tuple[TopicPartition, ...]
    user_data: NullableBytes = None


def decode_subscription(raw: Buffer) -> ConsumerProtocolSubscription:
    """Raises DecodeError, for a negative version too."""
    return _decode(ConsumerProtocolSubscription, raw)


def subscribed_topics(raw: Buffer) -> tuple[String, ...]:
    """The topics of a subscription as Kafka's group coordinator reads them. Raises DecodeError.

    It takes every payload as version 0, which all others begin with, whatever number stands before it: so it knows the
    topics of clients that are newer than itself, and of those that write a version without all of its fields.
    """
    return _decode(ConsumerProtocolSubscription, raw, as_version=0).topics


def decode_assignment(raw: Buffer) -> ConsumerProtocolAssignment:
    """Raises DecodeError, for a negative version too."""
    return _decode(ConsumerProtocolAssignment, raw)


def encode_subscription(subscription: ConsumerProtocolSubscription, version: int = NEWEST_VERSION) -> bytes:
    """Raises EncodeError."""
    return _encode(subscription, version)


def encode_assignment(assignment: ConsumerProtocolAssignment, version: int = NEWEST_VERSION) -> bytes:
    """Raises EncodeError."""
    return _encode(assignment, version)


def _decode(cls: type[T], raw: Buffer, as_version: int | None = None) -> T:
    if len(raw) < _INT16.size:
        raise DecodeError(f"a payload of {len(raw)} bytes", 0, cls.__name__)
    (version,) = _INT16.unpack_from(raw) if as_version is None else (as_version,)
    if version < 0:
        raise DecodeError(f"version {version}", 0, cls.__name__)
    return codec(cls, min(version, NEWEST_VERSION), flexible=False).decode(raw, _INT16.size)[0]


def _encode(payload: T, version: int) -> bytes:
    if not 0 <= version <= NEWEST_VERSION:
        raise EncodeError(f"version {version} is not one of 0-{NEWEST_VERSION}", type(payload).__name__)
    return _INT16.pack(version) + codec(type(payload), version, flexible=False).encode(payload)
