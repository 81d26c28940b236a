"""Requests of clients that may do nothing, or only a part: nothing that is refused comes to a coordinator."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final

import pytest

from protocol.api import Api
from protocol.apis import APIS, ApiKey
from protocol.errors import ErrorCode
from protocol.group_kinds import OTHER_KINDS
from protocol.messages import (
    delete_groups,
    describe_acls,
    describe_groups,
    fetch,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
    txn_offset_commit,
)
from protocol.own.conditional_commit import NOT_ATTEMPTED, expecting
from shim.api import OFFERED, ROUTES
from shim.api.table import TO_WORKERS
from shim.coordinator import GroupCoordinator
from tests.api.driving import Client, answer, call, services
from tests.security.authorizers import AUTHORIZER, NOT_KNOWN_YET, OLD_AUTHORIZER

GROUP: Final = "group-0"

REQUESTS: Final[dict[Api[Any, Any], Any]] = {
    offset_commit.API: offset_commit.OffsetCommitRequest(
        GROUP,
        topics=(
            offset_commit.OffsetCommitRequestTopic("t", partitions=(offset_commit.OffsetCommitRequestPartition(0, 5),)),
        ),
    ),
    offset_fetch.API: None,  # by version
    join_group.API: join_group.JoinGroupRequest(GROUP, 10_000, protocol_type="consumer", protocols=()),
    heartbeat.API: heartbeat.HeartbeatRequest(GROUP, 1, "m"),
    leave_group.API: None,
    sync_group.API: sync_group.SyncGroupRequest(GROUP, 1, "m", protocol_type="consumer", protocol_name="range"),
    describe_groups.API: describe_groups.DescribeGroupsRequest((GROUP,)),
    **{kind.heartbeat: kind.heartbeat.request(GROUP, "m", 0) for kind in OTHER_KINDS},
    **{kind.describe: kind.describe.request((GROUP,), False) for kind in OTHER_KINDS},
    list_groups.API: list_groups.ListGroupsRequest(),
    delete_groups.API: delete_groups.DeleteGroupsRequest((GROUP,)),
    offset_delete.API: offset_delete.OffsetDeleteRequest(
        GROUP, (offset_delete.OffsetDeleteRequestTopic("t", (offset_delete.OffsetDeleteRequestPartition(0),)),)
    ),
    txn_offset_commit.API: txn_offset_commit.TxnOffsetCommitRequest(
        "x",
        GROUP,
        1,
        0,
        topics=(
            txn_offset_commit.TxnOffsetCommitRequestTopic(
                "t", (txn_offset_commit.TxnOffsetCommitRequestPartition(0, 5),)
            ),
        ),
    ),
}


def request_of(api: Api[Any, Any], version: int) -> Any:
    if api is leave_group.API:
        if version < 3:
            return leave_group.LeaveGroupRequest(GROUP, "m")
        return leave_group.LeaveGroupRequest(GROUP, members=(leave_group.MemberIdentity("m"),))
    if api is offset_fetch.API:
        if version < 8:
            topics = (offset_fetch.OffsetFetchRequestTopic("t", (0,)),)
            return offset_fetch.OffsetFetchRequest(GROUP, topics)
        return offset_fetch.OffsetFetchRequest(groups=(offset_fetch.OffsetFetchRequestGroup(GROUP, topics=None),))
    return REQUESTS[api]


def all_requests() -> Iterator[Any]:
    for api in REQUESTS:
        for version in range(OFFERED[api.key].first, OFFERED[api.key].last + 1):
            yield pytest.param(api, version, id=f"{api.name}-{version}")


class Untouched(GroupCoordinator):
    """A coordinator that nobody may ask."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"the coordinator was asked for {name}")


def refuses(frame: bytes) -> bytes:
    """A broker that lets nobody do anything."""
    return answered(frame, set(), set())


def answered(frame: bytes, groups: set[str], topics: set[str]) -> bytes:
    """A broker that grants all rights to some groups and topics, and nothing else."""
    key, version, correlation_id = struct.unpack_from(">hhi", frame, 4)
    _, request = APIS[key].parse_request(version, frame, 4)

    def of_group(group_id: str) -> int:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE if group_id in groups else ErrorCode.GROUP_AUTHORIZATION_FAILED

    response: Any
    match ApiKey(key):
        case ApiKey.LIST_GROUPS:  # those of its own
            response = list_groups.ListGroupsResponse()
        case ApiKey.HEARTBEAT:
            response = heartbeat.HeartbeatResponse(error_code=of_group(request.group_id))
        case ApiKey.DESCRIBE_GROUPS:
            response = describe_groups.DescribeGroupsResponse(
                groups=tuple(describe_groups.DescribedGroup(of_group(name), group_id=name) for name in request.groups)
            )
        case ApiKey.OFFSET_DELETE:
            response = offset_delete.OffsetDeleteResponse(of_group(request.group_id), 0, ())
        case ApiKey.FETCH:
            response = fetch.FetchResponse(
                responses=tuple(
                    fetch.FetchableTopicResponse(
                        t.topic, partitions=(fetch.PartitionData(-1, 3 if t.topic in topics else 29, -1),)
                    )
                    for t in request.topics
                )
            )
        case ApiKey.OFFSET_COMMIT:
            kept_out = request.group_id not in groups
            response = offset_commit.OffsetCommitResponse(
                topics=tuple(
                    offset_commit.OffsetCommitResponseTopic(
                        t.name,
                        partitions=(
                            offset_commit.OffsetCommitResponsePartition(
                                -1, 30 if kept_out else 3 if t.name in topics else 29
                            ),
                        ),
                    )
                    for t in request.topics
                )
            )
        case ApiKey.LIST_OFFSETS:
            response = list_offsets.ListOffsetsResponse(
                topics=tuple(
                    list_offsets.ListOffsetsTopicResponse(
                        t.name, (list_offsets.ListOffsetsPartitionResponse(-1, 3 if t.name in topics else 29),)
                    )
                    for t in request.topics
                )
            )
        case ApiKey.TXN_OFFSET_COMMIT:
            response = txn_offset_commit.TxnOffsetCommitResponse(
                throttle_time_ms=0,
                topics=tuple(
                    txn_offset_commit.TxnOffsetCommitResponseTopic(
                        t.name,
                        (
                            txn_offset_commit.TxnOffsetCommitResponsePartition(
                                -1, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
                            ),
                        ),
                    )
                    for t in request.topics
                ),
            )
        case ApiKey.DESCRIBE_ACLS:
            response = describe_acls.DescribeAclsResponse(0, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None, ())
        case _:
            raise AssertionError(f"nobody expected {APIS[key]}")
    return APIS[key].response_frame(version, correlation_id, response)


def errors_in(message: Any) -> list[int]:
    """All error codes in it."""
    found: list[int] = []
    for name, value in zip(message._fields, message, strict=True):
        if name == "error_code":
            found.append(value)
        elif isinstance(value, tuple):
            for each in value:
                if hasattr(each, "_fields"):
                    found += errors_in(each)
    return found


def test_every_api_about_groups_is_asked_here() -> None:
    assert {ApiKey(api.key) for api in REQUESTS} == {route.key for route in TO_WORKERS.values()}


@pytest.mark.parametrize(("api", "version"), [case for case in all_requests() if case.values[0] is not list_groups.API])
async def test_who_may_do_nothing_is_refused_before_the_coordinator_is_asked(api: Api[Any, Any], version: int) -> None:
    to = await services({0: Untouched()}, authorizer=AUTHORIZER)
    response = await answer(api, version, request_of(api, version), to, Client(broker=refuses))
    refusals = {e for e in errors_in(response) if e != ErrorCode.NONE}
    expected = ErrorCode.GROUP_AUTHORIZATION_FAILED
    if api is txn_offset_commit.API:
        expected = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert refusals == {expected}


@pytest.mark.parametrize(("api", "version"), [case for case in all_requests() if case.values[0] is not list_groups.API])
async def test_where_the_cluster_cannot_be_asked_nobody_is_served(api: Api[Any, Any], version: int) -> None:
    """It has a broker that is too old: nobody is even asked."""
    to = await services({0: Untouched()}, authorizer=OLD_AUTHORIZER)
    response = await answer(api, version, request_of(api, version), to, Client(broker=None))
    assert any(e in errors_in(response) for e in (ErrorCode.GROUP_AUTHORIZATION_FAILED, 53))


@pytest.mark.parametrize(("api", "version"), list(all_requests()))
async def test_until_it_is_known_whether_there_is_an_authorizer_all_is_loading(
    api: Api[Any, Any], version: int
) -> None:
    to = await services({0: Untouched()}, authorizer=NOT_KNOWN_YET)
    response = await answer(api, version, request_of(api, version), to, Client(broker=None))
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if api is heartbeat.API:
        loading = ErrorCode.NONE
    elif api is sync_group.API:
        loading = ErrorCode.REBALANCE_IN_PROGRESS
    elif api.key == ApiKey.TXN_OFFSET_COMMIT and version < 2:
        loading = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert set(errors_in(response)) - {ErrorCode.NONE} == {loading} - {ErrorCode.NONE}


@pytest.mark.parametrize(("api", "version"), list(all_requests()))
@pytest.mark.parametrize("nonsense", [b"", b"\0\0\0\4\0\0\0\1"])
async def test_a_broker_that_answers_nonsense_opens_nothing(api: Api[Any, Any], version: int, nonsense: bytes) -> None:
    to = await services({0: Untouched()}, authorizer=AUTHORIZER)
    client = Client(broker=lambda frame: nonsense)
    frames: list[bytes] = []
    frame = api.request_frame(version, 7, "me", request_of(api, version))
    served, made = call(api, version, frame, client, frames.append)
    pending = served.handle(to, made)
    assert pending is not None
    with pytest.raises(ValueError):  # noqa: PT011 - of whatever kind: the session ends the connection
        await pending
    assert frames == []
    assert not client.paused


async def test_a_conditional_commit_is_refused_whole() -> None:
    """All of it, or nothing."""
    partition = expecting(offset_commit.OffsetCommitRequestPartition(0, 5), -1)
    topics = tuple(offset_commit.OffsetCommitRequestTopic(name, partitions=(partition,)) for name in ("yes", "no"))
    to = await services({0: Untouched()}, authorizer=AUTHORIZER)
    client = Client(broker=lambda frame: answered(frame, {GROUP}, {"yes"}))
    request = offset_commit.OffsetCommitRequest(GROUP, topics=topics)
    response = await answer(offset_commit.API, 8, request, to, client)
    assert [(t.name, t.partitions[0].error_code) for t in response.topics] == [
        ("no", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ("yes", NOT_ATTEMPTED),
    ]


async def test_what_is_left_of_a_commit_is_all_that_the_coordinator_sees() -> None:
    partitions = (offset_commit.OffsetCommitRequestPartition(0, 5),)
    topics = tuple(offset_commit.OffsetCommitRequestTopic(name, partitions=partitions) for name in ("no", "yes"))
    coordinator = GroupCoordinator()
    to = await services({0: coordinator}, authorizer=AUTHORIZER)
    client = Client(broker=lambda frame: answered(frame, {GROUP}, {"yes"}))
    request = offset_commit.OffsetCommitRequest(GROUP, topics=topics)
    response = await answer(offset_commit.API, 8, request, to, client)
    assert [(t.name, t.partitions[0].error_code) for t in response.topics] == [
        ("no", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ("yes", ErrorCode.NONE),
    ]
    all_there_is = offset_fetch.OffsetFetchRequestGroup(GROUP, topics=None)
    assert [topic.name for topic in coordinator.offset_fetch(all_there_is).topics] == ["yes"]


async def test_of_all_offsets_a_client_sees_those_of_topics_that_it_may_describe() -> None:
    coordinator = GroupCoordinator()
    partitions = (offset_commit.OffsetCommitRequestPartition(0, 5),)
    topics = tuple(offset_commit.OffsetCommitRequestTopic(name, partitions=partitions) for name in ("no", "yes"))
    commit = offset_commit.OffsetCommitRequest(GROUP, topics=topics)
    await answer(offset_commit.API, 8, commit, await services({0: coordinator}))

    to = await services({0: coordinator}, authorizer=AUTHORIZER)
    client = Client(broker=lambda frame: answered(frame, {GROUP}, {"yes"}))
    response = await answer(offset_fetch.API, 7, offset_fetch.OffsetFetchRequest(GROUP, None), to, client)
    assert [topic.name for topic in response.topics] == ["yes"]
    many = offset_fetch.OffsetFetchRequest(
        groups=tuple(offset_fetch.OffsetFetchRequestGroup(name, topics=None) for name in (GROUP, "other-0", GROUP))
    )
    response = await answer(offset_fetch.API, 8, many, to, client)
    assert [(g.group_id, g.error_code, [t.name for t in g.topics]) for g in response.groups] == [
        (GROUP, ErrorCode.NONE, ["yes"]),
        ("other-0", ErrorCode.GROUP_AUTHORIZATION_FAILED, []),
        (GROUP, ErrorCode.NONE, ["yes"]),
    ]


async def test_a_topic_that_comes_between_the_question_and_the_answer_is_not_left_out() -> None:
    """That would be as if nothing had been committed for it."""

    class Grows(GroupCoordinator):
        times = 0

        def offset_fetch(self, request: Any, *, require_stable: bool = False) -> Any:
            self.times += 1
            names = ["yes"] if self.times == 1 else ["yes", "new"]
            topics = tuple(offset_fetch.OffsetFetchResponseTopics(name, partitions=()) for name in names)
            return offset_fetch.OffsetFetchResponseGroup(GROUP, topics)

    to = await services({0: Grows()}, authorizer=AUTHORIZER)
    client = Client(broker=lambda frame: answered(frame, {GROUP}, {"yes"}))
    response = await answer(offset_fetch.API, 7, offset_fetch.OffsetFetchRequest(GROUP, None), to, client)
    assert (response.error_code, response.topics) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ())


@pytest.mark.parametrize("error", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR])
async def test_where_a_partition_cannot_tell_no_part_of_its_offsets_or_groups_is_shown(error: ErrorCode) -> None:
    to = await services({0: error}, authorizer=AUTHORIZER)
    client = Client(broker=lambda frame: answered(frame, {GROUP}, set()))
    fetched = await answer(offset_fetch.API, 7, offset_fetch.OffsetFetchRequest(GROUP, None), to, client)
    assert (fetched.error_code, fetched.topics) == (error, ())
    listed = await answer(list_groups.API, 4, list_groups.ListGroupsRequest(), to, client)
    assert listed.groups == ()
    assert listed.error_code in (error, ErrorCode.COORDINATOR_NOT_AVAILABLE)


class FailsOnce(dict[int, Any]):
    """Of a runtime: partition 0 cannot tell the first time that it is asked."""

    def __init__(self, coordinator: GroupCoordinator) -> None:
        super().__init__({0: coordinator})
        self._failed = False

    def __getitem__(self, partition: int) -> Any:
        if not self._failed:
            self._failed = True
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return super().__getitem__(partition)


async def test_nor_where_it_can_tell_a_moment_later() -> None:
    """When nobody was asked about what it has."""
    coordinator = GroupCoordinator()
    await answer(offset_commit.API, 8, REQUESTS[offset_commit.API], await services({0: coordinator}))
    client = Client(broker=lambda frame: answered(frame, {GROUP}, {"t"}))
    to = await services(FailsOnce(coordinator), authorizer=AUTHORIZER)
    fetched = await answer(offset_fetch.API, 7, offset_fetch.OffsetFetchRequest(GROUP, None), to, client)
    assert fetched.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    to = await services(FailsOnce(coordinator), authorizer=AUTHORIZER)
    listed = await answer(list_groups.API, 4, list_groups.ListGroupsRequest(), to, client)
    assert listed.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def test_only_groups_that_may_be_described_are_listed() -> None:
    coordinator = GroupCoordinator()
    before = await services({0: coordinator})
    partitions = (offset_commit.OffsetCommitRequestPartition(0, 5),)
    for group in (GROUP, "other-0"):
        topics = (offset_commit.OffsetCommitRequestTopic("t", partitions=partitions),)
        await answer(offset_commit.API, 8, offset_commit.OffsetCommitRequest(group, topics=topics), before)
    to = await services({0: coordinator}, authorizer=AUTHORIZER)
    client = Client(broker=lambda frame: answered(frame, {GROUP}, set()))
    listed = await answer(list_groups.API, 4, list_groups.ListGroupsRequest(), to, client)
    assert [group.group_id for group in listed.groups] == [GROUP]


async def test_what_is_known_costs_no_question() -> None:
    coordinator = GroupCoordinator()
    to = await services({0: coordinator}, authorizer=AUTHORIZER)
    client = Client(broker=lambda frame: answered(frame, {GROUP}, {"t"}))
    for _ in range(3):
        response = await answer(offset_commit.API, 8, REQUESTS[offset_commit.API], to, client)
        assert errors_in(response) == [ErrorCode.NONE]
    assert len(client.asked) == 2  # for the group, and for the topic


async def test_who_is_over_a_quota_is_told_to_ask_again_and_is_not_refused() -> None:
    """An OffsetDelete: whether its topics may be read is asked for with a Fetch."""

    def over_quota(frame: bytes) -> bytes:
        key, version, correlation_id = struct.unpack_from(">hhi", frame, 4)
        if key != ApiKey.FETCH:
            return answered(frame, {GROUP}, {"t"})
        return fetch.API.response_frame(version, correlation_id, fetch.FetchResponse(throttle_time_ms=1000))

    to, client = await services({0: Untouched()}, authorizer=AUTHORIZER), Client(broker=over_quota)
    response = await answer(offset_delete.API, 0, REQUESTS[offset_delete.API], to, client)
    assert (response.error_code, response.topics) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ())
    assert len(client.rights) == 1, "of the group it was said that it may be deleted from"


async def test_what_was_granted_before_is_of_no_use_where_the_cluster_cannot_be_asked_any_more() -> None:
    client = Client(broker=lambda frame: answered(frame, {GROUP}, {"t"}))
    to = await services({0: GroupCoordinator()}, authorizer=AUTHORIZER)
    await answer(offset_commit.API, 8, REQUESTS[offset_commit.API], to, client)
    to = await services({0: Untouched()}, authorizer=OLD_AUTHORIZER)
    response = await answer(offset_commit.API, 8, REQUESTS[offset_commit.API], to, client)
    assert errors_in(response) == [ErrorCode.GROUP_AUTHORIZATION_FAILED]


@pytest.mark.parametrize("known", [False, True])
async def test_commits_in_a_row_are_taken_together_when_all_is_granted(known: bool) -> None:
    to = await services({0: GroupCoordinator()}, authorizer=AUTHORIZER)
    client = Client(broker=lambda frame: answered(frame, {GROUP}, {"t"}))
    if known:
        await answer(offset_commit.API, 8, REQUESTS[offset_commit.API], to, client)
    frames = [offset_commit.API.request_frame(8, n, "me", REQUESTS[offset_commit.API]) for n in range(3)]
    data = b"".join(frames)
    several = ROUTES[offset_commit.API.key << 16 | 8].several
    assert several is not None
    assert several(to, client, data, 0, 100) == (len(data) if known else 0)
    assert client.places == ([3] if known else [])
