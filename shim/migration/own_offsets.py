"""What the log has of a group's offsets, as those need it who write them somewhere else."""

from __future__ import annotations

from protocol.errors import ErrorCode
from protocol.offsets_log import CommittedOffset
from protocol.topic_partition import TopicPartition
from shim.coordinator import GroupCoordinator
from shim.offsets.cluster.groups import Committed


class NotReadable(Exception):
    """Not all of them are known for now: the partition has not caught up with the cluster's log, for one. The message
    is one line for an operator."""


def own_offsets(coordinator: GroupCoordinator, group: str) -> Committed:
    """All that are committed, durable or not, with their commit timestamps; what is pending of a transaction is none of
    them. Raises NotReadable."""
    answer = coordinator.own_offsets(group)
    if answer.error_code:
        raise NotReadable(f"group {group}: {ErrorCode.for_code(answer.error_code).name}")
    times = coordinator.commit_times(group)
    found: Committed = {}
    for topic in answer.topics:
        for each in topic.partitions:
            at = TopicPartition(topic.name, each.partition_index)
            if each.error_code:
                raise NotReadable(f"group {group}: {at}: {ErrorCode.for_code(each.error_code).name}")
            its = each.committed_offset, each.committed_leader_epoch, each.metadata or ""
            found[at] = CommittedOffset(*its, times.get(at, 0))
    return found
