"""What each handler makes of a request: by table, with partitions and a broker that say what the row has them say."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import pytest

from compat.translation import MOST_FETCH_BYTES
from protocol import commit_rows as offset_commit_rows
from protocol.api import Api
from protocol.errors import ErrorCode
from protocol.messages import (
    api_versions,
    delete_groups,
    describe_cluster,
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    produce,
    share_acknowledge,
    share_fetch,
    sync_group,
)
from protocol.own import conditional_commit
from shim.api import ROUTES, Rewritten
from shim.api.fetched_bytes import LEAST_FETCH_BYTES
from shim.config import HostPort
from shim.coordinator import Caller, GroupCoordinator, Outcome
from tests.api.driving import BROKERS, HOST, UNREACHABLE, WITHOUT_PORT, Client, answer, call, services
from tests.following.believed import Brokers, topics_of
from tests.waiting import until

E = ErrorCode
LOADING = E.COORDINATOR_LOAD_IN_PROGRESS
NOT_AVAILABLE = E.COORDINATOR_NOT_AVAILABLE
NOWHERE = (-1, "", -1)


def at(node_id: int) -> tuple[int, str, int]:
    return node_id, HOST, 19093 + node_id


# FindCoordinator


class Find(NamedTuple):
    key: str
    found: tuple[int, ErrorCode]  # what the cluster says: a node id, or an error
    told: tuple[tuple[int, str, int], ErrorCode]
    key_type: int = 0
    brokers: dict[int, HostPort] = BROKERS


GROUP_FINDS = {
    "the cluster's own": Find("group-0", (2, E.NONE), (at(2), E.NONE)),
    "stable choice, not available": Find("group-0", (-1, NOT_AVAILABLE), (at(1), E.NONE)),
    "stable choice, loading": Find("group-1", (-1, LOADING), (at(2), E.NONE)),
    "stable choice, no offsets topic": Find("group-5", (-1, E.INVALID_REPLICATION_FACTOR), (at(3), E.NONE)),
    "stable choice, a node that the shim does not know": Find("group-4", (9, E.NONE), (at(2), E.NONE)),
    "stable choice, a node without a port": Find("group-4", (WITHOUT_PORT, E.NONE), (at(2), E.NONE)),
    "stable choice passes by a node without a port": Find(
        "group-3", (-1, NOT_AVAILABLE), (at(1), E.NONE), brokers={**BROKERS, **UNREACHABLE}
    ),
    "no broker known": Find("group-0", (-1, NOT_AVAILABLE), (NOWHERE, NOT_AVAILABLE), brokers={}),
    "forbidden": Find(
        "group-0", (-1, E.GROUP_AUTHORIZATION_FAILED), (NOWHERE, E.GROUP_AUTHORIZATION_FAILED)
    ),
}  # fmt: skip
TRANSACTION_FINDS = {
    "the cluster's own": Find("id-0", (2, E.NONE), (at(2), E.NONE), key_type=1),
    "no choice": Find("id-0", (-1, NOT_AVAILABLE), (NOWHERE, NOT_AVAILABLE), key_type=1),
    "a node that the shim does not know": Find("id-0", (9, E.NONE), (NOWHERE, NOT_AVAILABLE), key_type=1),
    "a node without a port": Find("id-0", (WITHOUT_PORT, E.NONE), (NOWHERE, NOT_AVAILABLE), key_type=1),
    "a node that is none": Find("id-0", (-1, E.NONE), (NOWHERE, NOT_AVAILABLE), key_type=1),
}


def find_rows() -> list[Any]:
    return [
        pytest.param(version, find, id=f"v{version} {kind} {name}")
        for kind, finds, versions in (("group", GROUP_FINDS, range(7)), ("transaction", TRANSACTION_FINDS, range(1, 7)))
        for name, find in finds.items()
        for version in versions
    ]


@pytest.mark.parametrize(("version", "find"), find_rows())
async def test_find_coordinator(version: int, find: Find) -> None:
    module = find_coordinator
    node_id, error = find.found
    host, port = (f"kafka-{node_id}", 9092) if error == E.NONE else ("", -1)
    if version < 4:
        request = module.FindCoordinatorRequest(find.key, find.key_type)
        of_cluster = module.FindCoordinatorResponse(error_code=error, node_id=node_id, host=host, port=port)
    else:
        request = module.FindCoordinatorRequest(key_type=find.key_type, coordinator_keys=(find.key,))
        of_cluster = module.FindCoordinatorResponse(
            coordinators=(module.Coordinator(find.key, node_id, host, port, error),)
        )
    client = Client(broker=lambda _: module.API.response_frame(version, 7, of_cluster))
    to = await services(brokers=find.brokers)
    told: Any = await answer(module.API, version, request, to, client)
    assert to.cluster.brokers == find.brokers, "what only this response names is not taken over"
    if version >= 4:
        (told,) = told.coordinators
        assert told.key == find.key
    assert ((told.node_id, told.host, told.port), told.error_code) == find.told


# ListGroups


class Shown(NamedTuple):
    """The coordinator of a partition with one group."""

    group_id: str

    def list_groups(self, states: Sequence[str], types: Sequence[str]) -> tuple[list_groups.ListedGroup, ...]:
        assert (states, types) == ((), ())
        return (list_groups.ListedGroup(self.group_id, "consumer"),)


SHOWN = {partition: Shown(f"group-{partition}") for partition in range(6)}


@pytest.mark.parametrize(
    ("node_id", "partitions"),
    [(None, (0, 1, 2, 3, 4, 5)), (1, (0, 3)), (2, (1, 4)), (3, (2, 5)), (4, ())],
)
@pytest.mark.parametrize("brokers", [BROKERS, {**BROKERS, **UNREACHABLE}], ids=["", "with one that has no port"])
async def test_each_group_is_listed_at_one_brokers_port(
    node_id: int | None, partitions: tuple[int, ...], brokers: dict[int, HostPort]
) -> None:
    request = list_groups.ListGroupsRequest()
    told = await answer(list_groups.API, 5, request, await services(SHOWN, brokers), Client(node_id))
    assert told.error_code == E.NONE
    assert [group.group_id for group in told.groups] == [f"group-{partition}" for partition in partitions]


@pytest.mark.parametrize(("node_id", "broken"), [(None, True), (1, False), (2, True), (3, False)])
async def test_a_list_that_would_not_be_whole_is_an_error(node_id: int | None, broken: bool) -> None:
    states = {**SHOWN, 4: LOADING}
    request = list_groups.ListGroupsRequest()
    told = await answer(list_groups.API, 5, request, await services(states), Client(node_id))
    assert (told.error_code, bool(told.groups)) == ((LOADING, False) if broken else (E.NONE, True))


async def test_without_a_known_broker_a_brokers_port_lists_nothing() -> None:
    told = await answer(
        list_groups.API, 0, list_groups.ListGroupsRequest(), await services(SHOWN, {}), Client(node_id=1)
    )
    assert told == list_groups.ListGroupsResponse()


# Failures: what a client is told when its group's partition cannot answer.


@pytest.mark.parametrize("version", range(1, 10))
async def test_a_failed_offset_fetch_says_so_at_the_place_of_its_version(version: int) -> None:
    module = offset_fetch
    to = await services({0: LOADING, 1: Fetched()})
    if version >= 8:
        request = module.OffsetFetchRequest(
            groups=tuple(
                module.OffsetFetchRequestGroup(
                    group_id=group, topics=(module.OffsetFetchRequestTopics(name="t", partition_indexes=(0, 1)),)
                )
                for group in ("group-0", "group-1")
            )
        )
        told = await answer(module.API, version, request, to)
        assert [(group.group_id, group.error_code) for group in told.groups] == [
            ("group-0", LOADING),
            ("group-1", E.NONE),
        ]
        assert [len(group.topics) for group in told.groups] == [0, 1]
        return
    topics = (module.OffsetFetchRequestTopic("t", (0, 1)), module.OffsetFetchRequestTopic("u", (5,)))
    told = await answer(module.API, version, module.OffsetFetchRequest("group-0", topics), to)
    if version >= 2:
        assert (told.error_code, told.topics) == (LOADING, ())
    else:
        assert [
            (topic.name, p.partition_index, p.committed_offset, p.error_code)
            for topic in told.topics
            for p in topic.partitions
        ] == [("t", 0, -1, LOADING), ("t", 1, -1, LOADING), ("u", 5, -1, LOADING)]


class Fetched:
    """The coordinator of a partition in which every offset is 42."""

    def offset_fetch(
        self, group: offset_fetch.OffsetFetchRequestGroup, *, require_stable: bool
    ) -> offset_fetch.OffsetFetchResponseGroup:
        assert group.topics is not None
        assert not require_stable
        return offset_fetch.OffsetFetchResponseGroup(
            group.group_id,
            tuple(
                offset_fetch.OffsetFetchResponseTopics(
                    topic.name,
                    partitions=tuple(
                        offset_fetch.OffsetFetchResponsePartitions(index, 42, 3, "m")
                        for index in topic.partition_indexes
                    ),
                )
                for topic in group.topics
            ),
        )


@pytest.mark.parametrize("version", range(1, 8))
async def test_an_old_offset_fetch_gets_the_offsets_of_its_one_group(version: int) -> None:
    request = offset_fetch.OffsetFetchRequest("group-0", (offset_fetch.OffsetFetchRequestTopic("t", (0, 9)),))
    told = await answer(offset_fetch.API, version, request, await services({0: Fetched()}))
    (topic,) = told.topics
    assert [(p.partition_index, p.committed_offset, p.metadata, p.error_code) for p in topic.partitions] == [
        (0, 42, "m", E.NONE),
        (9, 42, "m", E.NONE),
    ]
    assert {p.committed_leader_epoch for p in topic.partitions} == {3 if version >= 5 else -1}


@pytest.mark.parametrize("version", range(2, 10))
async def test_a_failed_offset_commit_answers_every_partition(version: int) -> None:
    module = offset_commit
    topics = tuple(
        module.OffsetCommitRequestTopic(
            name, partitions=tuple(module.OffsetCommitRequestPartition(index, 1) for index in indexes)
        )
        for name, indexes in (("t", (0, 3)), ("u", (1,)))
    )
    request = module.OffsetCommitRequest("group-0", topics=topics)
    told = await answer(module.API, version, request, await services({0: NOT_AVAILABLE}))
    assert [(t.name, p.partition_index, p.error_code) for t in told.topics for p in t.partitions] == [
        ("t", 0, NOT_AVAILABLE),
        ("t", 3, NOT_AVAILABLE),
        ("u", 1, NOT_AVAILABLE),
    ]


def _commits(version: int, generation_id: int, partitions: Sequence[int]) -> list[bytes]:
    module = offset_commit
    return [
        module.API.request_frame(
            version,
            number,
            "me",
            module.OffsetCommitRequest(
                "group-0",
                generation_id,
                topics=(
                    module.OffsetCommitRequestTopic(
                        "t", partitions=(module.OffsetCommitRequestPartition(partition, number),)
                    ),
                ),
            ),
        )
        for number, partition in enumerate(partitions)
    ]


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("state", ["ok", "refused", "failed"])
async def test_commits_in_a_row_are_answered_as_one_by_one(version: int, state: str) -> None:
    """That these are known is what the first time is for."""
    frames = _commits(version, 3 if state == "refused" else -1, [0, 1, 1, 5])
    route = ROUTES[offset_commit.API.key << 16 | version]
    assert route.several is not None
    one_by_one: list[bytes] = []
    to = await services({0: NOT_AVAILABLE if state == "failed" else GroupCoordinator()})
    for frame in frames:
        served, made = call(offset_commit.API, version, frame, Client(), one_by_one.append)
        assert served.handle(to, made) is None
    data = b"before" + b"".join(frames) + frames[0][:20]
    for most in (4, 100):
        client = Client()
        assert route.several(to, client, data, 6, most) == len(data) - 20
        assert client.places == [4]
        assert client.answered == [b"".join(one_by_one)]
    for position, most in ((6, 1), (6 + 3 * len(frames[0]), 100)):
        client = Client()
        assert route.several(to, client, data, position, most) == position
        assert client.places == []


async def test_who_commits_is_told_however_many_commits_come() -> None:
    told: list[Caller] = []

    class Noting:
        """Coordinator and runtime in one."""

        def partition_of(self, group_id: str) -> int:
            return 0

        def submit(self, partition: int, operation: Any, ticket: object, *, after_flight: bool = True) -> None:
            operation(self, 0, ticket)

        def offset_commit(self, now: int, caller: Caller, *_: object) -> None:
            told.append(caller)

    to = (await services({}))._replace(runtime=cast(Any, Noting()))
    frames = _commits(9, -1, [0, 1])
    route = ROUTES[offset_commit.API.key << 16 | 9]
    assert route.several is not None
    assert route.several(to, Client(), b"".join(frames), 0, 100)
    _, made = call(offset_commit.API, 9, frames[0], Client(), lambda _: None)
    told.append(made.caller)
    assert told == [Caller("me", "/127.0.0.1", "User:alice")] * 2


async def test_commits_in_a_row_of_which_one_may_not_be_there_are_left_alone() -> None:
    to = await services({0: GroupCoordinator()}, topics=topics_of(Brokers()))
    route = ROUTES[offset_commit.API.key << 16 | 9]
    frames = _commits(9, -1, [0, 1])
    for frame in frames:
        offset_commit_rows.API.parse_request(9, frame, 4)
    assert route.several is not None
    assert route.several(to, Client(), b"".join(frames), 0, 100) == 0


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize(
    ("state", "told"),
    [(LOADING, E.NONE), (NOT_AVAILABLE, NOT_AVAILABLE), (E.NOT_COORDINATOR, E.NOT_COORDINATOR)],
)
async def test_a_heartbeat_while_its_partition_loads_is_answered_as_if_all_were_well(
    version: int, state: ErrorCode, told: ErrorCode
) -> None:
    to = await services({0: state})
    request = heartbeat.HeartbeatRequest("group-0", 3, "me")
    assert (await answer(heartbeat.API, version, request, to)).error_code == told
    assert to.runtime.held == [False]  # type: ignore[attr-defined]  # it is tests.api.driving.Partitions


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize(
    ("state", "told"),
    [(LOADING, E.REBALANCE_IN_PROGRESS), (NOT_AVAILABLE, NOT_AVAILABLE), (E.NOT_COORDINATOR, E.NOT_COORDINATOR)],
)
async def test_who_brings_a_sync_group_while_its_partition_loads_is_to_join_again(
    version: int, state: ErrorCode, told: ErrorCode
) -> None:
    request = sync_group.SyncGroupRequest("group-0", 3, "me", None, "consumer", "range")
    response = await answer(sync_group.API, version, request, await services({0: state}))
    assert (response.error_code, response.assignment) == (told, b"")


OFFSETS_TO_DELETE = (
    offset_delete.OffsetDeleteRequestTopic("orders", (offset_delete.OffsetDeleteRequestPartition(0),)),
)
# (API, version, request, the response's field that says so beside the error)
FAILED: list[tuple[Api[Any, Any], int, Any, dict[str, Any]]] = [
    (join_group.API, 6, join_group.JoinGroupRequest("group-0", 1, member_id="me"), {"protocol_name": ""}),
    (join_group.API, 7, join_group.JoinGroupRequest("group-0", 1, member_id="me"), {"protocol_name": None}),
    (join_group.API, 9, join_group.JoinGroupRequest("group-0", 1, member_id="me"), {"member_id": "me", "leader": ""}),
    (leave_group.API, 0, leave_group.LeaveGroupRequest("group-0", "me"), {}),
    (leave_group.API, 5, leave_group.LeaveGroupRequest("group-0"), {"members": ()}),
    (offset_delete.API, 0, offset_delete.OffsetDeleteRequest("group-0", OFFSETS_TO_DELETE), {"topics": ()}),
]


@pytest.mark.parametrize(("api", "version", "request_", "fields"), FAILED)
async def test_other_group_requests_that_fail(
    api: Api[Any, Any], version: int, request_: Any, fields: dict[str, Any]
) -> None:
    told = await answer(api, version, request_, await services({0: LOADING}))
    assert told.error_code == LOADING
    assert {name: getattr(told, name) for name in fields} == fields


async def test_a_group_that_cannot_be_described_says_so_beside_those_that_can() -> None:
    class Described:
        def describe_group(self, group_id: str, version: int) -> describe_groups.DescribedGroup:
            return describe_groups.DescribedGroup(E.NONE, group_id=group_id, group_state="Stable")

    request = describe_groups.DescribeGroupsRequest(("group-1", "group-0", "group-1"))
    told = await answer(describe_groups.API, 5, request, await services({0: LOADING, 1: Described()}))
    assert [(group.group_id, group.error_code, group.group_state) for group in told.groups] == [
        ("group-1", E.NONE, "Stable"),
        ("group-0", LOADING, ""),
        ("group-1", E.NONE, "Stable"),
    ]


READ_DELETE_AND_DESCRIBE = 1 << 3 | 1 << 6 | 1 << 8


@pytest.mark.parametrize("version", range(7))
async def test_what_a_client_may_do_with_a_group_is_what_the_broker_says(version: int) -> None:
    """Asked for in versions 3 and newer; the group's coordinator there knows no such group, and says so up to v5."""
    api, asked = describe_groups.API, []

    class Described:
        def describe_group(self, group_id: str, version: int) -> describe_groups.DescribedGroup:
            found = group_id != "unknown-1"
            return describe_groups.DescribedGroup(E.NONE if found else E.GROUP_ID_NOT_FOUND, group_id=group_id)

    def broker(frame: bytes) -> bytes:
        sent = int.from_bytes(frame[6:8], "big")
        _, request = api.parse_request(sent, frame, 4)
        asked.append((sent, request))
        groups = [
            describe_groups.DescribedGroup(error, group_id=group, group_state="Dead", authorized_operations=operations)
            for group, error, operations in (
                ("unknown-1", E.NONE, 1),
                ("elsewhere-1", E.NOT_COORDINATOR, -(2**31)),
                ("group-1", E.NONE, READ_DELETE_AND_DESCRIBE),
                ("group-0", E.NONE, READ_DELETE_AND_DESCRIBE),
            )
        ]
        return api.response_frame(sent, 7, describe_groups.DescribeGroupsResponse(groups=tuple(groups)))

    request = describe_groups.DescribeGroupsRequest(("group-1", "elsewhere-1", "unknown-1", "group-0"), version >= 3)
    to = await services({0: LOADING, 1: Described()})
    told = await answer(api, version, request, to, Client(broker=broker))
    assert asked == ([(min(version, 5), request)] if version >= 3 else [])
    assert [(group.group_id, group.error_code, group.authorized_operations) for group in told.groups] == [
        ("group-1", E.NONE, READ_DELETE_AND_DESCRIBE if version >= 3 else -(2**31)),
        ("elsewhere-1", E.NONE, -(2**31)),
        ("unknown-1", E.GROUP_ID_NOT_FOUND, -(2**31)),
        ("group-0", LOADING, -(2**31)),
    ]


# DeleteGroups, OffsetDelete


@pytest.mark.parametrize("version", range(3))
async def test_each_group_is_deleted_once_and_tells_for_itself(version: int) -> None:
    deleted = []

    class Deleting:
        def delete_group(self, now: int, caller: Caller, group_id: str, ticket: Any) -> Outcome:
            deleted.append(group_id)
            error = E.NONE if group_id == "group-1" else E.NON_EMPTY_GROUP
            return Outcome([], [(ticket, delete_groups.DeletableGroupResult(group_id, error))])

    request = delete_groups.DeleteGroupsRequest(("group-1", "group-0", "other-1", "group-1", "group-0"))
    told = await answer(delete_groups.API, version, request, await services({0: LOADING, 1: Deleting()}))
    assert [(result.group_id, result.error_code) for result in told.results] == [
        ("group-1", E.NONE),
        ("group-0", LOADING),
        ("other-1", E.NON_EMPTY_GROUP),
    ]
    assert deleted == ["group-1", "other-1"]
    none = await answer(delete_groups.API, version, delete_groups.DeleteGroupsRequest(()), await services())
    assert none.results == ()


# Responses whose brokers' addresses are rewritten

IN_CLUSTER = {**BROKERS, **UNREACHABLE}
LEFT = [at(node_id) for node_id in BROKERS]


def metadata_response(version: int) -> metadata.MetadataResponse:
    return metadata.MetadataResponse(
        brokers=tuple(metadata.MetadataResponseBroker(node_id, *IN_CLUSTER[node_id]) for node_id in IN_CLUSTER),
        controller_id=WITHOUT_PORT,
    )


def cluster_response(version: int) -> describe_cluster.DescribeClusterResponse:
    brokers = tuple(describe_cluster.DescribeClusterBroker(node_id, *IN_CLUSTER[node_id]) for node_id in IN_CLUSTER)
    return describe_cluster.DescribeClusterResponse(0, 0, brokers=brokers)


def produce_response(version: int) -> produce.ProduceResponse:
    endpoints = tuple(produce.NodeEndpoint(node_id, *IN_CLUSTER[node_id]) for node_id in IN_CLUSTER)
    return produce.ProduceResponse((), node_endpoints=endpoints)


def share_acknowledge_response(version: int) -> share_acknowledge.ShareAcknowledgeResponse:
    endpoints = tuple(share_acknowledge.NodeEndpoint(node_id, *IN_CLUSTER[node_id]) for node_id in IN_CLUSTER)
    return share_acknowledge.ShareAcknowledgeResponse(0, 0, node_endpoints=endpoints)


async def rewritten(api: Api[Any, Any], version: int, response: Any) -> bytes:
    route = ROUTES[api.key << 16 | version].disposition
    assert isinstance(route, Rewritten)
    frame = route.rewrite(await services(), version, api.response_frame(version, 9, response))
    return frame if isinstance(frame, bytes) else await frame


@pytest.mark.parametrize(
    ("api", "version", "make", "field"),
    [
        *((metadata.API, version, metadata_response, "brokers") for version in range(14)),
        *((describe_cluster.API, version, cluster_response, "brokers") for version in range(3)),
        *((produce.API, version, produce_response, "node_endpoints") for version in range(10, 14)),
        *((share_acknowledge.API, version, share_acknowledge_response, "node_endpoints") for version in (1, 2)),
    ],
)
async def test_brokers_stand_at_the_shims_ports(api: Api[Any, Any], version: int, make: Any, field: str) -> None:
    before = make(version)
    frame = await rewritten(api, version, before)
    assert b"kafka" not in frame
    correlation_id, after = api.parse_response(version, frame, 4)
    assert correlation_id == 9
    told = [(getattr(b, "node_id", None) or b.broker_id, b.host, b.port) for b in getattr(after, field)]
    assert told == LEFT
    # Nothing but the addresses is another one.
    _, as_sent = api.parse_response(version, api.response_frame(version, 9, before), 4)
    assert after._replace(**{field: ()}) == as_sent._replace(**{field: ()})


@pytest.mark.parametrize("there", [True, False], ids=["that is there", "that nobody else knows of"])
async def test_a_client_is_told_of_a_new_broker_when_the_shim_has_looked_for_itself(there: bool) -> None:
    """Whether or not it finds it: what only a client's response names is never taken over."""
    to = await services(brokers={1: BROKERS[1]})
    views = []

    async def watch(view: Any) -> None:
        views.append(dict(view))

    async def look(seen: Any, *, whole: bool) -> None:
        assert set(seen) == set(IN_CLUSTER)
        if there:
            await to.cluster.take(IN_CLUSTER)

    to.cluster.watch(watch)
    to.cluster.hear = look  # type: ignore[method-assign]
    route = ROUTES[metadata.API.key << 16 | 9].disposition
    assert isinstance(route, Rewritten)
    frame = route.rewrite(to, 9, metadata.API.response_frame(9, 9, metadata_response(9)))
    assert not isinstance(frame, bytes)
    await frame
    assert views == ([IN_CLUSTER] if there else [])


async def test_controllers_are_not_told() -> None:
    controllers = cluster_response(2)._replace(endpoint_type=2)
    frame = await rewritten(describe_cluster.API, 2, controllers)
    assert describe_cluster.API.parse_response(2, frame, 4)[1].brokers == ()


async def test_a_produce_response_without_addresses_goes_on_byte_for_byte() -> None:
    frame = produce.API.response_frame(13, 9, produce.ProduceResponse((), throttle_time_ms=5))
    assert await rewritten(produce.API, 13, produce.ProduceResponse((), throttle_time_ms=5)) == frame


@pytest.mark.parametrize("version", [1, 2])
async def test_what_is_fetched_for_a_share_group_names_the_shims_ports(version: int) -> None:
    records = share_fetch.PartitionData(0, 0, records=b"records")
    endpoints = tuple(share_fetch.NodeEndpoint(node_id, *IN_CLUSTER[node_id]) for node_id in IN_CLUSTER)
    told = share_fetch.ShareFetchResponse(
        0, 0, responses=(share_fetch.ShareFetchableTopicResponse(bytes(16), (records,)),), node_endpoints=endpoints
    )
    client = Client(broker=lambda _: share_fetch.API.response_frame(version, 7, told))
    asked = share_fetch.ShareFetchRequest("g", "m", 0, 500, 1, max_records=10, batch_size=10)
    for likes, is_asked_for in ((1_000, 1_000), (0x7FFFFFFF, MOST_FETCH_BYTES)):
        after = await answer(share_fetch.API, version, asked._replace(max_bytes=likes), await services(), client)
        assert [(each.node_id, each.host, each.port) for each in after.node_endpoints] == LEFT
        assert after._replace(node_endpoints=()) == told._replace(node_endpoints=())
        _, passed_on = share_fetch.API.parse_request(version, client.asked.pop(), 4)
        assert passed_on == asked._replace(max_bytes=is_asked_for)


async def test_what_is_fetched_for_a_share_group_counts_until_the_client_has_it() -> None:
    def told(frame: bytes) -> bytes:
        return share_fetch.API.response_frame(2, 7, share_fetch.ShareFetchResponse(0, 0))

    asked = share_fetch.ShareFetchRequest("g", "m", 0, 500, 1, max_records=10, batch_size=10)
    clients = [Client(broker=told) for _ in range(5)]
    fetching = []
    for client in clients:
        client.reads.clear()
        fetching.append(asyncio.create_task(answer(share_fetch.API, 2, asked, await services(), client)))
    await until(lambda: all(client.asked for client in clients))
    limits = [share_fetch.API.parse_request(2, client.asked[0], 4)[1].max_bytes for client in clients]
    assert limits == [MOST_FETCH_BYTES] * 4 + [LEAST_FETCH_BYTES]
    for client in clients:
        client.reads.set()
    await asyncio.gather(*fetching)
    last = Client(broker=told)
    await answer(share_fetch.API, 2, asked, await services(), last)
    assert share_fetch.API.parse_request(2, last.asked[0], 4)[1].max_bytes == MOST_FETCH_BYTES


# ApiVersions


@pytest.mark.parametrize("version", range(5))
async def test_api_versions_offers_what_both_have(version: int) -> None:
    module = api_versions
    theirs = [(0, 3, 99), (1, 17, 20), (9, 0, 5), (80, 0, 0), (18, 0, 3)]
    response = module.ApiVersionsResponse(E.NONE, tuple(module.ApiVersion(*api) for api in theirs))
    client = Client(broker=lambda _: module.API.response_frame(version, 7, response))
    told = await answer(module.API, version, module.ApiVersionsRequest(), await services(), client)
    assert [api[:3] for api in told.api_keys] == [(0, 0, 13), (9, 0, 5), (18, 0, 3)]


@pytest.mark.parametrize(
    ("theirs", "ours"), [((4, 18), (0, 15)), ((0, 17), (0, 15)), ((0, 3), (0, 3)), ((11, 18), (11, 15))]
)
async def test_what_a_broker_dropped_is_offered_where_it_has_what_that_is_translated_to(
    theirs: tuple[int, int], ours: tuple[int, int]
) -> None:
    module = api_versions
    keys = (module.ApiVersion(1, *theirs), module.ApiVersion(11, 2, 9))  # JoinGroup as of 4.0, which the shim answers
    response = module.ApiVersionsResponse(E.NONE, keys)
    client = Client(broker=lambda _: module.API.response_frame(0, 7, response))
    told = await answer(module.API, 0, module.ApiVersionsRequest(), await services(), client)
    assert [api[:3] for api in told.api_keys] == [(1, *ours), (11, 0, 9)]


@pytest.mark.parametrize("version", range(5))
async def test_a_broker_that_lacks_the_version_of_api_versions_is_passed_on(version: int) -> None:
    module = api_versions
    refusal = module.ApiVersionsResponse(E.UNSUPPORTED_VERSION, (module.ApiVersion(18, 0, 2),))
    client = Client(broker=lambda _: module.API.response_frame(0, 7, refusal))
    assert await answer(module.API, version, module.ApiVersionsRequest(), await services(), client) == refusal


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize(("newest_commit", "announced"), [(10, True), (8, True), (7, False), (None, False)])
async def test_api_versions_announces_conditional_commits(
    version: int, newest_commit: int | None, announced: bool
) -> None:
    module = api_versions
    theirs = module.SupportedFeatureKey("metadata.version", 1, 29)
    offered = () if newest_commit is None else (module.ApiVersion(8, 2, newest_commit),)
    response = module.ApiVersionsResponse(E.NONE, offered, supported_features=(theirs,))
    client = Client(broker=lambda _: module.API.response_frame(version, 7, response))
    told = await answer(module.API, version, module.ApiVersionsRequest(), await services(), client)
    announced = announced and version >= 3
    assert conditional_commit.announced(told) == announced
    assert told.supported_features[:1] == ((theirs,) if version >= 3 else ())
    assert len(told.supported_features) == (version >= 3) + announced


# The call itself

TAGGED = find_coordinator.FindCoordinatorRequest(coordinator_keys=("g",), tagged=((77, b"unknown"),))


@pytest.mark.parametrize("client_id", [None, "", "me"])
async def test_the_broker_is_asked_what_the_client_asked(client_id: str | None) -> None:
    api = find_coordinator.API
    frame = api.request_frame(4, 7, client_id, TAGGED)
    client = Client(broker=lambda _: b"answered")
    _, made = call(api, 4, frame, client, lambda _: None)
    assert await made.ask_broker() == b"answered"
    assert client.asked == [frame]


def test_a_parked_request_does_not_keep_the_frame_that_it_came_in() -> None:
    frame = offset_commit.API.request_frame(8, 7, "me", offset_commit.OffsetCommitRequest("group-0"))
    before = sys.getrefcount(frame)
    _, made = call(offset_commit.API, 8, frame, Client(), lambda _: None)
    assert made.request.group_id == "group-0"
    assert sys.getrefcount(frame) == before


async def test_a_response_that_cannot_be_encoded_ends_the_connection() -> None:
    frames: list[bytes] = []
    client = Client()
    frame = heartbeat.API.request_frame(4, 7, "me", heartbeat.HeartbeatRequest("group-0", 3, "me"))
    _, made = call(heartbeat.API, 4, frame, client, frames.append)
    made.answer(heartbeat.HeartbeatResponse(error_code=1 << 20))
    assert not frames
    assert len(client.given_up) == 1
    assert "Heartbeat cannot be encoded" in client.given_up[0]
