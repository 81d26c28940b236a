"""What a client may see of the groups that another worker has."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from confluent_kafka.admin._acl import AclOperation
from confluent_kafka.admin._resource import ResourceType

from protocol.errors import ErrorCode
from protocol.messages import list_groups, offset_commit, offset_fetch
from tests.authorization.guarded import DESCRIBE_CLUSTER, Guarded, Rule
from tests.shim_process import Shim
from tests.wire import WireClient
from tests.workers.conftest import OFFSETS_PARTITIONS
from tests.workers.groups import of_both

CONNECTIONS = 8  # so that some are at either worker
FOR_A_WHILE = Rule(ResourceType.GROUP, "g-for-a-while", AclOperation.READ)


def committed(port: int, group: str) -> None:
    partition = offset_commit.OffsetCommitRequestPartition(0, 7)
    topic = offset_commit.OffsetCommitRequestTopic("t-read", partitions=(partition,))
    with WireClient(port) as client:
        response = client.ask(offset_commit.API, 7, offset_commit.OffsetCommitRequest(group_id=group, topics=(topic,)))
    assert response.topics[0].partitions[0].error_code == ErrorCode.NONE


def fetched(port: int, group: str) -> ErrorCode:
    topic = offset_fetch.OffsetFetchRequestTopic("t-read", (0,))
    with WireClient(port) as client:
        response = client.ask(offset_fetch.API, 7, offset_fetch.OffsetFetchRequest(group_id=group, topics=(topic,)))
    return ErrorCode.for_code(response.error_code)


def test_whichever_worker_answers_it_tells_what_the_client_may_see(guarded: Guarded) -> None:
    settings = {"authorization.cache.ms": 0, "offsets.topic.num.partitions": OFFSETS_PARTITIONS}
    guarded.give(FOR_A_WHILE)
    with (
        TemporaryDirectory(prefix="workers-") as folder,  # short enough for a socket in it
        Shim(
            guarded.broker.bootstrap_servers,
            Path(folder) / "data",
            settings=settings,
            args=["--workers", "2"],
            offsets_log="local",
        ) as shim,
    ):
        port = shim.broker_port(guarded.broker.node_id)
        seen, hidden = of_both("g-read-of-workers", 4), of_both("g-for-a-while", 4)
        ours = {*seen, *hidden}

        def listed() -> list[list[str]]:
            """Of these, what each of several connections is told."""
            found = []
            for _ in range(CONNECTIONS):
                with WireClient(port) as client:
                    response = client.ask(list_groups.API, 2, list_groups.ListGroupsRequest())
                assert response.error_code == ErrorCode.NONE
                found.append(sorted(group.group_id for group in response.groups if group.group_id in ours))
            return found

        for group in (*seen, *hidden):
            committed(port, group)
        assert listed() == [sorted(ours)] * CONNECTIONS
        guarded.take(FOR_A_WHILE)
        assert listed() == [sorted(seen)] * CONNECTIONS
        assert {fetched(port, group) for group in seen * 2} == {ErrorCode.NONE}
        assert {fetched(port, group) for group in hidden * 2} == {ErrorCode.GROUP_AUTHORIZATION_FAILED}
        guarded.give(DESCRIBE_CLUSTER)
        try:
            assert listed() == [sorted(ours)] * CONNECTIONS
        finally:
            guarded.take(DESCRIBE_CLUSTER)
