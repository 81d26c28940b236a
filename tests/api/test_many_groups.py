"""OffsetFetch and DescribeGroups of many groups: a small request cannot keep all others waiting."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable
from itertools import pairwise
from typing import Any, cast

import pytest

from protocol.errors import ErrorCode
from protocol.messages import describe_groups, offset_fetch
from protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember, DescribeGroupsRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from shim.api import Services, many_groups
from shim.coordinator import GroupCoordinator
from shim.following import TopicInDoubt, Topics
from tests.api.driving import Client, answer, services
from tests.coordinator.driving import CALLER, START

E = ErrorCode
LOADING = E.COORDINATOR_LOAD_IN_PROGRESS
SIZE = 1 << 10  # of what a group has, nearly


class Counting:
    """A coordinator in which every group has a KiB to tell; it counts how often it was asked about each."""

    def __init__(self, client: Client) -> None:
        self.asked: Counter[str] = Counter()
        self._client = client

    def offset_fetch(self, group: OffsetFetchRequestGroup, *, require_stable: bool) -> OffsetFetchResponseGroup:
        self._count(group.group_id)
        partitions = 1 if group.topics is None else sum(len(topic.partition_indexes) for topic in group.topics)
        found = tuple(OffsetFetchResponsePartitions(p, 42, 3, "m" * SIZE) for p in range(partitions))
        return OffsetFetchResponseGroup(group.group_id, (OffsetFetchResponseTopics("t", partitions=found),))

    def describe_group(self, group_id: str, version: int) -> DescribedGroup:
        self._count(group_id)
        members = (DescribedGroupMember("m", None, "c", "/127.0.0.1", b"", b"a" * SIZE),)
        return DescribedGroup(E.NONE, group_id=group_id, group_state="Stable", members=members)

    def _count(self, group_id: str) -> None:
        assert self._client.paused, "what the client has sent behind it is decided behind it"
        self.asked[group_id] += 1


class Asking:
    """One of both APIs, and what of its answers both have."""

    def __init__(self, api: Any) -> None:
        self.api = api

    def request(self, groups: Iterable[str]) -> tuple[int, Any]:
        if self.api is describe_groups.API:
            return 5, DescribeGroupsRequest(tuple(groups))
        return 8, OffsetFetchRequest(groups=tuple(OffsetFetchRequestGroup(group, topics=None) for group in groups))

    async def __call__(self, groups: Iterable[str], to: Services, client: Client) -> list[tuple[str, int, bool]]:
        """Of each group its name, the error, and whether it has anything to tell."""
        told = await answer(self.api, *self.request(groups), to, client)
        return [
            (group.group_id, group.error_code, bool(group.members if hasattr(group, "members") else group.topics))
            for group in told.groups
        ]


BOTH = pytest.mark.parametrize(
    "ask", [Asking(offset_fetch.API), Asking(describe_groups.API)], ids=["fetch", "describe"]
)


@BOTH
async def test_a_group_that_is_named_often_is_decided_once_and_answered_each_time(ask: Asking) -> None:
    client = Client()
    counting = Counting(client)
    groups = ["a-0", "b-0", "a-0", "a-0", "b-0"]
    told = await ask(groups, await services({0: counting}), client)
    assert told == [(group, E.NONE, True) for group in groups]
    assert counting.asked == {"a-0": 1, "b-0": 1}


@BOTH
async def test_a_failure_is_told_each_time_too(ask: Asking) -> None:
    client = Client()
    told = await ask(["a-0", "b-1", "a-0"], await services({0: LOADING, 1: Counting(client)}), client)
    assert told == [("a-0", LOADING, False), ("b-1", E.NONE, True), ("a-0", LOADING, False)]


async def test_the_same_group_with_other_topics_is_another_question() -> None:
    client = Client()
    counting = Counting(client)
    asked = [(0, 1), (0,), (0, 1), (0, 1, 2)]
    groups = tuple(
        OffsetFetchRequestGroup(
            "a-0", member_id=f"{number}", topics=(OffsetFetchRequestTopics("t", partition_indexes=at),)
        )
        for number, at in enumerate(asked)
    )
    told = await answer(offset_fetch.API, 9, OffsetFetchRequest(groups=groups), await services({0: counting}), client)
    assert [len(group.topics[0].partitions) for group in told.groups] == [2, 1, 2, 3]
    assert counting.asked == {"a-0": 3}


@BOTH
@pytest.mark.parametrize("named", ["each", "one"])
async def test_the_response_has_an_end_and_the_groups_behind_it_are_to_be_asked_for_again(
    ask: Asking, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(many_groups, "RESPONSE_BYTES", 100 * SIZE)
    client = Client()
    counting = Counting(client)
    groups = [f"{number if named == 'each' else ''}-0" for number in range(10_000)]
    told = await ask(groups, await services({0: counting}), client)
    assert [group for group, _, _ in told] == groups
    done = [group for group, error, has in told if error == E.NONE and has]
    assert groups[: len(done)] == done
    assert 90 <= len(done) <= 100
    assert {(error, has) for _, error, has in told[len(done) :]} == {(LOADING, False)}
    assert sum(counting.asked.values()) == (len(done) if named == "each" else 1)


@BOTH
async def test_the_first_group_is_answered_however_much_it_has(ask: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many_groups, "RESPONSE_BYTES", 10)
    client = Client()
    told = await ask(["a-0", "b-0"], await services({0: Counting(client)}), client)
    assert told == [("a-0", E.NONE, True), ("b-0", LOADING, False)]


@BOTH
@pytest.mark.parametrize("named", ["each", "one"])
async def test_others_have_their_turn_meanwhile(ask: Asking, named: str) -> None:
    client = Client()
    counting = Counting(client)
    turns: list[int] = []

    async def another() -> None:
        while True:
            turns.append(sum(counting.asked.values()))
            await asyncio.sleep(0)

    beside = asyncio.create_task(another())
    groups = [f"{number if named == 'each' else ''}-0" for number in range(4_000)]
    await ask(groups, await services({0: counting}), client)
    beside.cancel()
    seen = [after - before for before, after in pairwise(turns)]
    assert len(turns) > (70 if named == "each" else 10)
    assert max(seen) < 100


async def test_a_fetch_of_one_group_ten_thousand_times_is_one_decision_and_a_bounded_response() -> None:
    coordinator = GroupCoordinator()
    fetched = 0

    class Fetching:
        def offset_fetch(self, group: OffsetFetchRequestGroup, *, require_stable: bool) -> OffsetFetchResponseGroup:
            nonlocal fetched
            fetched += 1
            return coordinator.offset_fetch(group, require_stable=require_stable)

    commit(coordinator, "d-0", 1_000)
    groups = (OffsetFetchRequestGroup("d-0", topics=None),) * 10_000
    frame = offset_fetch.API.request_frame(8, 7, "c", OffsetFetchRequest(groups=groups))
    assert len(frame) < 100_000
    told = await answer(offset_fetch.API, 8, OffsetFetchRequest(groups=groups), await services({0: Fetching()}))
    assert fetched == 1
    response = len(offset_fetch.API.response_frame(8, 7, told))
    assert many_groups.RESPONSE_BYTES < response < many_groups.RESPONSE_BYTES + 500_000
    assert {group.error_code for group in told.groups} == {E.NONE, LOADING}


def commit(coordinator: GroupCoordinator, group: str, partitions: int) -> None:
    of_topic = tuple(OffsetCommitRequestPartition(p, 5) for p in range(partitions))
    request = OffsetCommitRequest(group, topics=(OffsetCommitRequestTopic("t", partitions=of_topic),))
    coordinator.offset_commit(START, CALLER, 8, request, "asker")


class Doubting:
    """Topics of which one, ``t``, is in doubt when the test says so; waiting for it has an end, or none."""

    def __init__(self, *, ends: bool) -> None:
        self.doubted = True
        self._ends = ends

    def blocked(self, names: Iterable[str] | None) -> list[str]:
        return ["t"] if self.doubted else []

    async def certain(self, names: Collection[str]) -> None:
        if not names:
            return
        assert set(names) == {"t"}
        if not self._ends:
            raise TopicInDoubt
        await asyncio.sleep(0)
        self.doubted = False


@pytest.mark.parametrize("ends", [True, False])
async def test_of_a_topic_in_doubt_nothing_is_told(ends: bool) -> None:
    client = Client()
    topics = cast(Topics, Doubting(ends=ends))
    told = await Asking(offset_fetch.API)(["a-0", "b-0"], await services({0: Counting(client)}, topics=topics), client)
    assert told == [(group, E.NONE if ends else LOADING, ends) for group in ("a-0", "b-0")]


async def test_nor_where_the_doubt_comes_up_between_two_of_the_groups() -> None:
    client = Client()
    topics = Doubting(ends=True)
    topics.doubted = False

    class Last(Counting):
        def offset_fetch(self, group: OffsetFetchRequestGroup, *, require_stable: bool) -> OffsetFetchResponseGroup:
            topics.doubted = group.group_id == "b-0"
            return super().offset_fetch(group, require_stable=require_stable)

    to = await services({0: Last(client)}, topics=cast(Topics, topics))
    told = await Asking(offset_fetch.API)(["a-0", "b-0", "c-0"], to, client)
    assert told == [("a-0", E.NONE, True), ("b-0", E.NONE, True), ("c-0", LOADING, False)]
