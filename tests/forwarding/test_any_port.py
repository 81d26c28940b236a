"""Any port of any shim takes any group's request: what is answered there is what the owner answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kafka import KafkaConsumer

from protocol.api import Api
from protocol.errors import ErrorCode
from protocol.group_kinds import OTHER_KINDS, Kind
from protocol.messages import (
    add_offsets_to_txn,
    api_versions,
    delete_groups,
    describe_groups,
    end_txn,
    find_coordinator,
    heartbeat,
    init_producer_id,
    join_group,
    leave_group,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
    txn_offset_commit,
)
from protocol.partition import partition_for
from shim.api.table import OFFERED, TO_OWNERS
from shim.demo.parts import Cluster
from tests.certificates import Authority
from tests.forwarding.shims import NODES, extra_port, forwarding, owner_of, undisturbed
from tests.ownership.registers import PATIENCE_S
from tests.ownership.test_passing_on import commit_past_the_shims, committed_in_the_cluster
from tests.ownership.test_shims_together import GROUPS, PARTITIONS
from tests.shim_process import Shim
from tests.wire import WireClient

TOPIC: Final = "forwarded"


@pytest.fixture(scope="module")
def shims(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Shim]]:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic(TOPIC, 2, 3)])[TOPIC].result(PATIENCE_S)
    folder = tmp_path_factory.mktemp("forwarding")
    authority = Authority(folder)
    with forwarding(
        cluster,
        TOPIC,
        folder,
        extra_at_first=True,
        **{
            "listener.security.protocol.map": "EXTRA:PLAINTEXT,shims:SSL",
            "listener.name.shims.ssl.keystore.location": str(authority.keystore("shim.pem", common_name="shim")),
            "listener.name.shims.ssl.truststore.location": str(authority.truststore),
            "listener.name.shims.ssl.client.auth": "required",
            "shims.principals": "shim",
        },
    ) as running:
        yield running


def commit_of(group: str, offset: int, **more: Any) -> offset_commit.OffsetCommitRequest:
    partitions = (offset_commit.OffsetCommitRequestPartition(0, offset),)
    topics = (offset_commit.OffsetCommitRequestTopic(TOPIC, partitions=partitions),)
    return offset_commit.OffsetCommitRequest(group, topics=topics, **more)


def fetch_of(version: int, *groups: str) -> offset_fetch.OffsetFetchRequest:
    if version < 8:
        return offset_fetch.OffsetFetchRequest(groups[0], (offset_fetch.OffsetFetchRequestTopic(TOPIC, (0, 1)),))
    topics = (offset_fetch.OffsetFetchRequestTopics(TOPIC, partition_indexes=(0, 1)),)
    return offset_fetch.OffsetFetchRequest(
        groups=tuple(offset_fetch.OffsetFetchRequestGroup(group, topics=topics) for group in groups)
    )


def fetched(client: WireClient, group: str) -> int | ErrorCode:
    answer = client.ask(offset_fetch.API, 7, fetch_of(7, group))
    return ErrorCode.for_code(answer.error_code) or int(answer.topics[0].partitions[0].committed_offset)


def leave_of(version: int, group: str) -> leave_group.LeaveGroupRequest:
    if version < 3:
        return leave_group.LeaveGroupRequest(group, "nobody")
    return leave_group.LeaveGroupRequest(group, members=(leave_group.MemberIdentity("nobody", None),))


def delete_offsets_of(group: str) -> offset_delete.OffsetDeleteRequest:
    partitions = (offset_delete.OffsetDeleteRequestPartition(1),)
    return offset_delete.OffsetDeleteRequest(group, (offset_delete.OffsetDeleteRequestTopic(TOPIC, partitions),))


def txn_commit_of(group: str) -> txn_offset_commit.TxnOffsetCommitRequest:
    partitions = (txn_offset_commit.TxnOffsetCommitRequestPartition(0, 5),)
    topics = (txn_offset_commit.TxnOffsetCommitRequestTopic(TOPIC, partitions),)
    return txn_offset_commit.TxnOffsetCommitRequest("nobody's", group, 4711, 0, topics=topics)


def member_of(kind: Kind, _: int, group: str) -> Any:
    return kind.heartbeat.request(group, "nobody", 3)


def members_of(kind: Kind, _: int, group: str) -> Any:
    return kind.describe.request((group,), False)


def deleted_beside(group: str) -> str:
    """A name of the same offsets partition."""
    number = partition_for(group, PARTITIONS)
    return next(name for i in range(1000) if partition_for(name := f"deleted-{i}", PARTITIONS) == number)


Question = tuple[Api[Any, Any], Callable[[int, str], Any]]
QUESTIONS: Final[dict[int, Question]] = {
    api.key: (api, make)
    for api, make in (
        (offset_commit.API, lambda _, group: commit_of(group, 41)),
        (offset_fetch.API, lambda version, group: fetch_of(version, group)),
        # Brokers refuse this one at once, and name no member.
        (join_group.API, lambda _, group: join_group.JoinGroupRequest(group, 1, 1, "", protocol_type="consumer")),
        (heartbeat.API, lambda _, group: heartbeat.HeartbeatRequest(group, 1, "nobody")),
        (leave_group.API, leave_of),
        (sync_group.API, lambda _, group: sync_group.SyncGroupRequest(group, 1, "nobody", None, "consumer", "range")),
        (describe_groups.API, lambda _, group: describe_groups.DescribeGroupsRequest((group,))),
        (delete_groups.API, lambda _, group: delete_groups.DeleteGroupsRequest((deleted_beside(group),))),
        (offset_delete.API, lambda _, group: delete_offsets_of(group)),
        (txn_offset_commit.API, lambda _, group: txn_commit_of(group)),
    )
} | {
    api.key: (api, make)
    for kind in OTHER_KINDS
    for api, make in ((kind.heartbeat, partial(member_of, kind)), (kind.describe, partial(members_of, kind)))
}


LATER: Final = tuple(
    error.to_bytes(2, "big") for error in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE)
)
"""The second one of versions 0 and 1."""


def said(client: WireClient, api: Api[Any, Any], version: int, request: Any) -> bytes:
    """The response without its correlation id, once it is not that the client is to ask again."""
    until = time.monotonic() + PATIENCE_S
    while True:
        client.send(api, version, request)
        answer = client.receive_frame()[4:]
        if api.key != txn_offset_commit.API.key or not any(each in answer for each in LATER):
            return answer
        assert time.monotonic() < until


@pytest.mark.parametrize("key", sorted({route.key for route in TO_OWNERS.values()}))
@undisturbed
def test_every_version_at_every_port(shims: list[Shim], key: int) -> None:
    api, make = QUESTIONS[key]
    oldest, newest, _ = OFFERED[key]
    for group in GROUPS[:2]:
        owner, node = owner_of(shims, group)
        with WireClient(owner.broker_port(node)) as right:
            for each in (group, deleted_beside(group)):
                right.ask(offset_commit.API, 8, commit_of(each, 41))
            right.ask(delete_groups.API, 2, delete_groups.DeleteGroupsRequest((deleted_beside(group),)))
            for version in range(oldest, newest + 1):
                expected = said(right, api, version, make(version, group))
                for shim in shims:
                    # Where the cluster is asked as the client, the broker behind the port has to be the right one.
                    for at in (node,) if key == txn_offset_commit.API.key else NODES:
                        with WireClient(shim.broker_port(at)) as client:
                            assert said(client, api, version, make(version, group)) == expected, (group, version, at)


@undisturbed
def test_what_is_committed_at_the_wrong_port_is_there(shims: list[Shim]) -> None:
    """On new connections, as clients are led away from a broker that stands at another shim since a moment ago."""
    ports = [shim.broker_port(node) for shim in shims for node in NODES]
    for group in GROUPS:
        for offset, port in enumerate(ports, 100):
            with WireClient(port) as client:
                answer = client.ask(offset_commit.API, offset % 8 + 1, commit_of(group, offset))
            assert not answer.topics[0].partitions[0].error_code
            told = set()
            for each in ports:
                with WireClient(each) as client:
                    told.add(fetched(client, group))
            assert told == {offset}


@undisturbed
def test_requests_about_many_groups_are_divided(shims: list[Shim]) -> None:
    names = [*GROUPS, *GROUPS[::-1]]
    with WireClient(shims[0].port) as client:
        for place, group in enumerate(GROUPS):
            client.ask(offset_commit.API, 8, commit_of(group, 200 + place))
    for shim in shims:
        with WireClient(shim.port) as client:
            answer = client.ask(offset_fetch.API, 8, fetch_of(8, *names))
            assert [group.group_id for group in answer.groups] == names
            assert {
                group.group_id: (group.error_code, group.topics[0].partitions[0].committed_offset)
                for group in answer.groups
            } == {group: (0, 200 + place) for place, group in enumerate(GROUPS)}
            for with_operations in (False, True):
                request = describe_groups.DescribeGroupsRequest(GROUPS, include_authorized_operations=with_operations)
                described = client.ask(describe_groups.API, 5, request)
                assert {(group.group_id, group.error_code, group.group_state) for group in described.groups} == {
                    (group, 0, "Empty") for group in GROUPS
                }
    doomed = tuple(f"{group}-{place}" for place, group in enumerate(GROUPS * 3))
    with WireClient(shims[0].port) as client:
        for group in doomed:
            client.ask(offset_commit.API, 8, commit_of(group, 1))
    with WireClient(shims[1].port) as client:
        deleted = client.ask(delete_groups.API, 2, delete_groups.DeleteGroupsRequest(doomed))
        assert [(each.group_id, each.error_code) for each in deleted.results] == [(group, 0) for group in doomed]
    with WireClient(shims[2].port) as client:
        assert {fetched(client, group) for group in doomed} == {-1}


@undisturbed
def test_pipelined_requests_keep_their_order(shims: list[Shim]) -> None:
    """For groups of several owners, and for the broker behind the port, on one connection: each fetch tells what was
    committed before it, and the answers come in the order of the requests."""
    with WireClient(shims[0].broker_port(1)) as client:
        sent: list[tuple[int, Api[Any, Any], int, str, int]] = []
        for offset, group in zip(range(1000, 1090), cycle(GROUPS)):
            asked: tuple[tuple[Api[Any, Any], int, Any], ...] = (
                (offset_commit.API, 7, commit_of(group, offset)),
                (metadata.API, 9, metadata.MetadataRequest((metadata.MetadataRequestTopic(name=TOPIC),))),
                (offset_fetch.API, 7, fetch_of(7, group)),
                (api_versions.API, 2, api_versions.ApiVersionsRequest()),
                (list_offsets.API, 1, list_offsets.ListOffsetsRequest(-1, topics=())),
            )
            for api, version, request in asked:
                sent.append((client.send(api, version, request), api, version, group, offset))
        for correlation_id, api, version, group, offset in sent:
            received, answer = client.receive(api, version)
            assert received == correlation_id
            if api is offset_commit.API:
                assert not answer.topics[0].partitions[0].error_code
            if api is offset_fetch.API:
                assert answer.topics[0].partitions[0].committed_offset == offset, group


@pytest.mark.parametrize("is_the_clusters", [False, True])
@undisturbed
def test_commits_that_come_together(shims: list[Shim], cluster: Cluster, group: str, is_the_clusters: bool) -> None:
    """They are forwarded at once, where the owner takes them at once, and one after the other where it does not."""
    if is_the_clusters:
        commit_past_the_shims(cluster, group, TOPIC, 10)
    owner, node = owner_of(shims, group)
    shim = next(each for each in shims if each is not owner)
    with WireClient(shim.broker_port(node)) as client:
        assert not client.ask(offset_commit.API, 7, commit_of(group, 0)).topics[0].partitions[0].error_code
        kinds: list[tuple[Api[Any, Any], Any]]
        kinds = [(offset_commit.API, commit_of(group, offset)) for offset in range(1, 101)]
        kinds.insert(50, (offset_fetch.API, fetch_of(7, group)))
        kinds.append((offset_fetch.API, fetch_of(7, group)))

        def version_of(api: Api[Any, Any]) -> int:
            return 8 if api is offset_commit.API else 7

        together = b"".join(
            api.request_frame(version_of(api), number, "wire", each) for number, (api, each) in enumerate(kinds)
        )
        client.socket.sendall(together)
        told = []
        for number, (api, _) in enumerate(kinds):
            received, answer = client.receive(api, version_of(api))
            assert received == number
            partition = answer.topics[0].partitions[0]
            assert not partition.error_code
            if api is offset_fetch.API:
                told.append(partition.committed_offset)
        assert told == [50, 100]


@undisturbed
def test_members_at_wrong_ports_are_one_group(shims: list[Shim], group: str) -> None:
    """The first one waits for the second, whose requests come by another shim, and keeps nobody else waiting there."""
    owner, node = owner_of(shims, group)
    one, other = (shim for shim in shims if shim is not owner)
    protocols = (join_group.JoinGroupRequestProtocol("range", b"subscription"),)

    def join(member_id: str = "") -> join_group.JoinGroupRequest:
        return join_group.JoinGroupRequest(group, 30_000, 60_000, member_id, None, "test", protocols)

    with WireClient(one.port) as first, WireClient(other.port) as second, WireClient(one.port) as bystander:
        ids = [client.ask(join_group.API, 5, join()).member_id for client in (first, second)]
        alone = first.ask(join_group.API, 5, join(ids[0]))
        assert (alone.error_code, alone.leader) == (0, ids[0])
        second.send(join_group.API, 5, join(ids[1]))
        answer = None
        while answer != ErrorCode.REBALANCE_IN_PROGRESS:
            answer = first.ask(heartbeat.API, 3, heartbeat.HeartbeatRequest(group, 1, ids[0])).error_code
        assert bystander.ask(offset_commit.API, 7, commit_of(GROUPS[0], 1)), "nobody waits for who has not joined"
        joined = first.ask(join_group.API, 5, join(ids[0]))
        _, joined_too = second.receive(join_group.API, 5)
        assert {joined.generation_id, joined_too.generation_id} == {2}
        assert {member.member_id for member in joined.members} == set(ids)

        second.send(sync_group.API, 3, sync_group.SyncGroupRequest(group, 2, ids[1]))
        assignments = tuple(sync_group.SyncGroupRequestAssignment(each, each.encode()) for each in ids)
        assigned = first.ask(sync_group.API, 3, sync_group.SyncGroupRequest(group, 2, ids[0], assignments=assignments))
        _, assigned_too = second.receive(sync_group.API, 3)
        assert [assigned.assignment, assigned_too.assignment] == [each.encode() for each in ids]
        for client, member_id in zip((first, second), ids, strict=True):
            commit = commit_of(group, 7, generation_id_or_member_epoch=2, member_id=member_id)
            assert not client.ask(offset_commit.API, 7, commit).topics[0].partitions[0].error_code
            late = commit._replace(generation_id_or_member_epoch=1)
            error = client.ask(offset_commit.API, 7, late).topics[0].partitions[0].error_code
            assert error == ErrorCode.ILLEGAL_GENERATION
        with WireClient(owner.broker_port(node)) as right:
            (described,) = right.ask(describe_groups.API, 5, describe_groups.DescribeGroupsRequest((group,))).groups
            assert {member.member_id for member in described.members} == set(ids)
            assert {member.client_host for member in described.members} == {"/127.0.0.1"}
        for client, member_id in zip((first, second), ids, strict=True):
            identity = leave_group.MemberIdentity(member_id, None)
            assert not client.ask(
                leave_group.API, 3, leave_group.LeaveGroupRequest(group, members=(identity,))
            ).error_code


@undisturbed
def test_who_leaves_while_it_waits_keeps_nothing(shims: list[Shim], group: str) -> None:
    owner, _ = owner_of(shims, group)
    shim = next(each for each in shims if each is not owner)
    protocols = (join_group.JoinGroupRequestProtocol("range", b""),)
    request = join_group.JoinGroupRequest(group, 6_000, 6_000, "", None, "test", protocols)
    with WireClient(shim.port) as first:
        member_id = first.ask(join_group.API, 5, request).member_id
        first.ask(join_group.API, 5, request._replace(member_id=member_id))
    for _ in range(20):
        with WireClient(shim.port) as gone:
            gone.send(join_group.API, 1, request)
    with WireClient(shim.port) as client:
        assert fetched(client, group) == -1
        assert client.ask(heartbeat.API, 3, heartbeat.HeartbeatRequest(group, 9, "nobody")).error_code


@undisturbed
def test_a_group_that_is_the_clusters(shims: list[Shim], cluster: Cluster, group: str) -> None:
    """Passed on by the shim that has the client, at the owner's word."""
    commit_past_the_shims(cluster, group, TOPIC, 10)
    _, node = owner_of(shims, group)
    for offset, shim in enumerate(shims, 11):
        with WireClient(shim.broker_port(node)) as client:
            # What the broker itself answers stands behind it, and has to wait for it.
            sent = [
                client.send(offset_commit.API, 7, commit_of(group, offset)),
                client.send(list_offsets.API, 1, list_offsets.ListOffsetsRequest(-1, topics=())),
                client.send(offset_fetch.API, 7, fetch_of(7, group)),
            ]
            received, committed = client.receive(offset_commit.API, 7)
            assert (received, committed.topics[0].partitions[0].error_code) == (sent[0], 0)
            assert client.receive(list_offsets.API, 1)[0] == sent[1]
            assert client.receive(offset_fetch.API, 7)[1].topics[0].partitions[0].committed_offset == offset
        assert committed_in_the_cluster(cluster, group, TOPIC) == offset
    elsewhere = next(each for each in NODES if each != node)
    for shim in shims:
        with WireClient(shim.broker_port(elsewhere)) as client:
            assert fetched(client, group) == ErrorCode.NOT_COORDINATOR, "as the broker there says"


@undisturbed
def test_a_transaction(shims: list[Shim], cluster: Cluster, group: str) -> None:
    owner, node = owner_of(shims, group)
    shim = next(each for each in shims if each is not owner)
    name = f"txn-{group}"
    with WireClient(shim.port) as client:
        while (
            found := client.ask(find_coordinator.API, 3, find_coordinator.FindCoordinatorRequest(name, 1))
        ).error_code:
            pass
    with WireClient(shim.broker_port(found.node_id)) as coordinator, WireClient(shim.broker_port(node)) as client:
        while (
            producer := coordinator.ask(init_producer_id.API, 1, init_producer_id.InitProducerIdRequest(name, 60_000))
        ).error_code:
            pass
        its = (producer.producer_id, producer.producer_epoch)
        for offset, is_committed in ((5, True), (6, False)):
            request = add_offsets_to_txn.AddOffsetsToTxnRequest(name, *its, group)
            while coordinator.ask(add_offsets_to_txn.API, 1, request).error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
                pass
            partitions = (txn_offset_commit.TxnOffsetCommitRequestPartition(0, offset),)
            topics = (txn_offset_commit.TxnOffsetCommitRequestTopic(TOPIC, partitions),)
            commit = txn_offset_commit.TxnOffsetCommitRequest(name, group, *its, topics=topics)
            answer = client.ask(txn_offset_commit.API, 2, commit)
            while answer.topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                answer = client.ask(txn_offset_commit.API, 2, commit)
            assert not answer.topics[0].partitions[0].error_code
            stable = fetch_of(7, group)._replace(require_stable=True)
            pending = client.ask(offset_fetch.API, 7, stable).topics[0].partitions[0]
            assert pending.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
            assert not coordinator.ask(end_txn.API, 1, end_txn.EndTxnRequest(name, *its, is_committed)).error_code
            while (settled := client.ask(offset_fetch.API, 7, stable).topics[0].partitions[0]).error_code:
                assert settled.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
            assert settled.committed_offset == 5


@undisturbed
def test_real_clients_that_are_never_led_to_the_owner(shims: list[Shim], cluster: Cluster) -> None:
    """At a listener that the other shims have not: there FindCoordinator names this shim for every group."""
    bootstrap = f"127.0.0.1:{extra_port(shims[0])}"
    groups = [f"real-{place}" for place in range(6)]
    assert len({id(owner_of(shims, group)[0]) for group in groups}) > 1
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(20):
        producer.produce(TOPIC, str(number).encode(), partition=number % 2)
    assert not producer.flush(PATIENCE_S)
    for group in groups:
        settings = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
        first = Consumer({**settings, "enable.auto.commit": False})
        first.subscribe([TOPIC])
        seen = {message.value() for message in consumed(first, 10)}
        first.commit(asynchronous=False)
        first.close()
        second = KafkaConsumer(
            TOPIC,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            consumer_timeout_ms=int(PATIENCE_S * 1000),
        )
        try:
            rest = {next(second).value for _ in range(10)}
            second.commit()
        finally:
            second.close()
        assert seen | rest == {str(number).encode() for number in range(20)}
        ends = Consumer(settings).committed([TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)], timeout=PATIENCE_S)
        assert sum(end.offset for end in ends) == 20


def consumed(consumer: Consumer, count: int) -> list[Message]:
    found: list[Message] = []
    until = time.monotonic() + PATIENCE_S
    while len(found) < count:
        assert time.monotonic() < until
        found += consumer.consume(count - len(found), timeout=1.0)
    return found
