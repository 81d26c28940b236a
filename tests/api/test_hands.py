"""What becomes of a request when the shim does not serve the group that it is about."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from types import ModuleType
from typing import Any, cast

import pytest

from protocol.api import Api
from protocol.errors import ErrorCode
from protocol.group_kinds import CLASSIC, CONSUMER, OTHER_KINDS, SHARE, STREAMS, Kind
from protocol.messages import (
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    describe_groups,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    share_group_describe,
    share_group_heartbeat,
    streams_group_describe,
    streams_group_heartbeat,
    sync_group,
)
from protocol.own.state_log import Hands, Step
from shim.api import Services
from shim.coordinator import GroupCoordinator
from shim.migration.hands.gathering import Gathering
from shim.migration.hands.placements import Placements, Whose
from shim.migration.stores import Stores
from tests.api.driving import Client, call, services

SERVED, PASSED, UNKNOWN, CHANGING = "served-0", "passed-0", "unknown-0", "changing-0"
_WHOSE = {
    SERVED: Whose.SERVED,
    PASSED: Whose.PASSED_THROUGH,
    UNKNOWN: Whose.UNKNOWN,
    CHANGING: Whose.CHANGING,
}
COMMIT = (offset_commit.OffsetCommitRequestTopic("t", partitions=(offset_commit.OffsetCommitRequestPartition(0, 5),)),)


class Placed:
    """Whose groups are, by their names; what :meth:`find_out` says of the unknown one."""

    def __init__(self, found: Whose | ErrorCode = Whose.SERVED) -> None:
        self._found = found
        self.members = self
        self.whose = dict(_WHOSE)
        self.asked: list[str] = []
        self.opens: list[Kind | None] = []
        self.seen: list[tuple[str, str, int]] = []
        self.on_their_way: list[str] = []
        self.gatherings: dict[str, Gathering] = {}
        self.is_surely_here = True
        self.confirms: Callable[[], ErrorCode] = lambda: ErrorCode.NONE

    def surely_here(self, group_ids: Iterable[str]) -> bool:
        return self.is_surely_here

    async def confirmed_here(self, group_ids: Iterable[str]) -> ErrorCode:
        assert not self.is_surely_here
        await asyncio.sleep(0)
        return self.confirms()

    def of(self, group_id: str) -> Whose:
        return self.whose[group_id]

    async def find_out(self, group_id: str, opens: Kind | None) -> ErrorCode:
        self.asked.append(group_id)
        self.opens.append(opens)
        await asyncio.sleep(0)
        if isinstance(self._found, ErrorCode):
            return self._found
        self.whose[group_id] = self._found
        return ErrorCode.NONE

    def steps_of(self, group_ids: Iterable[str]) -> dict[str, Step]:
        return dict.fromkeys(group_ids, Step.KAFKA)

    def is_served(self, group_id: str) -> bool:
        return group_id in (SERVED, CHANGING)  # from the shim to somebody else

    def saw(self, group_id: str, member_id: str, generation: int) -> None:
        self.seen.append((group_id, member_id, generation))

    def gathering(self, group_id: str) -> Gathering | None:
        return self.gatherings.get(group_id)

    def passing(self, group_ids: Iterable[str], answered: asyncio.Future[bytes]) -> None:
        assert isinstance(answered, asyncio.Future)
        self.on_their_way.extend(group_ids)


async def to(placed: Placed, coordinator: GroupCoordinator | None = None) -> Services:
    return await services({0: coordinator or GroupCoordinator()}, placements=cast(Placements, placed))


def broker(api: Api[Any, Any], response: Callable[[Any], Any], version: int | None = None) -> Callable[[bytes], bytes]:
    """One that answers requests of this API alone."""

    def answered(frame: bytes) -> bytes:
        key, its_version, correlation_id = struct.unpack_from(">hhi", frame, 4)
        assert key == api.key
        assert version in (None, its_version)
        _, request = api.parse_request(its_version, frame, 4)
        return api.response_frame(its_version, correlation_id, response(request))

    return answered


async def answer(api: Api[Any, Any], version: int, request: Any, services_: Services, client: Client) -> Any:
    frames: list[bytes] = []
    served, made = call(api, version, api.request_frame(version, 7, "me", request), client, frames.append)
    pending = served.handle(services_, made)
    if pending is not None:
        async with asyncio.timeout(30):
            await pending
    (frame,) = frames
    assert not client.paused
    correlation_id, response = api.parse_response(version, frame, 4)
    assert correlation_id == 7
    return response


PASSED_ON: list[tuple[Api[Any, Any], int, Any, Any]] = [
    (
        offset_commit.API,
        8,
        offset_commit.OffsetCommitRequest(PASSED, 3, "m", topics=COMMIT),
        offset_commit.OffsetCommitResponse(
            topics=(
                offset_commit.OffsetCommitResponseTopic(
                    "t", partitions=(offset_commit.OffsetCommitResponsePartition(0, 22),)
                ),
            )
        ),
    ),
    (heartbeat.API, 4, heartbeat.HeartbeatRequest(PASSED, 3, "m"), heartbeat.HeartbeatResponse(error_code=27)),
    (
        join_group.API,
        9,
        join_group.JoinGroupRequest(PASSED, 10_000, 60_000, "m", None, "consumer", ()),
        join_group.JoinGroupResponse(0, 79, -1, None, None, "", False, "m-1", ()),
    ),
    (
        sync_group.API,
        5,
        sync_group.SyncGroupRequest(PASSED, 3, "m", protocol_type="consumer", protocol_name="range"),
        sync_group.SyncGroupResponse(0, 0, "consumer", "range", b"yours"),
    ),
    (leave_group.API, 2, leave_group.LeaveGroupRequest(PASSED, "m"), leave_group.LeaveGroupResponse(error_code=25)),
    (
        consumer_group_heartbeat.API,
        1,
        consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(PASSED, "m", 0, rebalance_timeout_ms=60_000),
        consumer_group_heartbeat.ConsumerGroupHeartbeatResponse(0, 0, None, "m", 1, 5_000),
    ),
    (
        streams_group_heartbeat.API,
        0,
        streams_group_heartbeat.StreamsGroupHeartbeatRequest(PASSED, "m", 0, rebalance_timeout_ms=60_000),
        streams_group_heartbeat.StreamsGroupHeartbeatResponse(0, 0, None, "m", 1, 5_000),
    ),
    (
        share_group_heartbeat.API,
        1,
        share_group_heartbeat.ShareGroupHeartbeatRequest(PASSED, "m", 0),
        share_group_heartbeat.ShareGroupHeartbeatResponse(0, 0, None, "m", 1, 5_000),
    ),
    (
        offset_delete.API,
        0,
        offset_delete.OffsetDeleteRequest(PASSED, ()),
        offset_delete.OffsetDeleteResponse(68, 0, ()),
    ),
    (
        offset_fetch.API,
        7,
        offset_fetch.OffsetFetchRequest(PASSED, None),
        offset_fetch.OffsetFetchResponse(
            topics=(
                offset_fetch.OffsetFetchResponseTopic("t", (offset_fetch.OffsetFetchResponsePartition(0, 9, 1, "m"),)),
            )
        ),
    ),
]


@pytest.mark.parametrize(
    ("api", "version", "request_", "response"), PASSED_ON, ids=lambda each: getattr(each, "name", "")
)
@pytest.mark.parametrize("group", [PASSED, UNKNOWN])
async def test_what_is_the_clusters_is_answered_by_the_cluster(
    api: Api[Any, Any], version: int, request_: Any, response: Any, group: str
) -> None:
    placed = Placed(Whose.PASSED_THROUGH)
    client = Client(broker=broker(api, lambda _: response, version))
    asked = request_._replace(group_id=group)
    assert await answer(api, version, asked, await to(placed), client) == response
    (frame,) = client.asked
    assert api.parse_request(version, frame, 4)[1] == asked
    opens = {
        offset_commit.API: CLASSIC,
        join_group.API: CLASSIC,
        consumer_group_heartbeat.API: CONSUMER,
        streams_group_heartbeat.API: STREAMS,
        share_group_heartbeat.API: SHARE,
    }
    assert placed.asked == ([UNKNOWN] if api in opens and group == UNKNOWN else [])
    assert placed.opens == [opens[api] for _ in placed.asked]
    generation: dict[Api[Any, Any], int] = {offset_commit.API: 3, heartbeat.API: 3, sync_group.API: 3}
    generation |= {kind.heartbeat: 0 for kind in OTHER_KINDS}
    assert placed.seen == ([(group, "m", generation[api])] if api in generation else [])
    is_waited_for = api in (offset_commit.API, offset_delete.API, *(kind.heartbeat for kind in OTHER_KINDS))
    assert placed.on_their_way == ([group] if is_waited_for else [])


of_other_kinds = pytest.mark.parametrize("kind", OTHER_KINDS, ids=lambda kind: kind.name)


@of_other_kinds
async def test_a_heartbeat_that_makes_no_group_is_the_clusters_to_refuse(kind: Kind) -> None:
    """As is one that would, where the cluster does not have that protocol: the group stays nobody's."""
    api, version = kind.heartbeat, kind.heartbeat.versions[0]
    refused = api.response(0, ErrorCode.GROUP_ID_NOT_FOUND, "no")
    for epoch in (-2, -1, 3):
        placed, client = Placed(), Client(broker=broker(api, lambda _: refused, version))
        told = await answer(api, version, api.request(UNKNOWN, "m", epoch), await to(placed), client)
        assert (told, placed.asked) == (refused, [])
    placed, client = Placed(Whose.UNKNOWN), Client(broker=broker(api, lambda _: refused, version))
    assert await answer(api, version, api.request(UNKNOWN, "m", 0), await to(placed), client) == refused
    assert (placed.asked, placed.of(UNKNOWN)) == ([UNKNOWN], Whose.UNKNOWN)


async def test_a_group_that_nobody_knows_is_found_out_about_once_and_served() -> None:
    placed = Placed(Whose.SERVED)
    client = Client()
    request = offset_commit.OffsetCommitRequest(UNKNOWN, topics=COMMIT)
    for _ in range(2):
        (topic,) = (await answer(offset_commit.API, 8, request, await to(placed), client)).topics
        assert topic.partitions[0].error_code == ErrorCode.NONE
    assert placed.asked == [UNKNOWN]
    assert client.asked == []


@of_other_kinds
async def test_other_protocols_are_refused_for_a_group_that_is_served(kind: Kind) -> None:
    """Clients show the message: so it says what to do."""
    placed, client = Placed(), Client()
    services_ = await to(placed, await committed())
    request = kind.heartbeat.request(SERVED, "m", 0)
    refused = await answer(kind.heartbeat, kind.heartbeat.versions[0], request, services_, client)
    assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert f"Group {SERVED} is served by offset-shim" in refused.error_message
    assert ("another group.id" if kind.stays else "group.protocol=classic") in refused.error_message
    assert (client.asked, placed.seen) == ([], [])


async def test_nobody_is_served_while_that_cannot_be_found_out() -> None:
    placed, coordinator = Placed(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), GroupCoordinator()
    request = offset_commit.OffsetCommitRequest(UNKNOWN, topics=COMMIT)
    (topic,) = (await answer(offset_commit.API, 8, request, await to(placed, coordinator), Client())).topics
    assert topic.partitions[0].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert coordinator.offset_count == 0


@pytest.mark.parametrize(
    ("api", "version", "request_"), [each[:3] for each in PASSED_ON], ids=lambda e: getattr(e, "name", "")
)
async def test_a_group_that_changes_hands_is_nobodys(api: Api[Any, Any], version: int, request_: Any) -> None:
    client = Client()
    response = await answer(api, version, request_._replace(group_id=CHANGING), await to(Placed()), client)
    assert client.asked == []
    loading = int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    # To a heartbeat a broker says that all is well, and to who brings a SyncGroup to join again.
    assert (str(loading) in repr(response)) == (api not in (heartbeat.API, sync_group.API))


@pytest.mark.parametrize("version", [0, 1])
async def test_a_commit_of_a_version_that_brokers_have_dropped(version: int) -> None:
    said = offset_commit.OffsetCommitResponse(
        topics=(
            offset_commit.OffsetCommitResponseTopic(
                "t", partitions=(offset_commit.OffsetCommitResponsePartition(0, 0),)
            ),
        )
    )
    client = Client(broker=broker(offset_commit.API, lambda _: said, 2))
    request = offset_commit.OffsetCommitRequest(PASSED, topics=COMMIT)
    assert await answer(offset_commit.API, version, request, await to(Placed()), client) == said


async def test_a_fetch_of_a_version_that_brokers_have_dropped() -> None:
    partitions = (
        offset_fetch.OffsetFetchResponsePartition(0, 5, metadata=""),
        offset_fetch.OffsetFetchResponsePartition(1, -1, metadata=""),
    )
    said = offset_fetch.OffsetFetchResponse(topics=(offset_fetch.OffsetFetchResponseTopic("t", partitions),))
    client = Client(broker=broker(offset_fetch.API, lambda _: said, 1))
    request = offset_fetch.OffsetFetchRequest(PASSED, (offset_fetch.OffsetFetchRequestTopic("t", (0, 1)),))
    (topic,) = (await answer(offset_fetch.API, 0, request, await to(Placed()), client)).topics
    assert [(p.committed_offset, p.error_code) for p in topic.partitions] == [(5, 0), (-1, 3)]


async def test_the_request_of_a_member_of_old_has_a_rebalance_timeout() -> None:
    asked: list[Any] = []

    def join(request: Any) -> Any:
        asked.append(request)
        return join_group.JoinGroupResponse(0, 0, 1, None, "range", "m", False, "m", ())

    client = Client(broker=broker(join_group.API, join, 2))
    request = join_group.JoinGroupRequest(PASSED, 10_000, -1, "", None, "consumer", ())
    assert (await answer(join_group.API, 0, request, await to(Placed()), client)).member_id == "m"
    assert (asked[0].session_timeout_ms, asked[0].rebalance_timeout_ms) == (10_000, 10_000)


# --- other shims may have the group by now ---------------------------------------------------------------------------


def doubtful(confirms: Callable[[], ErrorCode]) -> Placed:
    placed = Placed(Whose.PASSED_THROUGH)
    placed.is_surely_here, placed.confirms = False, confirms
    return placed


def committing() -> Client:
    partitions = (offset_commit.OffsetCommitResponsePartition(0, 22),)
    said = offset_commit.OffsetCommitResponse(
        topics=(offset_commit.OffsetCommitResponseTopic("t", partitions=partitions),)
    )
    return Client(broker=broker(offset_commit.API, lambda _: said))


def errors_of(response: Any) -> set[int]:
    return {each.error_code for topic in response.topics for each in topic.partitions}


@pytest.mark.parametrize("group", [PASSED, UNKNOWN])
async def test_a_commit_is_passed_on_once_it_is_certain_whose_the_group_is(group: str) -> None:
    request = offset_commit.OffsetCommitRequest(group, topics=COMMIT)
    client = committing()
    placed = doubtful(lambda: ErrorCode.NONE)
    assert errors_of(await answer(offset_commit.API, 8, request, await to(placed), client)) == {22}
    assert placed.on_their_way == [group]

    client = committing()
    placed = doubtful(lambda: ErrorCode.NOT_COORDINATOR)
    response = await answer(offset_commit.API, 8, request, await to(placed), client)
    assert errors_of(response) == {ErrorCode.NOT_COORDINATOR}
    assert (client.asked, placed.on_their_way) == ([], [])


@pytest.mark.parametrize("whose", [Whose.SERVED, Whose.CHANGING])
async def test_nor_is_it_passed_on_where_it_changed_hands_meanwhile(whose: Whose) -> None:
    def confirms() -> ErrorCode:
        placed.whose[PASSED] = whose
        return ErrorCode.NONE

    placed, coordinator, client = doubtful(confirms), GroupCoordinator(), committing()
    request = offset_commit.OffsetCommitRequest(PASSED, topics=COMMIT)
    response = await answer(offset_commit.API, 8, request, await to(placed, coordinator), client)
    served = whose is Whose.SERVED
    assert errors_of(response) == {ErrorCode.NONE if served else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    assert coordinator.offset_count == int(served)
    assert client.asked == []


async def test_nor_is_an_offset_told_that_somebody_else_may_have_by_now() -> None:
    client = Client()
    services_ = await to(doubtful(lambda: ErrorCode.NOT_COORDINATOR))
    request = offset_fetch.OffsetFetchRequest(PASSED, None)
    assert (await answer(offset_fetch.API, 7, request, services_, client)).error_code == ErrorCode.NOT_COORDINATOR
    assert client.asked == []


async def test_a_heartbeat_is_passed_on_at_once() -> None:
    def confirms() -> ErrorCode:
        raise AssertionError("nobody needs to know")

    client = Client(broker=broker(heartbeat.API, lambda _: heartbeat.HeartbeatResponse(error_code=27)))
    response = await answer(
        heartbeat.API, 4, heartbeat.HeartbeatRequest(PASSED, 3, "m"), await to(doubtful(confirms)), client
    )
    assert response.error_code == 27


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.NOT_COORDINATOR])
async def test_groups_are_deleted_at_the_cluster_once_it_is_certain_whose_they_are(error: ErrorCode) -> None:
    def deleted(request: Any) -> Any:
        return delete_groups.DeleteGroupsResponse(
            0, tuple(delete_groups.DeletableGroupResult(name, 68) for name in request.groups_names)
        )

    placed, client = doubtful(lambda: error), Client(broker=broker(delete_groups.API, deleted))
    services_ = await to(placed, await committed())
    request = delete_groups.DeleteGroupsRequest((PASSED, SERVED, UNKNOWN))
    gone = await answer(delete_groups.API, 2, request, services_, client)
    theirs = error or 68
    assert {each.group_id: each.error_code for each in gone.results} == {PASSED: theirs, UNKNOWN: theirs, SERVED: 0}
    assert sorted(placed.on_their_way) == ([] if error else [PASSED, UNKNOWN])


# --- about many groups -----------------------------------------------------------------------------------------------


async def committed() -> GroupCoordinator:
    coordinator = GroupCoordinator()
    request = offset_commit.OffsetCommitRequest(SERVED, topics=COMMIT)
    await answer(offset_commit.API, 8, request, await to(Placed(), coordinator), Client())
    return coordinator


async def test_offsets_of_groups_of_both_kinds_in_the_order_of_the_request() -> None:
    def fetched(request: Any) -> Any:
        topics = (
            offset_fetch.OffsetFetchResponseTopics(
                "t", partitions=(offset_fetch.OffsetFetchResponsePartitions(0, 77),)
            ),
        )
        return offset_fetch.OffsetFetchResponse(
            groups=tuple(offset_fetch.OffsetFetchResponseGroup(group.group_id, topics) for group in request.groups)
        )

    names = [PASSED, SERVED, UNKNOWN, SERVED, PASSED]
    asked = tuple(offset_fetch.OffsetFetchRequestGroup(name, topics=None) for name in names)
    client = Client(broker=broker(offset_fetch.API, fetched, 8))
    placed = Placed()
    found = await answer(
        offset_fetch.API, 8, offset_fetch.OffsetFetchRequest(groups=asked), await to(placed, await committed()), client
    )
    offsets = [(g.group_id, g.topics[0].partitions[0].committed_offset) for g in found.groups]
    assert offsets == [(PASSED, 77), (SERVED, 5), (UNKNOWN, 77), (SERVED, 5), (PASSED, 77)]
    assert placed.asked == []


async def test_groups_of_both_kinds_are_described_and_deleted() -> None:
    def described(request: Any) -> Any:
        return describe_groups.DescribeGroupsResponse(
            groups=tuple(
                describe_groups.DescribedGroup(0, group_id=name, group_state="Theirs") for name in request.groups
            )
        )

    coordinator = await committed()
    client = Client(broker=broker(describe_groups.API, described))
    request = describe_groups.DescribeGroupsRequest((PASSED, SERVED, UNKNOWN))
    found = await answer(describe_groups.API, 4, request, await to(Placed(), coordinator), client)
    assert [(g.group_id, g.group_state) for g in found.groups] == [
        (PASSED, "Theirs"),
        (SERVED, "Empty"),
        (UNKNOWN, "Theirs"),
    ]

    def deleted(request: Any) -> Any:
        return delete_groups.DeleteGroupsResponse(
            0, tuple(delete_groups.DeletableGroupResult(name, 68) for name in request.groups_names)
        )

    client = Client(broker=broker(delete_groups.API, deleted))
    gone = await answer(
        delete_groups.API,
        2,
        delete_groups.DeleteGroupsRequest((PASSED, SERVED)),
        await to(Placed(), coordinator),
        client,
    )
    assert {(each.group_id, each.error_code) for each in gone.results} == {(PASSED, 68), (SERVED, 0)}


async def test_one_that_goes_to_another_step_while_the_broker_is_asked_is_not_deleted() -> None:
    """Consumers in ZooKeeper keep it there, and have not been looked for."""
    coordinator = await committed()

    def deleted(_: Any) -> Any:
        coordinator.take_in_hand(0, SERVED, Hands.SERVED, "a test", object(), Step.ZOOKEEPER_DUAL)
        return delete_groups.DeleteGroupsResponse(0, (delete_groups.DeletableGroupResult(PASSED, 68),))

    client = Client(broker=broker(delete_groups.API, deleted))
    request = delete_groups.DeleteGroupsRequest((PASSED, SERVED))
    gone = await answer(delete_groups.API, 2, request, await to(Placed(), coordinator), client)
    assert {each.group_id: each.error_code for each in gone.results} == {PASSED: 68, SERVED: NOT_NOW}
    assert coordinator.offset_count == 1


@pytest.mark.parametrize(
    "module", [consumer_group_describe, streams_group_describe, share_group_describe], ids=lambda each: each.API.name
)
async def test_a_group_that_is_served_is_of_no_other_kind(module: ModuleType) -> None:
    version = module.API.versions[0]

    def told(request: Any) -> Any:
        of_api = (module.DescribedGroup(0, None, name, "Theirs") for name in request.group_ids)
        return module.API.response(0, tuple(of_api))

    client = Client(broker=broker(module.API, told, version))
    request = module.API.request((PASSED, SERVED, UNKNOWN, CHANGING), False)
    found = await answer(module.API, version, request, await to(Placed(), await committed()), client)
    assert [(g.group_id, g.group_state, g.error_code) for g in found.groups] == [
        (PASSED, "Theirs", 0),
        (SERVED, "", ErrorCode.GROUP_ID_NOT_FOUND),
        (UNKNOWN, "Theirs", 0),
        (CHANGING, "", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ]


class OtherPlaces:
    """Of groups by these names: what is answered before anything is decided; and those whose changes do not arrive."""

    has_zookeeper = False

    def __init__(self, refused: dict[str, ErrorCode], lost: Collection[str] = ()) -> None:
        self._refused = refused
        self._lost = lost

    async def not_ready(self, groups: Sequence[str]) -> dict[str, ErrorCode]:
        await asyncio.sleep(0)
        return {name: self._refused[name] for name in groups if name in self._refused}

    not_deletable = not_ready

    def after(self, groups: Sequence[str]) -> Awaitable[list[str]]:
        told: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()
        told.set_result([name for name in groups if name in self._lost])
        return told


ELSEWHERE, NOT_READY = "elsewhere-0", "not-ready-0"
NOT_NOW = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def to_places(others: OtherPlaces, coordinator: GroupCoordinator) -> Services:
    placed = Placed()
    placed.whose.update(dict.fromkeys((ELSEWHERE, NOT_READY), Whose.SERVED_WITH_STORES))
    return (await to(placed, coordinator))._replace(stores=cast(Stores, others))


async def test_one_that_is_refused_for_now_keeps_none_of_the_others_from_being_fetched() -> None:
    def fetched(request: Any) -> Any:
        return offset_fetch.OffsetFetchResponse(
            groups=tuple(offset_fetch.OffsetFetchResponseGroup(group.group_id, (), 30) for group in request.groups)
        )

    names = [CHANGING, PASSED, SERVED, NOT_READY, CHANGING, ELSEWHERE]
    request = offset_fetch.OffsetFetchRequest(
        groups=tuple(offset_fetch.OffsetFetchRequestGroup(name, topics=None) for name in names)
    )
    services_ = await to_places(OtherPlaces({NOT_READY: NOT_NOW}), await committed())
    client = Client(broker=broker(offset_fetch.API, fetched, 8))
    found = await answer(offset_fetch.API, 8, request, services_, client)
    assert [(g.group_id, len(g.topics), g.error_code) for g in found.groups] == [
        (CHANGING, 0, NOT_NOW),
        (PASSED, 0, 30),
        (SERVED, 1, 0),
        (NOT_READY, 0, NOT_NOW),
        (CHANGING, 0, NOT_NOW),
        (ELSEWHERE, 0, 0),
    ]


@pytest.mark.parametrize("version", [1, 7])
async def test_a_fetch_for_the_only_one_is_refused_as_its_version_has_it(version: int) -> None:
    topics = (offset_fetch.OffsetFetchRequestTopic("t", (0,)),)
    request = offset_fetch.OffsetFetchRequest(NOT_READY, topics)
    services_ = await to_places(OtherPlaces({NOT_READY: NOT_NOW}), GroupCoordinator())
    found = await answer(offset_fetch.API, version, request, services_, Client())
    of_partitions = {each.error_code for topic in found.topics for each in topic.partitions}
    assert (found.error_code or of_partitions) == (NOT_NOW if version >= 2 else {NOT_NOW})


async def test_nor_from_being_described() -> None:
    def described(request: Any) -> Any:
        return describe_groups.DescribeGroupsResponse(
            groups=tuple(describe_groups.DescribedGroup(0, group_id=name) for name in request.groups)
        )

    client = Client(broker=broker(describe_groups.API, described))
    request = describe_groups.DescribeGroupsRequest((PASSED, CHANGING, SERVED))
    found = await answer(describe_groups.API, 4, request, await to(Placed(), await committed()), client)
    assert [(g.group_id, g.error_code) for g in found.groups] == [(PASSED, 0), (CHANGING, NOT_NOW), (SERVED, 0)]
    found = await answer(
        describe_groups.API, 4, describe_groups.DescribeGroupsRequest((CHANGING,)), await to(Placed()), Client()
    )
    assert [(g.group_id, g.error_code) for g in found.groups] == [(CHANGING, NOT_NOW)]


async def test_nor_from_being_deleted() -> None:
    coordinator = GroupCoordinator()
    others = OtherPlaces({NOT_READY: ErrorCode.NON_EMPTY_GROUP}, lost=[ELSEWHERE])
    services_, all_served = await to_places(others, coordinator), await services({0: coordinator})
    for name in (SERVED, ELSEWHERE, NOT_READY):
        await answer(offset_commit.API, 8, offset_commit.OffsetCommitRequest(name, topics=COMMIT), all_served, Client())
    client = Client()
    gone = await answer(
        delete_groups.API, 2, delete_groups.DeleteGroupsRequest((NOT_READY, ELSEWHERE, SERVED)), services_, client
    )
    assert {each.group_id: each.error_code for each in gone.results} == {
        NOT_READY: ErrorCode.NON_EMPTY_GROUP,
        ELSEWHERE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        SERVED: ErrorCode.NONE,
    }


async def test_each_group_is_listed_by_whose_it_is() -> None:
    def listed(_: Any) -> Any:
        return list_groups.ListGroupsResponse(
            groups=tuple(list_groups.ListedGroup(name, "consumer", "Theirs") for name in (PASSED, SERVED, UNKNOWN))
        )

    client = Client(broker=broker(list_groups.API, listed))
    found = await answer(
        list_groups.API, 4, list_groups.ListGroupsRequest(), await to(Placed(), await committed()), client
    )
    assert [(group.group_id, group.group_state) for group in found.groups] == [
        (SERVED, "Empty"),
        (PASSED, "Theirs"),
        (UNKNOWN, "Theirs"),
    ]


@pytest.mark.parametrize("error", [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
async def test_a_list_of_which_the_cluster_cannot_tell_its_part_is_none(error: ErrorCode) -> None:
    client = Client(broker=broker(list_groups.API, lambda _: list_groups.ListGroupsResponse(error_code=error)))
    found = await answer(
        list_groups.API, 4, list_groups.ListGroupsRequest(), await to(Placed(), await committed()), client
    )
    assert (found.error_code, found.groups) == (error, ())


# --- gathering -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", [PASSED, SERVED])
async def test_members_are_told_to_join_and_held_there(group: str) -> None:
    placed = Placed()
    gathering = placed.gatherings[group] = Gathering([describe_groups.DescribedGroupMember(each) for each in "ab"])
    services_ = await to(placed)
    well = Client(broker=broker(heartbeat.API, lambda _: heartbeat.HeartbeatResponse()))
    if group == SERVED:  # the coordinator's own word on a member that it does not know comes first
        told = await answer(heartbeat.API, 4, heartbeat.HeartbeatRequest(group, 3, "a"), services_, well)
        assert told.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    else:
        told = await answer(heartbeat.API, 4, heartbeat.HeartbeatRequest(group, 3, "a"), services_, well)
        assert told.error_code == ErrorCode.REBALANCE_IN_PROGRESS
        assert well.asked, "its session goes on there"

    def join(member_id: str) -> tuple[Client, asyncio.Task[Any]]:
        request = join_group.JoinGroupRequest(group, 10_000, 60_000, member_id, None, "consumer", ())
        refusal = join_group.JoinGroupResponse(0, 25, -1, None, None, "", False, member_id, ())
        client = Client(broker=broker(join_group.API, lambda _: refusal))
        return client, asyncio.create_task(answer(join_group.API, 9, request, services_, client))

    client, first = join("a")
    other, newcomer = join("")
    await asyncio.sleep(0)
    assert client.paused
    assert not gathering.complete.is_set()
    assert not gathering.is_expected("a")
    assert [each.member_id for each in gathering.awaited] == ["b"]
    _, second = join("b")
    await asyncio.sleep(0)
    assert gathering.complete.is_set()
    assert sorted(gathering.here) == ["a", "b"]
    assert not gathering.awaited
    assert not any(task.done() for task in (first, second, newcomer))
    gathering.over.set()
    del placed.gatherings[group]
    for task in (first, second):
        assert (await task).error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    newcomer.cancel()
    await asyncio.gather(newcomer, return_exceptions=True)
    assert (client.asked == []) == (group == SERVED)
    assert other is not client


async def test_who_goes_away_while_it_is_held_is_not_there() -> None:
    gathering = Gathering([describe_groups.DescribedGroupMember("a")])
    request = join_group.JoinGroupRequest(PASSED, 10_000, 60_000, "a", None, "consumer", ())
    joining = asyncio.create_task(gathering.joined(request))
    await asyncio.sleep(0)
    assert gathering.complete.is_set()
    joining.cancel()
    await asyncio.gather(joining, return_exceptions=True)
    assert not gathering.complete.is_set()
    assert gathering.is_expected("a")
    gathering.gone("a")
    assert gathering.complete.is_set()
