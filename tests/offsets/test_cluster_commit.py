"""A commit to the cluster that takes several requests, of a group that comes to be somebody else's amid it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

from protocol.errors import ErrorCode
from protocol.messages import offset_commit
from protocol.offsets_log import CommittedOffset
from protocol.topic_partition import TopicPartition
from shim.offsets.cluster.groups import ClusterGroups

GROUP: Final = "g"
MANY: Final = {TopicPartition("t", number): CommittedOffset(number, -1, "", 0) for number in range(2_500)}
NODE_ID: Final = 1


class _Lost(Exception):
    pass


class _OneBroker:
    """Answers each request with the next of these codes; None: it has lost the group by then."""

    addresses: Final[Mapping[int, object]] = {NODE_ID: None}

    def __init__(self, *codes: int | None) -> None:
        self.asked: list[int] = []
        """How many partitions each request names."""
        self._codes = list(codes)
        self.is_ours = True

    def may_send(self) -> None:
        if not self.is_ours:
            raise _Lost

    async def newest(self, node_id: int, api: Any, *, at_least: int, at_most: int) -> int:
        return at_most

    async def ask(self, node_id: int, api: Any, request: Any, *, version: int | None = None) -> Any:
        self.asked.append(sum(len(topic.partitions) for topic in request.topics))
        code = self._codes.pop(0)
        self.is_ours = code is not None
        topics = tuple(
            offset_commit.OffsetCommitResponseTopic(
                topic.name,
                partitions=tuple(
                    offset_commit.OffsetCommitResponsePartition(each.partition_index, code or 0)
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        )
        return offset_commit.OffsetCommitResponse(topics=topics)


def _groups(brokers: Any) -> ClusterGroups:
    groups = ClusterGroups(brokers)
    groups._coordinators.learn(GROUP, NODE_ID)
    return groups


async def test_all_of_them_where_it_stays() -> None:
    brokers = _OneBroker(0, 0, 0)
    assert await _groups(brokers).try_commit(GROUP, MANY, brokers.may_send) == []
    assert brokers.asked == [1_000, 1_000, 500]


async def test_the_rest_is_not_sent() -> None:
    brokers = _OneBroker(0, None)
    with pytest.raises(_Lost):
        await _groups(brokers).try_commit(GROUP, MANY, brokers.may_send)
    assert brokers.asked == [1_000, 1_000]


async def test_nor_is_what_was_refused_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shim.offsets.cluster.brokers.RETRY_SECONDS", 0.0)
    brokers = _OneBroker(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def lost_by_the_third() -> None:
        if len(brokers.asked) == 2:
            raise _Lost

    with pytest.raises(_Lost):
        await _groups(brokers).try_commit(GROUP, MANY, lost_by_the_third)
    assert brokers.asked == [1_000, 1_000]


async def test_nor_a_deletion() -> None:
    brokers = _OneBroker()
    brokers.is_ours = False
    with pytest.raises(_Lost):
        await _groups(brokers).try_delete(GROUP, list(MANY), brokers.may_send)
    assert brokers.asked == []
