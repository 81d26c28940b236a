"""The same requests to a broker with an authorizer, and through the shim: the same answers, refusals and all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from protocol.api import Api
from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from protocol.group_kinds import OTHER_KINDS
from protocol.messages import (
    delete_groups,
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
    txn_offset_commit,
)
from shim.api import OFFERED
from shim.api.table import TO_WORKERS
from tests.authorization.guarded import DESCRIBE_CLUSTER, Guarded
from tests.wire import WireClient

GROUPS: Final = ("g-none-1", "g-read-1", "g-describe-1", "g-delete-1", "g-all-1", "")
AT_SHIM: Final = "-at-shim"
"""How groups' names end at the shim: it serves none that the broker has."""
TRANSACTIONAL_IDS: Final = ("x-none", "x-describe", "x-write", "")
ABSENT: Final = ("t-none-absent", "t-read-absent")
MIXED: Final = ("t-none-absent", "t-read-absent", "t-read", "t-describe", "t-none", "t-blind")
TOPICS: Final = (("t-read",), ("t-none",), ("t-blind", "t-describe"), MIXED, ("t-read-absent", "t-none", "t-read"), ())

# Of OffsetFetch.
FIRST_OF_ALL, FIRST_OF_MANY = 2, 8


class Asked(NamedTuple):
    api: Api[Any, Any]
    version: int
    request: Any


# What brokers have no more: nobody can be asked whether it is the same.
DROPPED = {offset_commit.API.key: 2, offset_fetch.API.key: 1}


def versions(api: Api[Any, Any]) -> range:
    offered = OFFERED[api.key]
    return range(max(offered.first, DROPPED.get(api.key, 0)), offered.last + 1)


def some_of(topic: str) -> tuple[offset_commit.OffsetCommitRequestPartition, ...]:
    """One of them does not exist, but where the shim, which is the same user here, could not find that out."""
    partitions = (0, 1) if topic == "t-blind" else (0, 1, 7)
    return tuple(offset_commit.OffsetCommitRequestPartition(partition, 5) for partition in partitions)


def commits() -> Iterator[Asked]:
    for version in versions(offset_commit.API):
        for group in GROUPS:
            for topics in TOPICS:
                wanted = tuple(offset_commit.OffsetCommitRequestTopic(n, partitions=some_of(n)) for n in topics)
                for generation, member in ((-1, ""), (3, "somebody")):
                    yield Asked(
                        offset_commit.API,
                        version,
                        offset_commit.OffsetCommitRequest(group, generation, member, topics=wanted),
                    )


def fetches() -> Iterator[Asked]:
    for version in versions(offset_fetch.API):
        for topics in (*TOPICS, None):
            if version < FIRST_OF_ALL and topics is None:
                continue
            for group in GROUPS:
                if version < FIRST_OF_MANY:
                    of_one = tuple(offset_fetch.OffsetFetchRequestTopic(name, (0, 1)) for name in topics or ())
                    request = offset_fetch.OffsetFetchRequest(group, None if topics is None else of_one)
                    yield Asked(offset_fetch.API, version, request)
                    continue
                named = tuple(
                    offset_fetch.OffsetFetchRequestTopics(name, partition_indexes=(0, 1)) for name in topics or ()
                )
                groups = tuple(
                    offset_fetch.OffsetFetchRequestGroup(each, topics=None if topics is None else named)
                    for each in (group, "g-none-2", "g-all-1", group)
                )
                yield Asked(offset_fetch.API, version, offset_fetch.OffsetFetchRequest(groups=groups))
                yield Asked(offset_fetch.API, version, offset_fetch.OffsetFetchRequest(groups=groups[:1]))


def of_members() -> Iterator[Asked]:
    for group in GROUPS:
        for version in versions(heartbeat.API):
            yield Asked(heartbeat.API, version, heartbeat.HeartbeatRequest(group, 1, "somebody"))
        for version in versions(leave_group.API):
            one = leave_group.LeaveGroupRequest(group, "somebody")
            many = leave_group.LeaveGroupRequest(group, members=(leave_group.MemberIdentity("somebody"),))
            yield Asked(leave_group.API, version, one if version < 3 else many)
        for version in versions(sync_group.API):
            # From version 5 on it lacks what it must have, which a broker says before it authorizes.
            yield Asked(sync_group.API, version, sync_group.SyncGroupRequest(group, 1, "somebody"))
            if version >= 5:
                whole = sync_group.SyncGroupRequest(
                    group, 1, "somebody", protocol_type="consumer", protocol_name="range"
                )
                yield Asked(sync_group.API, version, whole)
        for version in versions(join_group.API):
            protocols = (join_group.JoinGroupRequestProtocol("range", b""),)
            request = join_group.JoinGroupRequest(
                group, 10_000, member_id="unknown", protocol_type="consumer", protocols=protocols
            )
            yield Asked(join_group.API, version, request)


def descriptions() -> Iterator[Asked]:
    for version in versions(describe_groups.API):
        for with_operations in (False, True) if version >= 3 else (False,):
            for groups in (GROUPS, ("g-none-1", "g-none-2"), *((group,) for group in GROUPS), ()):
                request = describe_groups.DescribeGroupsRequest(groups, with_operations)
                yield Asked(describe_groups.API, version, request)


def of_other_protocols() -> Iterator[Asked]:
    """Of groups that have the classic one, at a broker as at the shim."""
    for kind in OTHER_KINDS:
        for version in versions(kind.heartbeat):
            for group in GROUPS:
                yield Asked(kind.heartbeat, version, kind.heartbeat.request(group, "somebody", 3))
        for version in versions(kind.describe):
            for groups in (GROUPS, ("g-none-1", "g-none-2"), *((group,) for group in GROUPS), ()):
                yield Asked(kind.describe, version, kind.describe.request(groups, False))


def lists() -> Iterator[Asked]:
    for version in versions(list_groups.API):
        yield Asked(list_groups.API, version, list_groups.ListGroupsRequest())


def coordinators() -> Iterator[Asked]:
    for version in range(1, OFFERED[find_coordinator.API.key].last + 1):
        for key_type, key in ((0, "g-none-1"), (1, "x-none")):
            one = find_coordinator.FindCoordinatorRequest(key=key, key_type=key_type)
            many = find_coordinator.FindCoordinatorRequest(key_type=key_type, coordinator_keys=(key,))
            yield Asked(find_coordinator.API, version, one if version < 4 else many)


def transactional_commits() -> Iterator[Asked]:
    """None of them is allowed: they commit nothing."""
    for version in versions(txn_offset_commit.API):
        for transactional_id in TRANSACTIONAL_IDS:
            for group in GROUPS:
                for topics in (("t-none",), ("t-describe", "t-none-absent"), MIXED, ("t-read",)):
                    may = transactional_id == "x-write" and group in ("g-read-1", "g-all-1")
                    if may and any(topic.startswith(("t-read", "t-blind")) for topic in topics):
                        continue
                    wanted = tuple(
                        txn_offset_commit.TxnOffsetCommitRequestTopic(
                            name, (txn_offset_commit.TxnOffsetCommitRequestPartition(0, 4),)
                        )
                        for name in topics
                    )
                    request = txn_offset_commit.TxnOffsetCommitRequest(transactional_id, group, 77, 0, topics=wanted)
                    yield Asked(txn_offset_commit.API, version, request)


def deletions_of_offsets() -> Iterator[Asked]:
    for group in (*GROUPS, "g-delete-absent"):
        for topics in TOPICS:
            wanted = tuple(
                offset_delete.OffsetDeleteRequestTopic(
                    name, tuple(offset_delete.OffsetDeleteRequestPartition(p.partition_index) for p in some_of(name))
                )
                for name in topics
            )
            yield Asked(offset_delete.API, 0, offset_delete.OffsetDeleteRequest(group, wanted))


def deletions() -> Iterator[Asked]:
    for version in versions(delete_groups.API):
        for groups in ((*GROUPS, "g-delete-absent", "g-none-1"), *((group,) for group in GROUPS), ()):
            yield Asked(delete_groups.API, version, delete_groups.DeleteGroupsRequest(groups))


# In this order: what is committed first is read, and deleted, after that.
SCENARIOS: Final[tuple[Callable[[], Iterator[Asked]], ...]] = (
    commits,
    fetches,
    of_members,
    descriptions,
    of_other_protocols,
    lists,
    coordinators,
    transactional_commits,
    deletions_of_offsets,
    deletions,
)


def test_the_table_covers_every_api_that_the_shim_decides() -> None:
    asked = {each.api.key for scenario in SCENARIOS for each in scenario()}
    assert {route.key for route in TO_WORKERS.values()} | {ApiKey.FIND_COORDINATOR} == asked


def test_the_same_answers_as_at_the_broker(guarded: Guarded, direct: WireClient, client: WireClient) -> None:
    for scenario in SCENARIOS:
        assert_same(scenario, direct, client)
        if scenario is lists:
            lists_of_who_may_describe_the_cluster(guarded, direct, client.socket.getpeername()[1])


def lists_of_who_may_describe_the_cluster(guarded: Guarded, direct: WireClient, shims_port: int) -> None:
    """Who lists all groups may describe none the more for it."""
    guarded.give(DESCRIBE_CLUSTER)
    try:
        with WireClient(shims_port) as through_the_shim:
            for scenario in lists, descriptions:
                assert_same(scenario, direct, through_the_shim)
    finally:
        guarded.take(DESCRIBE_CLUSTER)


def assert_same(scenario: Callable[[], Iterator[Asked]], direct: WireClient, through_the_shim: WireClient) -> None:
    for api, version, request in scenario():
        # First, so that it serves the group of the empty name, too.
        answered = through_the_shim.ask(api, version, _each_text(request, _named_as_at_the_shim))
        if isinstance(answered, list_groups.ListGroupsResponse):  # it lists the broker's, too
            own = tuple(group for group in answered.groups if group.group_id.endswith(AT_SHIM) or not group.group_id)
            answered = answered._replace(groups=own)
        alike = _each_text(answered, lambda text: text.replace(AT_SHIM, ""))  # in messages, too
        expected = comparable(request, direct.ask(api, version, request))
        assert comparable(request, alike) == expected, (api.name, version, request)


def _named_as_at_the_shim(text: str) -> str:
    return f"{text}{AT_SHIM}" if text.startswith("g-") else text


def _each_text(value: Any, changed: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return changed(value)
    if isinstance(value, tuple):
        items = [_each_text(item, changed) for item in value]
        return value._make(items) if hasattr(value, "_make") else tuple(items)
    return value


_HEARTBEATS: Final[tuple[type[Any], ...]] = tuple(kind.heartbeat.response for kind in OTHER_KINDS)
_DESCRIPTIONS: Final[tuple[type[Any], ...]] = (
    describe_groups.DescribeGroupsResponse,
    *(kind.describe.response for kind in OTHER_KINDS),
)


def comparable(request: Any, response: Any) -> Any:
    """Without what a broker leaves open, the order of groups on several partitions and of topics that nobody named, and
    without other tests' groups."""
    if isinstance(request, offset_fetch.OffsetFetchRequest) and None in (
        request.topics,
        *(g.topics for g in request.groups),
    ):
        groups = tuple(group._replace(topics=tuple(sorted(group.topics))) for group in response.groups)
        response = response._replace(topics=tuple(sorted(response.topics)), groups=groups)
    if isinstance(response, list_groups.ListGroupsResponse):
        return response._replace(groups=tuple(sorted(group for group in response.groups if group.group_id in GROUPS)))
    if isinstance(response, _HEARTBEATS):
        assert response.error_code
        if response.error_code == ErrorCode.GROUP_ID_NOT_FOUND:  # with what to do about it, at the shim
            return response._replace(error_message="")
    if isinstance(response, _DESCRIPTIONS):
        hidden = [g for g in response.groups if g.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED]
        assert list(response.groups[: len(hidden)]) == hidden  # these are first
        return hidden, sorted(response.groups[len(hidden) :])
    if isinstance(response, delete_groups.DeleteGroupsResponse):
        refused = [r for r in response.results if r.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED]
        decided = len(response.results) - len(refused)
        assert list(response.results[decided:]) == refused  # these are last
        return sorted(response.results[:decided]), refused
    return response
