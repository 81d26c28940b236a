"""What a cluster, the shim or a broker, says of one consumer group; and what the shim's log says of it."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import KafkaError

from protocol.messages import describe_groups
from protocol.messages.describe_groups import DescribedGroup
from shim.demo.parts import tools
from tests.wire import WireClient

_TIMEOUT_S = 60.0
_NOT_YET = {
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
}
_GROUP_METADATA = re.compile(
    r"(?:Create|LogAppend)Time: (?P<timestamp>\d+) .* key: (?P<key>\{\"type\":\"2\".*\}) payload: (?P<value>\{.*\})"
)


class Assigned(NamedTuple):
    """A group's state, and the partitions of each of its members."""

    state: ConsumerGroupState
    members: list[set[int]]


class GroupView:
    """One group, asked for at `bootstrap_servers`."""

    def __init__(self, bootstrap_servers: str, group: str) -> None:
        self.group = group
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers})

    def listed(self) -> bool:
        result = self._admin.list_consumer_groups(request_timeout=_TIMEOUT_S).result(_TIMEOUT_S)
        assert not result.errors
        return self.group in {listing.group_id for listing in result.valid}

    def assigned(self) -> Assigned:
        asked = self._admin.describe_consumer_groups([self.group], request_timeout=_TIMEOUT_S)
        described = asked[self.group].result(_TIMEOUT_S)
        members = [
            {partition.partition for partition in member.assignment.topic_partitions} for member in described.members
        ]
        return Assigned(described.state, members)

    def shared_by(self, members: int, partitions: int) -> bool:
        """Whether the group is stable with so many members, each partition given to one, as many to each."""
        try:
            state, shares = self.assigned()
        except KafkaException as error:
            # A broker that was just started, and is asked whether it knows of the group, may not be able to tell yet.
            if error.args[0].code() not in _NOT_YET:
                raise
            return False
        whole = sorted(partition for share in shares for partition in share) == list(range(partitions))
        even = [len(share) for share in shares] == [partitions // members] * members
        return state == ConsumerGroupState.STABLE and whole and even

    def committed(self, topic: str | None = None) -> dict[int, int]:
        """The committed offset of each partition that has one; of this topic, where the group has more than one."""
        asked = self._admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(self.group)], request_timeout=_TIMEOUT_S
        )
        answered = asked[self.group].result(_TIMEOUT_S)
        entries = (entry for entry in answered.topic_partitions if topic in (None, entry.topic))
        return {entry.partition: entry.offset for entry in entries if entry.offset >= 0}


def described(port: int, group: str) -> DescribedGroup:
    """What the server at this port says of a group of any protocol type."""
    with WireClient(port) as client:
        return client.ask(describe_groups.API, 6, describe_groups.DescribeGroupsRequest((group,))).groups[0]


class Generation(NamedTuple):
    """One group metadata record: its generation, how many members, and when it was written (milliseconds)."""

    number: int
    members: int
    timestamp: int


def generations(segments: Sequence[Path], group: str) -> list[Generation]:
    """What Kafka's own tool reads of the group in these files of the log: its group metadata records in their order."""
    return [
        Generation(value["generation"], len(value["members"]), int(match["timestamp"]))
        for line in tools.dump_offsets_log(*segments).splitlines()
        if (match := _GROUP_METADATA.search(line)) and json.loads(match["key"])["data"]["group"] == group
        for value in [json.loads(match["value"])["data"]]
    ]
