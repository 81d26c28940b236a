"""Very many offsets, committed to a real coordinator as quickly as one connection can."""

from __future__ import annotations

from typing import Final

from protocol.errors import ErrorCode
from protocol.messages.offset_commit import (
    API,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.wire import WireClient

PARTITIONS: Final = 200
_VERSION: Final = 9
_IN_FLIGHT: Final = 32


def commit_many(port: int, groups: list[str], topic: str, rounds: int) -> int:
    """Each round commits all partitions of the topic for each group, at the offset of the round's number. Gives how
    many offsets these are."""
    sent = received = 0
    client = WireClient(port)
    try:
        for number in range(rounds):
            partitions = tuple(
                OffsetCommitRequestPartition(partition, number, 0, committed_metadata="")
                for partition in range(PARTITIONS)
            )
            for group in groups:
                request = OffsetCommitRequest(group, topics=(OffsetCommitRequestTopic(topic, partitions=partitions),))
                client.send(API, _VERSION, request)
                sent += 1
                while sent - received >= _IN_FLIGHT:
                    received += _received(client)
        while received < sent:
            received += _received(client)
    finally:
        client.close()
    return sent * PARTITIONS


def _received(client: WireClient) -> int:
    _, answer = client.receive(API, _VERSION)
    errors = {partition.error_code for topic in answer.topics for partition in topic.partitions}
    assert errors == {ErrorCode.NONE}, errors
    return 1
