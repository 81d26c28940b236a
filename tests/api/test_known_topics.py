"""Commits and deletions for what does not exist, or is not known to; and what waits meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from protocol.api import Api
from protocol.errors import ErrorCode as E
from protocol.messages import metadata, offset_commit, offset_delete, offset_fetch
from protocol.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.own.conditional_commit import NOT_ATTEMPTED, expecting
from shim.api import Services
from shim.api import metadata as metadata_response
from shim.coordinator import GroupCoordinator
from shim.following import Topics
from shim.following.topics.pace import Pace
from tests.api.driving import Client, answer, call, services
from tests.following.believed import QUICK, Brokers, topics_of
from tests.following.test_topics import NAME, A, B, Offsets, confirmed, looked, looking
from tests.waiting import until

GROUP = "g0"


async def shim(brokers: Brokers, state: Any = None, pace: Pace = QUICK) -> tuple[Services, Topics]:
    topics = topics_of(brokers, pace)
    return await services({0: state or GroupCoordinator()}, topics=topics), topics


def commit_request(*wanted: tuple[str, list[int]], generation: int = -1) -> offset_commit.OffsetCommitRequest:
    return offset_commit.OffsetCommitRequest(
        GROUP,
        generation_id_or_member_epoch=generation,
        topics=tuple(
            OffsetCommitRequestTopic(name, partitions=tuple(OffsetCommitRequestPartition(p, 5) for p in partitions))
            for name, partitions in wanted
        ),
    )


def errors_of(response: Any) -> list[tuple[str, dict[int, int]]]:
    return [(t.name, {p.partition_index: p.error_code for p in t.partitions}) for t in response.topics]


async def commit(to: Services, *wanted: tuple[str, list[int]], generation: int = -1) -> list[Any]:
    request = commit_request(*wanted, generation=generation)
    return errors_of(await answer(offset_commit.API, 8, request, to))


async def test_what_exists_is_committed_and_the_rest_refused_first() -> None:
    brokers = Brokers()
    brokers.make("orders", partitions=3)
    to, _ = await shim(brokers)
    unknown = E.UNKNOWN_TOPIC_OR_PARTITION
    assert await commit(to, ("orders", [0, 3, 2, -1]), ("payments", [0, 1])) == [
        ("orders", {3: unknown, -1: unknown, 0: 0, 2: 0}),
        ("payments", {0: unknown, 1: unknown}),
    ]
    fetch = offset_fetch.OffsetFetchRequest(GROUP, None)
    (topic,) = (await answer(offset_fetch.API, 7, fetch, to)).topics
    assert [p.partition_index for p in topic.partitions] == [0, 2]


async def test_what_is_known_is_not_asked_for_again() -> None:
    brokers = Brokers()
    brokers.make("orders")
    to, _ = await shim(brokers)
    for _ in range(3):
        assert await commit(to, ("orders", [0, 2])) == [("orders", {0: 0, 2: 0})]
    assert len(brokers.asked_one) == 1
    brokers.down = {0}
    assert await commit(to, ("orders", [0])) == [("orders", {0: 0})]
    brokers.down = set()
    brokers.make("orders", partitions=4)
    assert await commit(to, ("orders", [3])) == [("orders", {3: 0})]
    assert len(brokers.asked_one) == 2


async def test_nothing_at_all_exists_and_the_group_is_not_even_looked_at() -> None:
    to, _ = await shim(Brokers(), E.NOT_COORDINATOR)
    assert await commit(to, ("orders", [0]), generation=5) == [("orders", {0: E.UNKNOWN_TOPIC_OR_PARTITION})]


async def test_errors_of_the_group_are_for_what_exists() -> None:
    brokers = Brokers()
    brokers.make("orders", partitions=1)
    to, _ = await shim(brokers)
    assert await commit(to, ("orders", [0, 1]), generation=5) == [
        ("orders", {1: E.UNKNOWN_TOPIC_OR_PARTITION, 0: E.ILLEGAL_GENERATION})
    ]
    to, _ = await shim(brokers, E.COORDINATOR_LOAD_IN_PROGRESS)
    assert await commit(to, ("payments", [0]), ("orders", [0])) == [
        ("payments", {0: E.UNKNOWN_TOPIC_OR_PARTITION}),
        ("orders", {0: E.COORDINATOR_LOAD_IN_PROGRESS}),
    ]


async def test_where_nobody_can_say_it_is_committed() -> None:
    brokers = Brokers()
    brokers.down = {0}
    to, _ = await shim(brokers)
    assert await commit(to, ("orders", [0])) == [("orders", {0: 0})]


async def test_of_a_conditional_commit_nothing_is_written() -> None:
    brokers = Brokers()
    brokers.make("orders", partitions=2)
    to, _ = await shim(brokers)
    partitions = (expecting(OffsetCommitRequestPartition(0, 5), -1), OffsetCommitRequestPartition(7, 5))
    request = offset_commit.OffsetCommitRequest(
        GROUP, topics=(OffsetCommitRequestTopic("orders", partitions=partitions),)
    )
    assert errors_of(await answer(offset_commit.API, 8, request, to)) == [
        ("orders", {7: E.UNKNOWN_TOPIC_OR_PARTITION, 0: NOT_ATTEMPTED})
    ]
    fetch = offset_fetch.OffsetFetchRequest(GROUP, None)
    assert (await answer(offset_fetch.API, 7, fetch, to)).topics == ()


async def test_offsets_for_what_does_not_exist_are_not_deleted_by_clients() -> None:
    brokers = Brokers()
    brokers.make("orders", partitions=2)
    to, _ = await shim(brokers)

    async def delete(*partitions: int) -> Any:
        wanted = tuple(map(offset_delete.OffsetDeleteRequestPartition, partitions))
        topics = (offset_delete.OffsetDeleteRequestTopic("orders", wanted),)
        response = await answer(offset_delete.API, 0, offset_delete.OffsetDeleteRequest(GROUP, topics), to)
        return response.error_code, errors_of(response)

    unknown = E.UNKNOWN_TOPIC_OR_PARTITION
    assert await delete(9) == (E.GROUP_ID_NOT_FOUND, [])
    assert await delete(0, 9) == (E.GROUP_ID_NOT_FOUND, [])
    await commit(to, ("orders", [0]))
    assert await delete(9) == (0, [("orders", {9: unknown})])
    assert await delete(0, 9) == (0, [("orders", {9: unknown, 0: 0})])


async def test_a_client_that_is_told_no_ids_commits_for_the_new_topic_only_when_the_old_ones_offsets_are_gone() -> None:
    brokers, offsets = Brokers(2), Offsets(NAME)
    brokers.make(NAME, A)
    to, topics = await shim(brokers, pace=QUICK._replace(wait=5.0, doubt=60.0))
    async with looking(topics, offsets):
        await confirmed(topics, brokers, offsets)
        offsets.may_delete.clear()
        brokers.make(NAME, B)
        told = metadata.MetadataResponseTopic(
            E.NONE, NAME, partitions=(metadata.MetadataResponsePartition(E.NONE, 0, 1),)
        )
        frame = metadata.API.response_frame(9, 7, metadata.MetadataResponse(topics=(told,), cluster_id="c"))
        await metadata_response.rewrite(to, 9, frame)
        committed = asyncio.ensure_future(commit(to, (NAME, [0])))
        await until(lambda: offsets.deleted == [NAME])
        assert not committed.done()
        offsets.may_delete.set()
        assert await committed == [(NAME, {0: 0})]
        await looked(offsets)
    assert offsets.deleted == [NAME]


async def test_a_client_gets_no_id_that_no_broker_shows_to_the_shim_and_commits_go_on() -> None:
    """As if the broker behind it were ahead of all others, or somebody had made the response up."""
    brokers, offsets = Brokers(2), Offsets(NAME)
    brokers.make(NAME, A)
    brokers.make("other", A)
    to, topics = await shim(brokers)
    async with looking(topics, offsets):
        await confirmed(topics, brokers, offsets)
        partitions = (metadata.MetadataResponsePartition(E.NONE, 0, 1),)
        told = tuple(
            metadata.MetadataResponseTopic(E.NONE, name, bytes([B]) * 16, partitions=partitions)
            for name in (NAME, "no concern")
        )
        frame = metadata.API.response_frame(12, 7, metadata.MetadataResponse(topics=told, cluster_id="c"))
        _, response = metadata.API.parse_response(12, await metadata_response.rewrite(to, 12, frame), 4)
        assert [(t.name, t.error_code, len(t.partitions)) for t in response.topics] == [
            (NAME, E.LEADER_NOT_AVAILABLE, 0),
            ("no concern", E.NONE, 1),
        ]
        assert not topics.any_in_doubt
        assert await commit(to, (NAME, [0])) == [(NAME, {0: 0})]
    assert offsets.deleted == []


@pytest.mark.parametrize("settles", [True, False])
async def test_while_a_topic_is_in_doubt_its_offsets_are_neither_read_nor_written(settles: bool) -> None:
    brokers, offsets = Brokers(2), Offsets(NAME)
    brokers.make(NAME, A)
    to, topics = await shim(brokers, pace=QUICK._replace(wait=5.0 if settles else 0.02, doubt=60.0))
    async with looking(topics, offsets):
        await confirmed(topics, brokers, offsets)
        assert await commit(to, (NAME, [0])) == [(NAME, {0: 0})]
        brokers.make(NAME, B, at=[1])
        # As a client is told.
        told = metadata.MetadataResponseTopic(
            E.NONE, NAME, bytes([B]) * 16, partitions=(metadata.MetadataResponsePartition(E.NONE, 0, 1),)
        )
        frame = metadata.API.response_frame(12, 7, metadata.MetadataResponse(topics=(told,), cluster_id="c"))
        await metadata_response.rewrite(to, 12, frame)
        clients = [Client() for _ in range(3)]
        one = (offset_fetch.OffsetFetchRequestTopic(NAME, (0,)),)
        asked: list[tuple[Api[Any, Any], Any]] = [
            (offset_commit.API, commit_request((NAME, [0]))),
            (offset_fetch.API, offset_fetch.OffsetFetchRequest(GROUP, None)),
            (offset_fetch.API, offset_fetch.OffsetFetchRequest(GROUP, one)),
        ]
        waiting = []
        for (api, request), client in zip(asked, clients, strict=True):
            frames: list[bytes] = []
            served, made = call(api, 7, api.request_frame(7, 7, "me", request), client, frames.append)
            waiting.append((asyncio.ensure_future(served.handle(to, made)), api, frames))  # type: ignore[arg-type]
            assert client.paused, "later requests of the connection wait"
        other = offset_fetch.OffsetFetchRequest(GROUP, (offset_fetch.OffsetFetchRequestTopic("other", (0,)),))
        assert (await answer(offset_fetch.API, 7, other, to)).error_code == 0
        if settles:
            brokers.make(NAME, B)
        codes = []
        for task, api, frames in waiting:
            await task
            _, response = api.parse_response(7, frames[0], 4)
            codes.append(response.error_code if api is offset_fetch.API else errors_of(response)[0][1][0])
        assert codes == [0 if settles else E.COORDINATOR_LOAD_IN_PROGRESS] * 3
        assert offsets.deleted == ([NAME] if settles else [])
        assert not any(client.paused for client in clients)
        await until(lambda: settles == (not topics.blocked(None)))


async def test_a_fetch_that_has_waited_for_one_topic_is_not_told_of_another_that_is_in_doubt_by_then() -> None:
    brokers = Brokers()
    to, topics = await shim(brokers)
    for name in ("a", "b"):
        brokers.make(name)
        assert await commit(to, (name, [0])) == [(name, {0: 0})]
    doubts = vars(topics)["_doubts"]
    doubts.begin("a", 3, blocks=True)
    wanted = tuple(offset_fetch.OffsetFetchRequestTopic(name, (0,)) for name in ("a", "b"))
    fetched = asyncio.ensure_future(answer(offset_fetch.API, 7, offset_fetch.OffsetFetchRequest(GROUP, wanted), to))
    await asyncio.sleep(0)
    doubts.begin("b", 3, blocks=True)
    doubts.end("a")
    assert (await fetched).error_code == E.COORDINATOR_LOAD_IN_PROGRESS


async def test_what_a_client_is_told_of_other_topics_is_passed_over() -> None:
    brokers = Brokers()
    to, topics = await shim(brokers)
    brokers.make("orders", A)
    await commit(to, ("orders", [0]))
    brokers.make("orders", A, partitions=9)
    await topics.look_at({"orders": bytes([A]) * 16})
    assert topics.partition_counts == {"orders": 9}
