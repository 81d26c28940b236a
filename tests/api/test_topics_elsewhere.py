"""Before a client is told of a topic the other processes that have offsets partitions look at it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

import pytest

from protocol.errors import ErrorCode
from protocol.messages import metadata
from protocol.wire import ZERO_UUID
from shim.api.metadata import rewrite
from shim.api.topics_elsewhere import TopicsElsewhere
from shim.forwarding import Asked, Peer, Peers, Request
from tests.api.driving import services

FIRST, SECOND = bytes([1]) * 16, bytes([2]) * 16
OWNERS: Final[Sequence[Peer | None]] = (None, "a", "b", "a")
"""Of each partition; the first is this process's."""

_Told = Callable[[Peer, Mapping[str, bytes]], set[str] | None]


class Others:
    """``told``: what one has not been shown, of these; None where it does not answer."""

    def __init__(self, told: _Told) -> None:
        self.asked: list[tuple[Peer, dict[str, bytes]]] = []
        self.misled: list[Peer] = []
        self.owners = OWNERS
        self._told = told

    def owner_of(self, number: int) -> Peer | None:
        return self.owners[number]

    def forward(self, peer: Peer, request: Request, asked: Asked) -> None:
        version = int.from_bytes(request.frame[6:8], "big")
        _, wanted = metadata.API.parse_request(version, request.frame, 4)
        ids = {each.name: each.topic_id for each in wanted.topics or () if each.name is not None}
        self.asked.append((peer, ids))
        unseen = self._told(peer, ids)
        if unseen is None:
            asked.failed(ErrorCode.NOT_COORDINATOR)
            return
        topics = tuple(metadata.MetadataResponseTopic(ErrorCode.LEADER_NOT_AVAILABLE, name) for name in sorted(unseen))
        asked.answered(metadata.API.response_frame(version, 0, metadata.MetadataResponse(topics=topics)))

    def misanswered(self, peer: Peer) -> None:
        self.misled.append(peer)

    def whom(self) -> list[Peer]:
        """Was asked since the last time."""
        asked, self.asked = self.asked, []
        return sorted((peer for peer, _ in asked), key=str)


def elsewhere(others: Others) -> TopicsElsewhere:
    return TopicsElsewhere(cast(Peers, others), len(OWNERS))


async def test_each_is_asked_once_of_each_id() -> None:
    others = Others(lambda peer, ids: set())
    at = elsewhere(others)
    assert await at.looked_at({"orders": FIRST, "old": ZERO_UUID}, has_ids=True) == set()
    assert sorted(others.asked, key=str) == [("a", {"orders": FIRST}), ("b", {"orders": FIRST})]
    others.whom()
    assert await at.looked_at({"orders": FIRST}, has_ids=True) == set()
    assert others.whom() == []
    assert await at.looked_at({"orders": SECOND}, has_ids=True) == set()
    assert others.whom() == ["a", "b"]


async def test_who_has_partitions_since_then_is_asked_too() -> None:
    others = Others(lambda peer, ids: set())
    others.owners = (None,) * len(OWNERS)
    at = elsewhere(others)
    assert await at.looked_at({"orders": FIRST}, has_ids=True) == set()
    assert others.whom() == []
    others.owners = (None, "c", None, None)
    assert await at.looked_at({"orders": FIRST}, has_ids=True) == set()
    assert others.whom() == ["c"]


async def test_what_one_was_not_shown_is_asked_again() -> None:
    others = Others(lambda peer, ids: {"orders"} if peer == "b" else set())
    at = elsewhere(others)
    for _ in range(2):
        assert await at.looked_at({"orders": FIRST, "bills": FIRST}, has_ids=True) == {"orders"}
        assert others.whom() == ["a", "b"]
    assert await at.looked_at({"bills": FIRST}, has_ids=True) == set()
    assert others.whom() == []


async def test_who_does_not_answer_is_passed_over_and_asked_again() -> None:
    others = Others(lambda peer, ids: {"orders"} if peer == "a" else None)
    at = elsewhere(others)
    for _ in range(2):
        assert await at.looked_at({"orders": FIRST, "bills": FIRST}, has_ids=True) == {"orders"}
        assert others.whom() == ["a", "b"]


async def test_where_there_are_no_ids_they_look_each_time() -> None:
    others = Others(lambda peer, ids: set())
    at = elsewhere(others)
    for _ in range(2):
        assert await at.looked_at({"orders": ZERO_UUID}, has_ids=False) == set()
        assert others.whom() == ["a", "b"]


@pytest.mark.parametrize("version", [9, 12])
async def test_a_client_is_not_told_of_what_one_was_not_shown(version: int) -> None:
    asked: list[bool] = []

    class NotShown:
        async def looked_at(self, ids: Mapping[str, bytes], *, has_ids: bool) -> set[str]:
            asked.append(has_ids)
            await asyncio.sleep(0)
            return {"orders"} if has_ids else set()

    to = (await services())._replace(elsewhere=NotShown())
    partitions = (metadata.MetadataResponsePartition(0, 0, 1),)
    topics = tuple(
        metadata.MetadataResponseTopic(0, name, FIRST if version == 12 else ZERO_UUID, partitions=partitions)
        for name in ("orders", "bills")
    )
    frame = metadata.API.response_frame(version, 7, metadata.MetadataResponse(topics=topics))
    told: Any = metadata.API.parse_response(version, await rewrite(to, version, frame), 4)[1]
    errors = {each.name: (each.error_code, len(each.partitions)) for each in told.topics}
    not_now = (ErrorCode.LEADER_NOT_AVAILABLE, 0)
    assert errors == {"orders": not_now if version == 12 else (0, 1), "bills": (0, 1)}
    assert asked == [version == 12]
