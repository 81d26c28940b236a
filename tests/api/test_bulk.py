"""One commit and one fetch over thousands of partitions, in every version."""

from __future__ import annotations

from pathlib import Path

import pytest

from protocol.errors import ErrorCode
from protocol.messages import offset_commit, offset_fetch
from protocol.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from protocol.own.history_log import HISTORY_TOPIC
from protocol.partition import OFFSETS_TOPIC
from shim.config import Settings
from shim.coordinator import GroupCoordinator
from tests.api.driving import answer, services
from tests.runtime.running import CALLER, running

PARTITIONS = 5_000  # more than are read in a row at once, and enough bytes for a request to be skimmed
# Topics, and partitions of each.
SHAPES = ((1, PARTITIONS), (50, 100), (PARTITIONS, 1))
GROUP = "bulk-0"


def offset_of(topic: int, partition: int) -> int:
    return 100_000 * topic + partition


def bulk_commit(topics: int, partitions: int) -> offset_commit.OffsetCommitRequest:
    return offset_commit.OffsetCommitRequest(
        GROUP,
        topics=tuple(
            OffsetCommitRequestTopic(
                f"topic-{t}",
                partitions=tuple(
                    OffsetCommitRequestPartition(p, offset_of(t, p), committed_metadata=f"m{p % 3}")
                    for p in range(partitions)
                ),
            )
            for t in range(topics)
        ),
    )


async def commit(coordinator: GroupCoordinator, version: int, topics: int, partitions: int) -> None:
    request = bulk_commit(topics, partitions)
    response = await answer(offset_commit.API, version, request, await services({0: coordinator}))
    assert [(topic.name, partition.partition_index) for topic in response.topics for partition in topic.partitions] == [
        (f"topic-{t}", p) for t in range(topics) for p in range(partitions)
    ]
    assert {p.error_code for topic in response.topics for p in topic.partitions} == {ErrorCode.NONE}


@pytest.mark.parametrize(("topics", "partitions"), SHAPES)
async def test_a_commit_in_every_version(topics: int, partitions: int) -> None:
    for version in range(2, 10):
        coordinator = GroupCoordinator()
        await commit(coordinator, version, topics, partitions)
        assert coordinator.offset_count == PARTITIONS


@pytest.mark.parametrize(("topics", "partitions"), SHAPES)
async def test_it_is_one_batch_of_the_log_and_one_of_the_history(tmp_path: Path, topics: int, partitions: int) -> None:
    async with running(tmp_path, Settings(offsets_topic_num_partitions=1)) as shim:
        shim.log.release(10)
        ticket = shim.ticket("bulk")
        request = bulk_commit(topics, partitions)
        shim.runtime.submit(
            0, lambda coordinator, now, asker: coordinator.offset_commit(now, CALLER, 9, request, asker), ticket
        )
        await ticket.result()
        for topic in (OFFSETS_TOPIC, HISTORY_TOPIC):
            (batch,) = shim.log.partition_log(0, topic=topic).read()
            assert len(list(batch.records)) == PARTITIONS


@pytest.mark.parametrize(("topics", "partitions"), SHAPES)
async def test_a_fetch_in_every_version(topics: int, partitions: int) -> None:
    coordinator = GroupCoordinator()
    await commit(coordinator, 9, topics, partitions)
    to = await services({0: coordinator})
    asked = [(f"topic-{t}", tuple(range(partitions))) for t in range(topics)]
    wanted = [(f"topic-{t}", p, offset_of(t, p), f"m{p % 3}") for t in range(topics) for p in range(partitions)]
    for version in range(1, 10):
        for everything in (False, True) if version >= 2 else (False,):
            if version >= 8:
                named = tuple(OffsetFetchRequestTopics(name=name, partition_indexes=indexes) for name, indexes in asked)
                request = OffsetFetchRequest(
                    groups=(OffsetFetchRequestGroup(GROUP, topics=None if everything else named),)
                )
            else:
                old = tuple(OffsetFetchRequestTopic(name, indexes) for name, indexes in asked)
                request = OffsetFetchRequest(GROUP, None if everything else old)
            response = await answer(offset_fetch.API, version, request, to)
            found = response.groups[0].topics if version >= 8 else response.topics
            assert [
                (topic.name, p.partition_index, p.committed_offset, p.metadata)
                for topic in found
                for p in topic.partitions
            ] == wanted
            assert {p.error_code for topic in found for p in topic.partitions} == {ErrorCode.NONE}
