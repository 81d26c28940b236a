"""A commit to the cluster that takes several requests, of a group that comes to be somebody else's amid it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final
from unittest.mock import Mock

import pytest

from protocol.errors import ErrorCode
from protocol.messages import find_coordinator, offset_commit, offset_delete
from protocol.offsets_log import CommittedOffset
from protocol.topic_partition import TopicPartition
from shim.offsets.cluster.brokers import BrokerRefused
from shim.offsets.cluster.groups import ClusterGroups

GROUP: Final = "g"
MANY: Final = {TopicPartition("t", number): CommittedOffset(number, -1, "", 0) for number in range(2_500)}
NODE_ID, SECOND_ID = 1, 2


class _Lost(Exception):
    pass


class _Brokers:
    """Each commit is answered with the next of these codes; None: the group is lost by then. Asked who coordinates it,
    they name the second."""

    addresses: Final[Mapping[int, object]] = {NODE_ID: None, SECOND_ID: None}

    def __init__(self, *codes: int | None) -> None:
        self.asked: list[int] = []
        """How many partitions each request names."""
        self._codes = list(codes)
        self.is_ours = True
        self.node_ids: list[int] = []
        """Whom each of them went to."""

    def may_send(self) -> None:
        if not self.is_ours:
            raise _Lost

    async def newest(self, node_id: int, api: Any, *, at_least: int, at_most: int) -> int:
        return at_most

    async def ask(
        self,
        node_id: int,
        api: Any,
        request: Any,
        *,
        version: int | None = None,
        may_send: Callable[[], None] = lambda: None,
    ) -> Any:
        may_send()
        if api is find_coordinator.API:
            found = find_coordinator.Coordinator(GROUP, SECOND_ID, "", 0, ErrorCode.NONE)
            return find_coordinator.FindCoordinatorResponse(coordinators=(found,))
        self.node_ids.append(node_id)
        if api is offset_delete.API:
            return offset_delete.OffsetDeleteResponse(self._codes.pop(0) or 0, 0, ())
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
    brokers = _Brokers(0, 0, 0)
    assert await _groups(brokers).try_commit(GROUP, MANY, brokers.may_send) == []
    assert brokers.asked == [1_000, 1_000, 500]


async def test_the_rest_is_not_sent() -> None:
    brokers = _Brokers(0, None)
    with pytest.raises(_Lost):
        await _groups(brokers).try_commit(GROUP, MANY, brokers.may_send)
    assert brokers.asked == [1_000, 1_000]


async def test_nor_is_what_was_refused_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shim.offsets.cluster.brokers.RETRY_SECONDS", 0.0)
    brokers = _Brokers(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def lost_by_the_third() -> None:
        if len(brokers.asked) == 2:
            raise _Lost

    with pytest.raises(_Lost):
        await _groups(brokers).try_commit(GROUP, MANY, lost_by_the_third)
    assert brokers.asked == [1_000, 1_000]


async def test_nor_a_deletion() -> None:
    brokers = _Brokers()
    brokers.is_ours = False
    with pytest.raises(_Lost):
        await _groups(brokers).try_delete(GROUP, list(MANY), brokers.may_send)
    assert brokers.asked == []


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
async def test_where_another_broker_coordinates_it_by_now_that_one_is_asked(
    code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the first one for as long as there is patience, while clients of the group wait."""
    monkeypatch.setattr("shim.offsets.cluster.brokers.RETRY_SECONDS", 0.0)
    brokers = _Brokers(0, code, 0, 0)
    assert await _groups(brokers).try_commit(GROUP, MANY) == []
    assert brokers.node_ids == [NODE_ID, NODE_ID, SECOND_ID, SECOND_ID]


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
async def test_so_it_is_with_a_deletion(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shim.offsets.cluster.brokers.RETRY_SECONDS", 0.0)
    brokers = _Brokers(code, 0)
    assert await _groups(brokers).try_delete(GROUP, list(MANY)) == []
    assert brokers.node_ids == [NODE_ID, SECOND_ID]


async def test_to_find_that_one_there_is_no_patience_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where none is known yet when there is none left, whoever waits is told."""
    now = 100.0
    patience = Mock(**{"monotonic.side_effect": lambda: now})
    monkeypatch.setattr("shim.offsets.cluster.brokers.time", patience)
    monkeypatch.setattr("shim.offsets.cluster.brokers.RETRY_SECONDS", 0.0)
    brokers = _Brokers(ErrorCode.NOT_COORDINATOR)
    ask, found = brokers.ask, []

    async def none_known(node_id: int, api: Any, *request: Any, **more: Any) -> Any:
        nonlocal now
        answer = await ask(node_id, api, *request, **more)
        if api is find_coordinator.API:
            found.append(now)
            unknown = answer.coordinators[0]._replace(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
            answer = answer._replace(coordinators=(unknown,))
        now += 5.0
        return answer

    monkeypatch.setattr(brokers, "ask", none_known)
    with pytest.raises(BrokerRefused):
        await _groups(brokers).try_commit(GROUP, MANY)
    assert found == [105.0, 110.0, 115.0]
