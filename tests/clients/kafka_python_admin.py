"""alone|beside|after BOOTSTRAP GROUP TOPIC: what kafka-python's admin client is told of a group, as a line of JSON.

alone: offsets of its two partitions are altered, listed, and that of the second deleted. beside a member that reads the
topic: deleting what it reads, and the group. after it has left: deleting the group, and one that there is not.
"""

import json
import os
import sys
from typing import Any

from kafka import KafkaAdminClient, TopicPartition
from kafka.structs import OffsetAndMetadata


def alone(admin: Any, group: str, partitions: list[TopicPartition]) -> list[Any]:
    altered = admin.alter_group_offsets(group, {at: OffsetAndMetadata(3, "", -1) for at in partitions})
    before = _offsets(admin, group)
    return [
        _errors(altered),
        before,
        _errors(admin.delete_group_offsets(group, partitions[1:])),
        _offsets(admin, group),
    ]


def beside(admin: Any, group: str, partitions: list[TopicPartition]) -> list[Any]:
    refused = _errors(admin.delete_group_offsets(group, partitions))
    described = admin.describe_groups([group], include_authorized_operations=True)[group]
    operations = sorted(described["authorized_operations"])
    return [refused, admin.delete_groups([group]), described["group_state"], operations]


def after(admin: Any, group: str, partitions: list[TopicPartition]) -> list[Any]:
    deleted = admin.delete_groups([group, f"{group}-unknown"])
    return [deleted, group in {listed["group_id"] for listed in admin.list_groups()}]


def _errors(by_partition: dict[TopicPartition, type[Exception]]) -> list[str]:
    return sorted({error.__name__ for error in by_partition.values()})


def _offsets(admin: Any, group: str) -> list[tuple[int, int]]:
    return sorted((at.partition, found.offset) for at, found in admin.list_group_offsets(group)[group].items())


if __name__ == "__main__":
    when, bootstrap, group, topic = sys.argv[1:]
    do = {"alone": alone, "beside": beside, "after": after}[when]
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    print(json.dumps(do(client, group, [TopicPartition(topic, partition) for partition in range(2)])), flush=True)
    os._exit(0)  # closing it takes as long as all the rest
