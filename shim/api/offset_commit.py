"""OffsetCommit (key 8), served: answered once every offset of the request is durable.

v0 and v1 belong to clients that Kafka 4 does not speak to either; v10 names topics by id only.
"""

from __future__ import annotations

from protocol.errors import ErrorCode
from protocol.messages.offset_commit import (
    API,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from shim.api.call import Call, Services
from shim.coordinator import GroupCoordinator

VERSIONS = (2, 9)


def handle(services: Services, call: Call[OffsetCommitRequest, OffsetCommitResponse]) -> None:
    call.decide(services, call.request.group_id, GroupCoordinator.offset_commit)


def failure(call: Call[OffsetCommitRequest, OffsetCommitResponse], error: ErrorCode) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=tuple(
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=tuple(OffsetCommitResponsePartition(p.partition_index, error) for p in topic.partitions),
            )
            for topic in call.request.topics
        )
    )


__all__ = ["API", "VERSIONS", "failure", "handle"]
