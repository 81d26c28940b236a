"""Before a client is told of a topic the other processes that have offsets partitions look at it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, cast

import pytest

from protocol.errors import ErrorCode
from protocol.messages import metadata
from protocol.wire import ZERO_UUID
from shim.api import Call, Served
from shim.api.metadata import rewrite
from shim.api.topics_elsewhere import LOOKS, TopicsElsewhere
from shim.forwarding import Asked, Peer, Peers, Request
from tests.api.driving import Client, services
from tests.api.test_known_topics import shim
from tests.following.believed import Brokers
from tests.following.test_topics import NAME

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


@pytest.mark.parametrize("deleted", [False, True])
async def test_that_topics_were_deleted_is_told_from_that_they_are_to_be_looked_at(deleted: bool) -> None:
    """A deletion was answered, and no broker has it: so it is gone, though there is no id."""
    brokers = Brokers()
    brokers.make(NAME, 0)
    to, topics = await shim(brokers)
    await topics.partitions_of([NAME])
    brokers.delete(NAME)

    class There(Others):
        def forward(self, peer: Peer, request: Request, asked: Asked) -> None:
            version = int.from_bytes(request.frame[6:8], "big")
            _, wanted = metadata.API.parse_request(version, request.frame, 4)
            answering.append(asyncio.ensure_future(self._answered(version, wanted, asked)))

        async def _answered(self, version: int, wanted: metadata.MetadataRequest, asked: Asked) -> None:
            served = LOOKS[metadata.API.key << 16 | version].disposition
            assert isinstance(served, Served)
            frame = metadata.API.request_frame(version, 0, "", wanted)
            handled = served.handle(to, Call(served, version, frame, Client(), asked.answered))
            assert handled is not None
            await handled

    answering: list[asyncio.Future[None]] = []
    others = There(lambda peer, ids: set())
    others.owners = ("a",)
    at = TopicsElsewhere(cast(Peers, others), 1)
    if deleted:
        await at.looked_for([NAME])
    else:
        assert await at.looked_at({NAME: ZERO_UUID}, has_ids=False) == set()
    assert len(answering) == 1
    assert topics.any_in_doubt
    assert topics.blocked([NAME]) == ([NAME] if deleted else [])


@pytest.mark.parametrize("version", [9, 12])
async def test_a_client_is_not_told_of_what_one_was_not_shown(version: int) -> None:
    asked: list[bool] = []

    class NotShown:
        async def looked_at(self, ids: Mapping[str, bytes], *, has_ids: bool) -> set[str]:
            asked.append(has_ids)
            await asyncio.sleep(0)
            return {"orders"} if has_ids else set()

        async def looked_for(self, deleted: Iterable[str]) -> None:
            raise AssertionError

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
