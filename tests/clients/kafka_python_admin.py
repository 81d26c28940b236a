"""alone|beside|after BOOTSTRAP GROUP TOPIC: what kafka-python's admin client is told of a group, as a line of JSON.

alone: offsets of its two partitions are altered, listed, reset, and that of the second deleted. beside a member that
reads the topic: deleting what it reads, and the group; altering; removing another. after it has left: deleting the
group, and one that there is not.
"""

import json
import os
import sys
from typing import Any

from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import MemberToRemove, OffsetSpec
from kafka.structs import OffsetAndMetadata


def alone(admin: Any, group: str, partitions: list[TopicPartition]) -> list[Any]:
    altered = admin.alter_group_offsets(group, {at: OffsetAndMetadata(3, "", -1) for at in partitions})
    before = _offsets(admin, group)
    reset = admin.reset_group_offsets(group, {partitions[0]: OffsetSpec.LATEST, partitions[1]: OffsetSpec.EARLIEST})
    ends = admin.list_partition_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
    return [
        _errors(altered),
        before,
        sorted((at.partition, done["offset"], done["error"].__name__) for at, done in reset.items()),
        sorted((at.partition, end.offset) for at, end in ends.items()),
        _listed(admin, group),
        _errors(admin.delete_group_offsets(group, partitions[1:])),
        _offsets(admin, group),
    ]


def beside(admin: Any, group: str, partitions: list[TopicPartition]) -> list[Any]:
    refused = _errors(admin.delete_group_offsets(group, partitions))
    described = admin.describe_groups([group], include_authorized_operations=True)[group]
    operations = sorted(described["authorized_operations"])
    altered = admin.alter_group_offsets(group, {at: OffsetAndMetadata(4, "", -1) for at in partitions})
    removed = admin.remove_group_members(group, [MemberToRemove(member_id="another")])
    return [
        *(refused, admin.delete_groups([group]), described["group_state"], operations, _listed(admin, group)),
        *(_errors(altered), _errors(removed)),
    ]


def after(admin: Any, group: str, partitions: list[TopicPartition]) -> list[Any]:
    deleted = admin.delete_groups([group, f"{group}-unknown"])
    return [deleted, _listed(admin, group)]


def _errors(by_what: dict[Any, type[Exception]]) -> list[str]:
    return sorted({error.__name__ for error in by_what.values()})


def _listed(admin: Any, group: str) -> list[list[str]]:
    """As what the group is listed: among all, among those in two states, and among those of a type."""
    filters = [{}, {"states_filter": ["Stable"]}, {"states_filter": ["Empty"]}, {"types_filter": ["classic"]}]
    return [
        [found[key] for key in ("protocol_type", "group_state", "group_type")]
        for asked in filters
        for found in admin.list_groups(**asked)
        if found["group_id"] == group
    ]


def _offsets(admin: Any, group: str) -> list[tuple[int, int]]:
    return sorted((at.partition, found.offset) for at, found in admin.list_group_offsets(group)[group].items())


if __name__ == "__main__":
    when, bootstrap, group, topic = sys.argv[1:]
    do = {"alone": alone, "beside": beside, "after": after}[when]
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    print(json.dumps(do(client, group, [TopicPartition(topic, partition) for partition in range(2)])), flush=True)
    os._exit(0)  # closing it takes as long as all the rest
