"""The kinds of groups, each by the protocol that its members speak: what is of one kind alone stands in its row here.

Source: Kafka 4.3, KIP-848, KIP-1071, KIP-932.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from protocol.api import Api
from protocol.consumer import ConsumerProtocolAssignment, TopicPartition, encode_assignment
from protocol.messages import (
    consumer_group_describe,
    consumer_group_heartbeat,
    describe_groups,
    heartbeat,
    share_group_describe,
    share_group_heartbeat,
    streams_group_describe,
    streams_group_heartbeat,
)
from protocol.messages.describe_groups import DescribedGroup


class ConsumerGroup(DescribedGroup):
    """A group of the consumer protocol, as DescribeGroups tells of one of the classic one."""

    __slots__ = ()


class StreamsGroup(DescribedGroup):
    """Likewise, of the streams protocol; tasks are left out."""

    __slots__ = ()


class ShareGroup(DescribedGroup):
    """Likewise, a share group, whose members share partitions; its offsets are no committed ones."""

    __slots__ = ()


class Kind(NamedTuple):
    """`name`: as of `group.protocol`, and Kafka's type of group. `protocol`: in a line for people. `heartbeat`: the API
    of its members; `describe`: the one that describes such groups, with `assignment`, of one of its members, in the
    bytes of the classic protocol, empty where that has no words for it. `group`: what a description becomes here.
    `session`: the setting that says for how long a silent member stays, 45 s by default, and whose it is."""

    name: str
    protocol: str
    heartbeat: Api[Any, Any]
    describe: Api[Any, Any]
    assignment: Callable[[Any], bytes]
    group: type[DescribedGroup]
    session: str
    stays: bool = False
    """Whether one is of that kind until it is deleted; others are of the kind of who comes when nobody is in them."""

    @property
    def type(self) -> str:
        """As Kafka's tools show it."""
        return self.name.capitalize()


def _assigned(member: consumer_group_describe.Member | share_group_describe.Member) -> bytes:
    partitions = (TopicPartition(each.topic_name, each.partitions) for each in member.assignment.topic_partitions)
    return encode_assignment(ConsumerProtocolAssignment(tuple(partitions)))


CLASSIC: Final = Kind(
    "classic",
    "the classic protocol",
    heartbeat.API,
    describe_groups.API,
    lambda member: bytes(member.member_assignment),
    DescribedGroup,
    "its session.timeout.ms",
)
CONSUMER: Final = Kind(
    "consumer",
    "the consumer protocol (KIP-848)",
    consumer_group_heartbeat.API,
    consumer_group_describe.API,
    _assigned,
    ConsumerGroup,
    "the brokers' group.consumer.session.timeout.ms",
)
STREAMS: Final = Kind(
    "streams",
    "the streams protocol (KIP-1071)",
    streams_group_heartbeat.API,
    streams_group_describe.API,
    lambda _: b"",
    StreamsGroup,
    "the brokers' group.streams.session.timeout.ms",
)
SHARE: Final = Kind(
    "share",
    "the protocol of share groups (KIP-932)",
    share_group_heartbeat.API,
    share_group_describe.API,
    _assigned,
    ShareGroup,
    "the brokers' group.share.session.timeout.ms",
    stays=True,
)

OTHER_KINDS: Final = (CONSUMER, STREAMS, SHARE)
"""All but the classic one, which alone the shim serves; of these DescribeGroups says that there are none."""

_BY_NAME: Final = {kind.name: kind for kind in (CLASSIC, *OTHER_KINDS)}
_BY_GROUP: Final = {kind.group: kind for kind in (CLASSIC, *OTHER_KINDS)}


def kind_listed(group_type: str) -> Kind:
    """Of a group that a broker lists with that type. Where it says none, or one that is not known here, the classic
    one: those who are to know ask for a description."""
    return _BY_NAME.get(group_type.lower(), CLASSIC)


def kind_of(described: DescribedGroup) -> Kind:
    """Of a description of any kind."""
    return _BY_GROUP[type(described)]
