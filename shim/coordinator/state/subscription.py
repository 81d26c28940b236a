"""What the coordinator reads of the subscriptions of consumers, and which of their protocols it can work with."""

from collections.abc import Iterable
from struct import Struct

from protocol.consumer import subscribed_topics
from protocol.errors import DecodeError
from protocol.messages.join_group import JoinGroupRequestProtocol
from shim.coordinator.state.group import CONSUMER, Group, Protocol

_NO_TOPICS: frozenset[str] = frozenset()

_INT16 = Struct(">h")
_INT32 = Struct(">i")


def usable_protocols(protocol_type: str, offered: Iterable[JoinGroupRequestProtocol]) -> tuple[Protocol, ...]:
    """The offered protocols, each name once, in the member's order.

    Those of a `consumer` whose subscription breaks a broker are left out, so that they are never voted for.
    """
    usable: dict[str, Protocol] = {}
    for protocol in offered:
        if protocol.name in usable:
            continue
        if protocol_type != CONSUMER or not breaks_a_broker(protocol.metadata):
            usable[protocol.name] = Protocol(protocol.name, protocol.metadata)
    return tuple(usable.values())


def topics_of_generation(group: Group) -> frozenset[str] | None:
    """The topics that the members subscribe to, by the group's protocol.

    None when they cannot be known: it is no group of consumers, has no protocol, or one of the subscriptions is not to
    be understood.
    """
    if group.protocol_type != CONSUMER:
        return None
    if not group.members:
        return _NO_TOPICS
    if group.protocol_name is None:
        return None
    subscriptions = {member.metadata(group.protocol_name) for member in group.members.values()}
    try:
        return frozenset(topic for subscription in subscriptions for topic in subscribed_topics(subscription))
    except DecodeError:
        return None


def breaks_a_broker(metadata: bytes) -> bool:
    """Whether a 4.3.1 broker fails on this `consumer` subscription once its protocol is chosen, and the group with it.

    That is when the topics or the user data claim more than there is, or a topic is null. Other malformed ones (too
    short to have topics, a negative version, no user data) it takes for a subscription to nothing: seen on 4.3.1, which
    reads every version as version 0, with which all begin.
    """
    end = len(metadata)
    if end < 6 or metadata[0] & 0x80:  # no version and topic count, or a negative version
        return False
    (count,) = _INT32.unpack_from(metadata, 2)
    position = 6
    if count < 0 or count * 2 > end - position:
        return True
    for _ in range(count):
        if position + 2 > end:
            return True
        (length,) = _INT16.unpack_from(metadata, position)
        position += 2 + length
        if length < 0 or position > end:
            return True
    if position + 4 > end:
        return False
    (length,) = _INT32.unpack_from(metadata, position)
    return bool(length > end - position - 4)
