"""OffsetFetch of one group, in the layout of version 8 and newer (Kafka 4.3)."""

from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from protocol.errors import ErrorCode
from protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from protocol.offsets_log import CommittedOffset, OffsetCommitKey
from shim.coordinator.state.offset_table import OffsetTable
from shim.coordinator.state.partition_state import PartitionState

_NONE: Final = CommittedOffset(-1, -1, "", -1)
_new: Final[Any] = tuple.__new__  # it skips the constructors of named tuples


def offset_fetch(
    state: PartitionState, request: OffsetFetchRequestGroup, *, require_stable: bool = False
) -> OffsetFetchResponseGroup:
    """The group's committed offsets: of the topics asked for, or, when `topics` is None, all there are.

    An offset that is not there is -1 (leader epoch -1, metadata ""), without an error, as is every offset of a group
    that does not exist. Member id and epoch matter only to groups of the consumer protocol (KIP-848).

    `require_stable` (KIP-447): an offset that a transaction may yet replace is UNSTABLE_OFFSET_COMMIT. Of all
    there are, those that are committed count: one that is only pending is not among them.
    """
    if state.behind:
        return OffsetFetchResponseGroup(
            group_id=request.group_id, topics=(), error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        )
    offsets = state.offsets.committed
    if request.topics is None:
        topics = tuple(
            OffsetFetchResponseTopics(
                name=topic, partitions=tuple(_found(partition, committed) for _, partition, committed in entries)
            )
            for topic, entries in groupby(offsets.of_group(request.group_id), key=itemgetter(0))
        )
    else:
        topics = tuple([_asked(offsets, request.group_id, topic) for topic in request.topics])
    if require_stable and (state.offsets.transactions.pending or state.commits):
        topics = tuple(_stable(state, request.group_id, topic) for topic in topics)
    return OffsetFetchResponseGroup(request.group_id, topics)


def _stable(state: PartitionState, group_id: str, topic: OffsetFetchResponseTopics) -> OffsetFetchResponseTopics:
    return topic._replace(
        partitions=tuple(
            _found(found.partition_index, None)._replace(error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT)
            if state.is_unstable(OffsetCommitKey(group_id, topic.name, found.partition_index))
            else found
            for found in topic.partitions
        )
    )


def _asked(offsets: OffsetTable, group_id: str, topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    name, topic_id, partitions, _ = topic
    of_topic = offsets.of_topic(group_id, name)
    if of_topic is None:
        found = tuple([_found(partition, None) for partition in partitions])
    else:
        found = tuple([_found(partition, of_topic.get(partition)) for partition in partitions])
    topics: OffsetFetchResponseTopics = _new(OffsetFetchResponseTopics, (name, topic_id, found, ()))
    return topics


def _found(partition: int, committed: CommittedOffset | None) -> OffsetFetchResponsePartitions:
    offset, leader_epoch, metadata, _, _ = committed or _NONE
    found: OffsetFetchResponsePartitions = _new(
        OffsetFetchResponsePartitions, (partition, offset, leader_epoch, metadata, 0, ())
    )
    return found
