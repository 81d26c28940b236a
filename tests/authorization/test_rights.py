"""What a client may not do it cannot do, and what it may no longer do stops soon."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka.admin._acl import AclOperation
from confluent_kafka.admin._resource import ResourceType

from protocol.errors import ErrorCode
from protocol.messages import delete_groups, describe_groups, join_group, list_groups, offset_delete, offset_fetch
from protocol.messages import offset_commit as commits
from tests.authorization.conftest import CACHE_MS
from tests.authorization.guarded import DESCRIBE_CLUSTER, Guarded, Rule, made_broker
from tests.shim_process import Shim
from tests.waiting import wait_until
from tests.wire import WireClient

NO_GROUP: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
NO_TOPIC: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
TIMEOUT_S: Final = 30.0
_ASKS_AGAIN: Final = 10_000
TOPIC: Final = "t-read"


@pytest.fixture
def rules(guarded: Guarded, fresh_name: Callable[[], str]) -> Iterator[Callable[..., tuple[str, list[Rule]]]]:
    """Gives a group that the client may do such things with; they are taken back in the end."""
    given: list[Rule] = []

    def give(*operations: AclOperation) -> tuple[str, list[Rule]]:
        group = fresh_name()
        made = [Rule(ResourceType.GROUP, group, operation) for operation in operations]
        guarded.give(*made)
        given.extend(made)
        return group, made

    yield give
    guarded.take(*given)


def commit(client: WireClient, group: str, offset: int, topic: str = TOPIC) -> int:
    """The error code."""
    wanted = commits.OffsetCommitRequestTopic(topic, partitions=(commits.OffsetCommitRequestPartition(0, offset),))
    answer = client.ask(commits.API, 8, commits.OffsetCommitRequest(group, topics=(wanted,)))
    return answer.topics[0].partitions[0].error_code


def fetch(client: WireClient, group: str) -> tuple[int, list[int]]:
    """The error code, and the offsets of all topics."""
    answer = client.ask(offset_fetch.API, 7, offset_fetch.OffsetFetchRequest(group, None))
    return answer.error_code, [p.committed_offset for topic in answer.topics for p in topic.partitions]


def listed(client: WireClient) -> set[str]:
    answer = client.ask(list_groups.API, 4, list_groups.ListGroupsRequest())
    assert answer.error_code == ErrorCode.NONE
    return {group.group_id for group in answer.groups}


def assert_kept_out(client: WireClient, group: str) -> None:
    """It can neither read, move, list nor delete the group's offsets, nor become a member."""
    assert fetch(client, group) == (NO_GROUP, [])
    assert commit(client, group, 8) == NO_GROUP
    assert group not in listed(client)
    (described,) = client.ask(describe_groups.API, 5, describe_groups.DescribeGroupsRequest((group,))).groups
    assert (described.error_code, described.group_state) == (NO_GROUP, "")
    topics = (offset_delete.OffsetDeleteRequestTopic(TOPIC, (offset_delete.OffsetDeleteRequestPartition(0),)),)
    deleted = client.ask(offset_delete.API, 0, offset_delete.OffsetDeleteRequest(group, topics))
    assert (deleted.error_code, deleted.topics) == (NO_GROUP, ())
    (result,) = client.ask(delete_groups.API, 2, delete_groups.DeleteGroupsRequest((group,))).results
    assert result.error_code == NO_GROUP
    joined = client.ask(
        join_group.API,
        5,
        join_group.JoinGroupRequest(
            group, 10_000, protocol_type="consumer", protocols=(join_group.JoinGroupRequestProtocol("range", b""),)
        ),
    )
    assert (joined.error_code, joined.members) == (NO_GROUP, ())


def without_cache() -> None:
    time.sleep(1.2 * CACHE_MS / 1000)  # so long is an answer believed


def test_a_client_without_rights_can_neither_read_move_list_nor_delete_offsets(
    guarded: Guarded, client: WireClient, rules: Callable[..., tuple[str, list[Rule]]]
) -> None:
    group, given = rules(AclOperation.ALL)
    assert commit(client, group, 7) == ErrorCode.NONE
    assert group in listed(client)
    guarded.take(*given)
    without_cache()

    assert_kept_out(client, group)
    guarded.give(DESCRIBE_CLUSTER)
    without_cache()
    assert group in listed(client)
    guarded.take(DESCRIBE_CLUSTER)
    without_cache()
    assert group not in listed(client)
    assert_kept_out(client, group)

    guarded.give(*given)
    without_cache()
    assert fetch(client, group) == (ErrorCode.NONE, [7])


def test_what_was_refused_is_allowed_soon_after_the_right_is_there(
    guarded: Guarded, client: WireClient, fresh_name: Callable[[], str]
) -> None:
    group = fresh_name()
    assert commit(client, group, 1) == NO_GROUP
    rule = Rule(ResourceType.GROUP, group, AclOperation.READ)
    guarded.give(rule)
    try:
        deadline = time.monotonic() + TIMEOUT_S
        while (error := commit(client, group, 1)) != ErrorCode.NONE:
            assert error == NO_GROUP
            assert time.monotonic() < deadline
    finally:
        guarded.take(rule)


def test_commits_that_are_read_together_are_not_let_through_together(
    guarded: Guarded, client: WireClient, rules: Callable[..., tuple[str, list[Rule]]]
) -> None:
    group, given = rules(AclOperation.READ)

    def many(offset: int) -> set[int]:
        wanted = commits.OffsetCommitRequestTopic(TOPIC, partitions=(commits.OffsetCommitRequestPartition(0, offset),))
        request = commits.OffsetCommitRequest(group, topics=(wanted,))
        frames = [commits.API.request_frame(8, 1000 + number, "wire", request) for number in range(20)]
        client.socket.sendall(b"".join(frames))
        answers = [client.receive(commits.API, 8) for _ in frames]
        assert [correlation_id for correlation_id, _ in answers] == list(range(1000, 1020))
        return {answer.topics[0].partitions[0].error_code for _, answer in answers}

    assert many(1) == {ErrorCode.NONE}
    assert many(2) == {ErrorCode.NONE}
    guarded.take(*given)
    without_cache()
    assert many(3) == {NO_GROUP}
    guarded.give(*given)
    without_cache()
    assert fetch(client, group) == (ErrorCode.NONE, [2])


def test_nobody_learns_which_topics_there_are(client: WireClient, rules: Callable[..., tuple[str, list[Rule]]]) -> None:
    group, _ = rules(AclOperation.READ)
    assert commit(client, group, 1, "t-none") == commit(client, group, 1, "t-none-absent") == NO_TOPIC


def test_what_one_connection_may_do_is_no_matter_of_another(
    shim: Shim, guarded: Guarded, client: WireClient, rules: Callable[..., tuple[str, list[Rule]]]
) -> None:
    """Each asks for itself: it may be somebody else."""
    group, given = rules(AclOperation.READ)
    assert commit(client, group, 1) == ErrorCode.NONE
    guarded.take(*given)
    with WireClient(shim.broker_port(guarded.broker.node_id)) as other:
        assert commit(other, group, 2) == NO_GROUP
    guarded.give(*given)


def test_where_the_broker_cannot_be_asked_nothing_is_served(
    guarded: Guarded, tmp_path: Path, rules: Callable[..., tuple[str, list[Rule]]]
) -> None:
    group, _ = rules(AclOperation.READ)
    settings = {"authorization.cache.ms": 0, "socket.connection.setup.timeout.ms": 1000}
    with Shim(guarded.broker.bootstrap_servers, tmp_path / "data", settings=settings) as shim:
        port = shim.broker_port(guarded.broker.node_id)
        with WireClient(port) as client:
            assert commit(client, group, 1) == ErrorCode.NONE
            guarded.broker.kill()
            try:
                with pytest.raises(ConnectionError):
                    commit(client, group, 2)
                with WireClient(port) as other, pytest.raises(ConnectionError):
                    fetch(other, group)
            finally:
                guarded.broker.start()
        with WireClient(port) as client:
            assert fetch(client, group) == (ErrorCode.NONE, [1])


def test_a_cluster_that_gets_an_authorizer_is_asked_from_then_on(tmp_path: Path, group: str) -> None:
    settings = {"topology.refresh.interval.ms": 100}
    before = made_broker(tmp_path / "broker", has_authorizer=False)
    with before, Shim(before.bootstrap_servers, tmp_path / "data", settings=settings) as shim:
        assert "the cluster has no authorizer" in shim.log()
        with WireClient(shim.broker_port(before.node_id)) as client:
            # As below: whose group that is is asked first.
            errors = (commit(client, group, 1, "any") for _ in range(_ASKS_AGAIN))
            told = next(error for error in errors if error != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            assert told == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            before.stop()
            # The client asks for nothing of the broker's, so it does not lose its connection.
            assert fetch(client, group) == (ErrorCode.NONE, [])
        with made_broker(tmp_path / "broker", instead_of=before):
            wait_until(lambda: "the cluster has an authorizer" in shim.log(), "it is not seen")
            with WireClient(shim.broker_port(before.node_id)) as client:
                # A broker that has just begun may not know yet who is whose coordinator.
                answers = (fetch(client, group) for _ in range(_ASKS_AGAIN))
                error = next(error for error, _ in answers if not ErrorCode(error).retriable)
            assert error == NO_GROUP
