"""A client that makes or deletes topics is told so when the shim has noticed it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import pytest

from protocol.api import Api
from protocol.errors import ErrorCode as E
from protocol.messages import create_topics, delete_topics, offset_fetch
from protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from protocol.wire import ZERO_UUID
from shim.api import ROUTES, Rewritten, Services
from shim.upstream.cluster_topics import View
from tests.api.driving import answer
from tests.api.test_known_topics import GROUP, commit, shim
from tests.following.believed import QUICK, Brokers
from tests.following.test_topics import NAME, A, B, Offsets, confirmed, looked, looking
from tests.waiting import until

LASTING = QUICK._replace(round=60.0, doubt=60.0, wait=5.0)
"""What is not settled at once stays in doubt."""


def made(version: int, topic_id: int = B, error: E = E.NONE) -> tuple[Api[Any, Any], int, CreateTopicsResponse]:
    its = bytes([topic_id]) * 16 if version >= 7 else ZERO_UUID
    return create_topics.API, version, CreateTopicsResponse(topics=(CreatableTopicResult(NAME, its, error),))


def gone(version: int, error: E = E.NONE) -> tuple[Api[Any, Any], int, DeleteTopicsResponse]:
    its = bytes([A]) * 16 if version >= 6 else ZERO_UUID
    return delete_topics.API, version, DeleteTopicsResponse(responses=(DeletableTopicResult(NAME, its, error),))


async def told(to: Services, api: Api[Any, Any], version: int, response: Any) -> None:
    """A client is: the response comes to it as it is."""
    route = ROUTES[api.key << 16 | version].disposition
    assert isinstance(route, Rewritten)
    frame = api.response_frame(version, 7, response)
    passed_on = route.rewrite(to, version, frame)
    assert (passed_on if isinstance(passed_on, bytes) else await passed_on) == frame


async def fetched(to: Services) -> int:
    """The error code."""
    wanted = offset_fetch.OffsetFetchRequest(GROUP, (offset_fetch.OffsetFetchRequestTopic(NAME, (0,)),))
    code: int = (await answer(offset_fetch.API, 7, wanted, to)).error_code
    return code


@pytest.mark.parametrize("version", [2, 7])
@pytest.mark.parametrize("left", ["the old one", "none"])
async def test_that_one_was_made_is_told_when_a_broker_shows_it(version: int, left: str) -> None:
    brokers, offsets = Brokers(2), Offsets(NAME)
    brokers.make(NAME, A)
    to, topics = await shim(brokers, pace=LASTING)
    async with looking(topics, offsets):
        await confirmed(topics, brokers, offsets)
        offsets.may_delete.clear()
        if left == "none":
            brokers.delete(NAME)
        telling = asyncio.ensure_future(told(to, *made(version)))
        await until(lambda: len(brokers.asked_each) > 1)
        assert not telling.done()
        brokers.make(NAME, B, at=[1])
        await telling
        assert topics.blocked([NAME]) == [NAME]


@pytest.mark.parametrize("version", [1, 6])
async def test_that_one_was_deleted_is_told_when_no_broker_shows_it(version: int) -> None:
    brokers, offsets = Brokers(2), Offsets(NAME)
    brokers.make(NAME, A)
    to, topics = await shim(brokers, pace=LASTING)
    async with looking(topics, offsets):
        await confirmed(topics, brokers, offsets)
        brokers.delete(NAME, at=[0])
        telling = asyncio.ensure_future(told(to, *gone(version)))
        await until(lambda: len(brokers.asked_each) > 1)
        assert not telling.done()
        brokers.delete(NAME)
        await telling
        assert topics.any_in_doubt
        # It is made anew at once, which one broker has heard of.
        brokers.make(NAME, B, at=[1])
        await told(to, *made(4))
        assert topics.blocked([NAME]) == [NAME]


NO_ID = 0
"""At brokers before 2.8."""


async def test_without_ids_one_that_was_deleted_is_gone_whatever_is_seen_later() -> None:
    brokers, offsets = Brokers(2), Offsets(NAME)
    brokers.make(NAME, NO_ID)
    to, topics = await shim(brokers, pace=QUICK._replace(round=0.2, doubt=60.0, wait=5.0))
    async with looking(topics, offsets):
        await until(lambda: NAME in topics.partition_counts)
        brokers.delete(NAME, at=[0])
        telling = asyncio.ensure_future(told(to, *gone(1)))
        await until(lambda: len(brokers.asked_each) > 1)
        assert not telling.done(), "one broker still shows it"
        brokers.delete(NAME)
        await telling
        assert topics.blocked([NAME]) == [NAME]
        # Before all brokers have been asked for it a second time.
        brokers.make(NAME, NO_ID)
        await told(to, *made(4))
        assert await commit(to, (NAME, [0])) == [(NAME, {0: E.NONE})]
        assert offsets.deleted == [NAME]
        offsets.names.add(NAME)
        await looked(offsets)
        assert not topics.any_in_doubt
    assert offsets.deleted == [NAME], "what was committed for the new one stays"


@pytest.mark.parametrize("why", ["it is there already", "a broker does not answer"])
async def test_without_ids_what_may_be_committed_for_another_one_is_not_deleted(
    why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else has made it anew before the shim has heard that it was deleted, and committed."""
    monkeypatch.setattr("shim.api.changed_topics._AGAIN_FOR_SECONDS", 0.05)
    brokers, offsets = Brokers(3), Offsets(NAME)
    brokers.make(NAME, NO_ID)
    to, topics = await shim(brokers, pace=QUICK._replace(doubt=60.0))
    async with looking(topics, offsets):
        await until(lambda: NAME in topics.partition_counts)
        if why == "a broker does not answer":
            brokers.delete(NAME, at=[0, 1])
            brokers.down = {2}
        assert await commit(to, (NAME, [0])) == [(NAME, {0: E.NONE})]
        await told(to, *gone(1))
        assert topics.blocked(None) == []
        brokers.down = set()
        brokers.make(NAME, NO_ID)
        await until(lambda: NAME in topics.partition_counts)
        await looked(offsets)
    assert offsets.deleted == []


async def test_while_brokers_are_asked_whether_one_was_deleted_nothing_is_committed() -> None:
    class Slow(Brokers):
        async def each(self, names: Collection[str]) -> list[View | None]:
            views = await super().each(names)
            await may_answer.wait()
            return views

    may_answer = asyncio.Event()
    brokers, offsets = Slow(), Offsets(NAME)
    brokers.make(NAME, NO_ID)
    to, topics = await shim(brokers, pace=QUICK._replace(doubt=60.0, wait=0.05))
    async with looking(topics, offsets):
        await until(lambda: NAME in topics.partition_counts)
        brokers.unclear = {NAME}  # so nobody says that it is there
        telling = asyncio.ensure_future(told(to, *gone(1)))
        await until(lambda: bool(brokers.asked_each))
        assert await commit(to, (NAME, [0])) == [(NAME, {0: E.COORDINATOR_LOAD_IN_PROGRESS})]
        assert await fetched(to) == E.COORDINATOR_LOAD_IN_PROGRESS
        may_answer.set()
        await telling
        assert await commit(to, (NAME, [0])) == [(NAME, {0: E.NONE})]
    assert offsets.deleted == []


async def test_one_that_was_deleted_and_is_another_one_already_is_noticed() -> None:
    brokers, offsets = Brokers(2), Offsets(NAME)
    brokers.make(NAME, A)
    to, topics = await shim(brokers, pace=LASTING)
    async with looking(topics, offsets):
        await confirmed(topics, brokers, offsets)
        offsets.may_delete.clear()
        brokers.make(NAME, B)
        await told(to, *gone(1))
        assert topics.blocked([NAME]) == [NAME]
        assert len(brokers.asked_each) == 1


@pytest.mark.parametrize("why", ["the brokers are behind", "none answers"])
async def test_what_no_broker_shows_in_time_is_told_and_no_offset_is_served_until_they_agree(
    why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shim.api.changed_topics._AGAIN_FOR_SECONDS", 0.05)
    brokers, offsets = Brokers(2), Offsets(NAME)
    brokers.make(NAME, A)
    to, topics = await shim(brokers, pace=QUICK._replace(wait=0.05, doubt=60.0))
    async with looking(topics, offsets):
        await confirmed(topics, brokers, offsets)
        assert await commit(to, (NAME, [0])) == [(NAME, {0: E.NONE})]
        if why == "none answers":
            brokers.down = {0, 1}
        await told(to, *made(4))
        assert topics.blocked([NAME]) == [NAME]
        if why == "none answers":
            assert await fetched(to) == E.COORDINATOR_LOAD_IN_PROGRESS
            assert offsets.deleted == []
        brokers.down = set()
        brokers.make(NAME, B)
        await until(lambda: offsets.deleted == [NAME])
        await until(lambda: topics.blocked(None) == [])
        offsets.names.add(NAME)  # a commit for the new one
        await looked(offsets)
    assert offsets.deleted == [NAME]


async def test_a_client_that_has_left_before_it_was_told_changes_nothing() -> None:
    brokers, offsets = Brokers(2), Offsets(NAME)
    brokers.make(NAME, A)
    to, topics = await shim(brokers, pace=LASTING)
    async with looking(topics, offsets):
        await confirmed(topics, brokers, offsets)
        brokers.down = {0, 1}
        telling = asyncio.ensure_future(told(to, *made(4)))
        await until(lambda: bool(brokers.asked_each))
        telling.cancel()
        await asyncio.wait([telling])
        assert topics.blocked([NAME]) == [NAME]


@pytest.mark.parametrize(
    "response", [made(7, error=E.TOPIC_ALREADY_EXISTS), gone(6, error=E.UNKNOWN_TOPIC_OR_PARTITION)]
)
async def test_what_did_not_succeed_is_told_at_once(response: Any) -> None:
    brokers = Brokers()
    brokers.make(NAME, A)
    to, topics = await shim(brokers)
    await topics.partitions_of([NAME])
    await told(to, *response)
    assert brokers.asked_each == []


@pytest.mark.parametrize("response", [made(2), made(7), gone(1), gone(6)])
async def test_what_is_no_concern_is_told_at_once(response: Any) -> None:
    brokers = Brokers()
    to, topics = await shim(brokers)
    await told(to, *response)
    assert brokers.asked_each == []
    assert not topics.any_in_doubt


async def test_what_the_shim_may_not_see_is_told_at_once() -> None:
    brokers = Brokers()
    brokers.make(NAME, A)
    to, topics = await shim(brokers)
    await topics.partitions_of([NAME])
    brokers.unclear = {NAME}
    for response in (gone(1), made(7)):
        await told(to, *response)
    assert len(brokers.asked_each) == 2
    assert topics.blocked(None) == []


@pytest.mark.parametrize("api", [create_topics.API, delete_topics.API])
async def test_what_cannot_be_read_is_passed_on_as_it_is(api: Api[Any, Any]) -> None:
    to, _ = await shim(Brokers())
    route = ROUTES[api.key << 16 | 4].disposition
    assert isinstance(route, Rewritten)
    frame = bytes([0, 0, 0, 5, 0, 0, 0, 7, 99])
    assert route.rewrite(to, 4, frame) == frame


async def test_the_other_processes_look_when_a_broker_has_shown_it_here() -> None:
    """Also at what is no concern of this one."""
    asked: list[tuple[dict[str, bytes], bool]] = []

    class Elsewhere:
        async def looked_at(self, ids: Mapping[str, bytes], *, has_ids: bool) -> set[str]:
            asked.append((dict(ids), has_ids))
            return set()

        async def looked_for(self, deleted: Iterable[str]) -> None:
            raise AssertionError

    brokers = Brokers(2)
    to, topics = await shim(brokers)
    to = to._replace(elsewhere=Elsewhere())
    telling = asyncio.ensure_future(told(to, *made(7)))
    await until(lambda: len(brokers.asked_each) > 1)
    assert asked == []
    brokers.make(NAME, B, at=[1])
    await telling
    assert asked == [({NAME: ZERO_UUID}, False)]
    assert topics.partition_counts == {}
    assert not topics.any_in_doubt
