"""OffsetFetch of one group, in the layout of version 8 and newer (Kafka 4.3)."""

from itertools import groupby
from operator import itemgetter

from protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from shim.coordinator.offsets import CommittedOffset, OffsetTable


def offset_fetch(offsets: OffsetTable, request: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
    """The group's committed offsets: of the topics asked for, or, when `topics` is None, all there are.

    An offset that is not there is -1 (leader epoch -1, metadata ""), without an error, as is every offset of a group
    that does not exist. Member id and epoch matter only to groups of the consumer protocol (KIP-848).
    """
    if request.topics is None:
        topics = tuple(
            OffsetFetchResponseTopics(
                name=topic, partitions=tuple(_found(partition, committed) for _, partition, committed in entries)
            )
            for topic, entries in groupby(offsets.of_group(request.group_id), key=itemgetter(0))
        )
    else:
        topics = tuple(_asked(offsets, request.group_id, topic) for topic in request.topics)
    return OffsetFetchResponseGroup(group_id=request.group_id, topics=topics, error_code=0)


def _asked(offsets: OffsetTable, group_id: str, topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=tuple(
            _found(partition, offsets.get(group_id, topic.name, partition)) for partition in topic.partition_indexes
        ),
    )


def _found(partition: int, committed: CommittedOffset | None) -> OffsetFetchResponsePartitions:
    offset, leader_epoch, metadata = committed[:3] if committed is not None else (-1, -1, "")
    return OffsetFetchResponsePartitions(
        partition_index=partition,
        committed_offset=offset,
        committed_leader_epoch=leader_epoch,
        metadata=metadata,
        error_code=0,
    )
