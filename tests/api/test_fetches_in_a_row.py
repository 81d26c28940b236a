"""Offset fetches that come together are answered as they are one by one, or left to be taken one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import ErrorCode
from protocol.messages import heartbeat, offset_fetch
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue
from protocol.own.position import Position
from shim.api import ROUTES, Services, fetches_in_a_row
from shim.coordinator import Caller, CoordinatorSettings, FollowedBatch, GroupCoordinator
from tests.api.driving import Client, call, services
from tests.api.test_authorization import GROUP, answered
from tests.following.believed import Brokers, topics_of
from tests.security.authorizers import AUTHORIZER

API = offset_fetch.API
VERSIONS = range(1, 10)
MANY = 8  # groups, from this version on
GROUPS = ("group-0", "other-0", "nobody-0")
TOPICS = ("t", "u")
CALLER = Caller("me", "/127.0.0.1", "")


@pytest.fixture(autouse=True)
def nothing_asked_before() -> None:
    fetches_in_a_row._ASKED.clear()


def committed(coordinator: GroupCoordinator, group: str, topic: str, offset: int, metadata: str | None = "m") -> None:
    """In partitions 0 to 2."""
    partitions = tuple(OffsetCommitRequestPartition(p, offset + p, 3, committed_metadata=metadata) for p in range(3))
    request = OffsetCommitRequest(group, topics=(OffsetCommitRequestTopic(topic, partitions=partitions),))
    coordinator.offset_commit(0, CALLER, 9, request, object())


def coordinator() -> GroupCoordinator:
    made = GroupCoordinator()
    for number, group in enumerate(GROUPS[:2]):
        for topic in TOPICS:
            committed(made, group, topic, 100 * number)
    return made


def frame(
    version: int,
    number: int,
    groups: Sequence[str],
    topics: Sequence[tuple[str, Sequence[int]]] | None,
    *,
    stable: bool = False,
) -> bytes:
    """`topics` None: all, which older versions than 2 cannot ask for."""
    if version >= MANY:
        of_group = (
            None
            if topics is None
            else tuple(offset_fetch.OffsetFetchRequestTopics(n, partition_indexes=tuple(ps)) for n, ps in topics)
        )
        request = offset_fetch.OffsetFetchRequest(
            groups=tuple(offset_fetch.OffsetFetchRequestGroup(group, topics=of_group) for group in groups),
            require_stable=stable,
        )
    else:
        of_one = (
            None if topics is None else tuple(offset_fetch.OffsetFetchRequestTopic(n, tuple(ps)) for n, ps in topics)
        )
        request = offset_fetch.OffsetFetchRequest(groups[0], of_one, require_stable=stable and version == MANY - 1)
    return API.request_frame(version, number, "watcher", request)


def one_by_one(to: Services, version: int, frames: Sequence[bytes]) -> list[bytes]:
    answers: list[bytes] = []
    for each in frames:
        served, made = call(API, version, each, Client(), answers.append)
        assert served.handle(to, made) is None
    return answers


def several(to: Services, client: Client, data: bytes, position: int = 0, most: int = 1000) -> int:
    version = int.from_bytes(data[position + 6 : position + 8], "big")
    taken = ROUTES[API.key << 16 | version].several
    assert taken is not None
    return taken(to, client, data, position, most)


QUESTIONS = st.tuples(
    st.sampled_from(GROUPS),
    st.one_of(
        st.none(),
        st.lists(st.tuples(st.sampled_from(TOPICS), st.lists(st.integers(0, 4), max_size=4)), max_size=2),
    ),
    st.booleans(),
)


@given(st.sampled_from(VERSIONS), st.lists(st.one_of(QUESTIONS, st.none()), min_size=1, max_size=12))
async def test_they_are_answered_as_one_by_one(
    version: int, asked: list[tuple[str, list[tuple[str, list[int]]] | None, bool] | None]
) -> None:
    """None stands for a commit, between two reads: what is known of the question before is out of date."""
    group_coordinator = coordinator()
    to = await services({0: group_coordinator})
    runs: list[list[bytes]] = [[]]
    for number, question in enumerate(asked):
        if question is None:
            runs.append([])
        else:
            group, topics, stable = question
            all_of_one = topics is None and version < 2
            runs[-1].append(frame(version, number, [group], [] if all_of_one else topics, stable=stable))
    for number, frames in enumerate(runs):
        committed(group_coordinator, GROUPS[0], TOPICS[0], 1_000 + number)
        if not frames:
            continue
        client, data = Client(), b"before" + b"".join(frames)
        assert several(to, client, data + frames[0][:-1], 6) == len(data)
        assert b"".join(client.answered) == b"".join(one_by_one(to, version, frames))
        assert sum(client.places) == len(frames)


@pytest.mark.parametrize("version", VERSIONS)
async def test_what_is_something_else_ends_them(version: int) -> None:
    to = await services({0: coordinator()})
    good = frame(version, 1, ["group-0"], [("t", [0])])
    large = frame(version, 2, ["group-0"], [("t", range(fetches_in_a_row.MOST_ASKED_BYTES // 4))])
    others = {
        "another version": frame(version % 9 + 1, 2, ["group-0"], [("t", [0])]),
        "another request": heartbeat.API.request_frame(0, 2, None, heartbeat.HeartbeatRequest("group-0", 1, "m")),
        "malformed": good[:3] + bytes([good[3] - 5]) + good[4:-5],
        "of a negative size": b"\xff\xff\xff\xff" + good[4:],
        "of no size": bytes(4) + good[4:],
        "large": large,
    }
    if version >= MANY:
        others["of two groups"] = frame(version, 2, GROUPS[:2], [("t", [0])])
        others["of no group"] = frame(version, 2, [], [("t", [0])])
    for name, other in others.items():
        client = Client()
        assert several(to, client, good + good + other + good) == 2 * len(good), name
        assert client.answered == [b"".join(one_by_one(to, version, [good, good]))], name
        if other[4:8] == good[4:8]:
            client = Client()
            assert several(to, client, other + good) == 0, name
            assert client.places == [], name
    for there in (7, 8, 11, len(good) - 1):
        assert several(to, Client(), good + good + good[:there]) == 2 * len(good)


async def test_no_more_than_asked_for_and_a_bounded_number_of_bytes() -> None:
    group_coordinator = coordinator()
    to = await services({0: group_coordinator})
    asked = frame(9, 1, ["group-0"], [("t", [0])])
    assert several(to, Client(), asked * 5, most=3) == 3 * len(asked)
    committed(group_coordinator, "group-0", "t", 5, "x" * 4000)
    client = Client()
    taken = several(to, client, asked * 100)
    (sent,) = client.answered
    assert taken < 100 * len(asked)
    assert fetches_in_a_row.MOST_BYTES <= len(sent) < fetches_in_a_row.MOST_BYTES + 8000
    assert sent == b"".join(one_by_one(to, 9, [asked] * (taken // len(asked))))


async def test_what_is_kept_is_bounded() -> None:
    group_coordinator = coordinator()
    to = await services({0: group_coordinator})
    for number in range(fetches_in_a_row.KEPT + 10):
        assert several(to, Client(), frame(9, 1, ["group-0"], [("t", [number])]))
    assert len(fetches_in_a_row._ASKED) <= fetches_in_a_row.KEPT
    committed(group_coordinator, "group-0", "t", 5, "x" * fetches_in_a_row.KEPT_BYTES)
    large, client = frame(9, 1, ["group-0"], [("t", [1])]), Client()
    assert several(to, client, large) == len(large)
    assert client.answered == one_by_one(to, 9, [large])
    assert fetches_in_a_row._ASKED[9, large[12:]].found is None


async def test_what_cannot_be_encoded_is_left_to_who_says_so() -> None:
    """Metadata is as long as the setting says, and an older version's length of it has two bytes."""
    group_coordinator = GroupCoordinator(CoordinatorSettings(offset_metadata_max_bytes=1 << 20))
    committed(group_coordinator, "group-0", "t", 5, "x" * 40_000)
    to = await services({0: group_coordinator})
    assert several(to, Client(), frame(3, 1, ["group-0"], [("t", [0])]) * 2) == 0


async def test_what_is_an_error_is_left_to_who_counts_it() -> None:
    """An offset that a transaction is about to replace."""
    group_coordinator = coordinator()
    key, value = OffsetCommitKey(GROUPS[0], "t", 0), OffsetCommitValue(9)
    group_coordinator.follow(0, FollowedBatch(7, 0, Position(0, 5), [(key, value)]))
    to = await services({0: group_coordinator})
    unstable, good = (frame(9, 1, [GROUPS[0]], [("t", [0])], stable=stable) for stable in (True, False))
    client = Client()
    assert several(to, client, good + unstable * 3) == len(good)
    for each in [unstable] * 3:
        served, made = call(API, 9, each, client, client.answered.append)
        assert served.handle(to, made) is None
    assert client.counts.errors == {API.key << 16 | ErrorCode.UNSTABLE_OFFSET_COMMIT: 3}


async def test_what_waits_for_something_is_left_alone() -> None:
    asked = frame(9, 1, ["group-0"], [("t", [0])])
    data, client = asked + asked, Client()
    to = await services({0: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})
    assert several(to, client, data) == 0, "the partition is not there"
    to = await services({0: coordinator()})
    cast(Any, to.runtime).in_flight = True
    assert several(to, client, data) == 0, "it is not durable"
    brokers = Brokers()
    topics = topics_of(brokers)
    to = (await services({0: coordinator()}))._replace(topics=topics)
    assert several(to, Client(), data) == len(data)
    cast(Any, topics)._doubts = InDoubt()
    assert several(to, client, data) == 0, "whether the topic is the same one"
    assert client.places == []


class InDoubt:
    def __bool__(self) -> bool:
        return True


@pytest.mark.parametrize("known", [False, True])
async def test_they_are_answered_together_when_all_is_granted(known: bool) -> None:
    """To another client the same question was answered a moment ago."""
    data = frame(9, 1, [GROUP], [("t", [0])]) * 3
    everybody = await services({0: coordinator()})
    assert several(everybody, Client(), data) == len(data)
    to = everybody._replace(authorizer=AUTHORIZER)
    client = Client(broker=lambda asked: answered(asked, {GROUP}, {"t"}))
    if known:
        frames: list[bytes] = []
        served, made = call(API, 9, data[: len(data) // 3], client, frames.append)
        pending = served.handle(to, made)
        assert pending is not None
        await pending
        assert len(frames) == 1
    assert several(to, client, data) == (len(data) if known else 0)
    assert client.places == ([3] if known else [])
    for other in (frame(9, 1, [GROUP], None), frame(9, 1, [GROUP], [("secret", [0])])):
        assert several(to, client, other + other) == 0
