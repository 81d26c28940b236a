"""Which of the protocols that a member offers the coordinator can work with."""

from collections.abc import Iterable

from protocol.consumer import decode_subscription
from protocol.errors import DecodeError
from protocol.messages.join_group import JoinGroupRequestProtocol
from shim.coordinator.group import Protocol

CONSUMER = "consumer"


def usable_protocols(protocol_type: str, offered: Iterable[JoinGroupRequestProtocol]) -> tuple[Protocol, ...]:
    """The offered protocols, each name once, in the member's order.

    Those of a `consumer` whose subscription cannot be read are left out, so that they are never voted for. (Kafka 4.3
    fails on such a subscription once the protocol is chosen, and the whole group with it.)
    """
    usable: dict[str, Protocol] = {}
    for protocol in offered:
        if protocol.name in usable:
            continue
        if protocol_type != CONSUMER or subscribed_topics(protocol.metadata) is not None:
            usable[protocol.name] = Protocol(protocol.name, protocol.metadata)
    return tuple(usable.values())


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics of a `consumer` subscription, or None when it cannot be read.

    It is read as version 0, with which every version begins, as Kafka does: some clients claim a later version
    whose fields they do not send.
    """
    if len(metadata) < 2 or metadata[0] & 0x80:  # the version: an int16 that is not negative
        return None
    try:
        return frozenset(decode_subscription(b"\x00\x00" + metadata[2:]).topics)
    except DecodeError:
        return None
