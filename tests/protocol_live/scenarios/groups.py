"""Groups and their offsets, classic, KIP-848 and KIP-1071."""

import base64
import time
import uuid
from collections.abc import Sequence

from protocol.errors import ErrorCode
from protocol.messages import (
    consumer_group_describe,
    consumer_group_heartbeat,
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
    share_group_describe,
    share_group_heartbeat,
    streams_group_describe,
    streams_group_heartbeat,
    sync_group,
)
from tests.protocol_live.place import GROUP, SHARE, TRANSACTION, Place, scenario
from tests.waiting import wait_until

OPERATIONS_NOT_ASKED = -2147483648


@scenario(find_coordinator.API)
def finds_the_coordinator(place: Place, version: int) -> None:
    here = ("127.0.0.1", place.port)
    if version < 4:
        for key_type in (GROUP, TRANSACTION) if version >= 1 else (GROUP,):
            request = find_coordinator.FindCoordinatorRequest(uuid.uuid4().hex, key_type)
            answer = place.ask_until(find_coordinator.API, version, request, lambda response: response.error_code)
            assert (answer.node_id, answer.host, answer.port) == (1, *here)
        return
    key_types = (GROUP, TRANSACTION) if version < 6 else (GROUP, TRANSACTION, SHARE)
    for key_type in key_types:
        keys = [uuid.uuid4().hex for _ in range(2)]
        if key_type == SHARE:
            topic_id = base64.urlsafe_b64encode(place.topic_id(place.new_topic())).decode().rstrip("=")
            keys = [f"{key}:{topic_id}:0" for key in keys]
        request = find_coordinator.FindCoordinatorRequest(key_type=key_type, coordinator_keys=tuple(keys))
        answer = place.ask_until(
            find_coordinator.API, version, request, lambda response: max(c.error_code for c in response.coordinators)
        )
        assert [(c.key, c.node_id, c.host, c.port) for c in answer.coordinators] == [(key, 1, *here) for key in keys]


def commit(place: Place, version: int, group: str, topic: str, member_id: str = "", generation: int = -1) -> None:
    """Commit offset 42 for partition 0, with metadata; and for partition 1, which there is not."""
    partitions = tuple(
        offset_commit.OffsetCommitRequestPartition(n, 42, 0, committed_metadata="metadata") for n in (0, 1)
    )
    data = (
        offset_commit.OffsetCommitRequestTopic(topic_id=place.topic_id(topic), partitions=partitions)
        if version >= 10
        else offset_commit.OffsetCommitRequestTopic(topic, partitions=partitions)
    )
    request = offset_commit.OffsetCommitRequest(
        group, generation, member_id, retention_time_ms=3_600_000 if 2 <= version <= 4 else -1, topics=(data,)
    )

    def errors(response: offset_commit.OffsetCommitResponse) -> dict[int, int]:
        ((name, topic_id, found, _),) = response.topics
        assert (name or topic_id) == (data.name or data.topic_id)
        return {partition.partition_index: partition.error_code for partition in found}

    answer = place.ask_until(offset_commit.API, version, request, lambda response: errors(response)[0])
    # 0.8 does not ask whether there is such a partition.
    unasked = place.release == "kafka-0.8.2.2"
    assert errors(answer)[1] == (ErrorCode.NONE if unasked else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def fetched(
    place: Place, version: int, group: str, topic: str, *, everything: bool = False
) -> dict[int, tuple[int, str | None, int]]:
    """By partition: the offset, metadata and leader epoch committed for it, where there is one."""
    if version < 8:
        asked = None if everything else (offset_fetch.OffsetFetchRequestTopic(topic, (0,)),)
        old = offset_fetch.OffsetFetchRequest(group, asked, require_stable=version >= 7)
        answer = place.ask(offset_fetch.API, version, old)
        assert answer.error_code == 0
        topics = [(found.name, found.partitions) for found in answer.topics]
        return _offsets(topics, topic)
    by_id = version >= 10
    named = (
        offset_fetch.OffsetFetchRequestTopics(topic_id=place.topic_id(topic), partition_indexes=(0,))
        if by_id
        else offset_fetch.OffsetFetchRequestTopics(topic, partition_indexes=(0,))
    )
    groups = (offset_fetch.OffsetFetchRequestGroup(group, topics=None if everything else (named,)),)
    new = offset_fetch.OffsetFetchRequest(groups=groups, require_stable=True)
    ((group_id, found_topics, error, _),) = place.ask(offset_fetch.API, version, new).groups
    assert (group_id, error) == (group, 0)
    return _offsets(
        [(found.topic_id if by_id else found.name, found.partitions) for found in found_topics],
        place.topic_id(topic) if by_id else topic,
    )


def _offsets(
    topics: Sequence[
        tuple[
            str | bytes,
            Sequence[offset_fetch.OffsetFetchResponsePartition | offset_fetch.OffsetFetchResponsePartitions],
        ]
    ],
    wanted: str | bytes,
) -> dict[int, tuple[int, str | None, int]]:
    if not topics:
        return {}
    ((name, partitions),) = topics
    assert name == wanted
    assert [partition.error_code for partition in partitions] == [0] * len(partitions)
    return {
        partition.partition_index: (partition.committed_offset, partition.metadata, partition.committed_leader_epoch)
        for partition in partitions
        if partition.committed_offset >= 0
    }


@scenario(offset_commit.API)
def commits(place: Place, version: int) -> None:
    topic, group = place.new_topic(), place.new_group()
    commit(place, version, group, topic)
    # ZooKeeper, where version 0 commits to, keeps no metadata.
    read_with = 0 if version == 0 else 1 if place.release == "kafka-0.8.2.2" else 5
    epoch = 0 if version >= 6 else -1
    expected = {0: (42, "" if version == 0 else "metadata", epoch)}
    assert fetched(place, read_with, group, topic) == expected
    if version >= 2:
        member = place.new_member()
        commit(place, version, member.group, topic, member.id, member.generation)
        assert fetched(place, read_with, member.group, topic) == expected


@scenario(offset_fetch.API)
def fetches_offsets(place: Place, version: int) -> None:
    topic, group = place.new_topic(), place.new_group()
    commit(place, 0 if version == 0 else 6, group, topic)
    expected = {0: (42, "" if version == 0 else "metadata", 0 if version >= 5 else -1)}
    assert fetched(place, version, group, topic) == expected
    if version >= 2:
        assert fetched(place, version, group, topic, everything=True) == expected


@scenario(join_group.API)
def joins(place: Place, version: int) -> None:
    group = place.new_group()
    answer, subscription = place.join(version, group)
    assert (answer.generation_id, answer.protocol_name, answer.leader) == (1, "range", answer.member_id)
    assert answer.protocol_type == ("consumer" if version >= 7 else None)
    assert not answer.skip_assignment
    assert [(member.member_id, member.metadata) for member in answer.members] == [(answer.member_id, subscription)]
    if version >= 5:  # KIP-345
        static = join_group.JoinGroupRequest(
            place.new_group(),
            10_000,
            10_000,
            group_instance_id="instance",
            protocol_type="consumer",
            protocols=(join_group.JoinGroupRequestProtocol("range", subscription),),
        )
        joined = place.ask_until(join_group.API, version, static, lambda response: response.error_code)
        assert [member.group_instance_id for member in joined.members] == ["instance"]


@scenario(sync_group.API)
def syncs(place: Place, version: int) -> None:
    group = place.new_group()
    joined, _ = place.join(place.newest(join_group.API), group)
    place.sync(version, group, joined)
    stranger = sync_group.SyncGroupRequest(
        group, joined.generation_id, "nobody", protocol_type="consumer", protocol_name="range"
    )
    assert place.ask(sync_group.API, version, stranger).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@scenario(heartbeat.API)
def beats(place: Place, version: int) -> None:
    member = place.new_member()
    request = heartbeat.HeartbeatRequest(member.group, member.generation, member.id)
    assert place.ask(heartbeat.API, version, request).error_code == 0
    late = request._replace(generation_id=member.generation + 1)
    assert place.ask(heartbeat.API, version, late).error_code == ErrorCode.ILLEGAL_GENERATION


@scenario(leave_group.API)
def leaves(place: Place, version: int) -> None:
    member = place.new_member()
    if version < 3:
        request = leave_group.LeaveGroupRequest(member.group, member.id)
        assert place.ask(leave_group.API, version, request).error_code == 0
        assert place.ask(leave_group.API, version, request).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        return
    members = tuple(leave_group.MemberIdentity(name, reason="a test") for name in (member.id, "nobody"))
    answer = place.ask(leave_group.API, version, leave_group.LeaveGroupRequest(member.group, members=members))
    assert answer.error_code == 0
    assert [found[:3] for found in answer.members] == [
        (member.id, None, 0),
        ("nobody", None, ErrorCode.UNKNOWN_MEMBER_ID),
    ]


@scenario(list_groups.API)
def lists_groups(place: Place, version: int) -> None:
    member = place.new_member()
    request = list_groups.ListGroupsRequest(("Stable",) if version >= 4 else (), ("classic",) if version >= 5 else ())
    answer = place.ask(list_groups.API, version, request)
    assert answer.error_code == 0
    state, kind = "Stable" if version >= 4 else "", "classic" if version >= 5 else ""
    assert (member.group, "consumer", state, kind, ()) in [tuple(group) for group in answer.groups]


@scenario(describe_groups.API)
def describes_groups(place: Place, version: int) -> None:
    member = place.new_member()
    absent = f"absent-{uuid.uuid4().hex}"
    request = describe_groups.DescribeGroupsRequest((member.group, absent), version >= 3)
    answer = place.ask(describe_groups.API, version, request)
    by_id = {group.group_id: group for group in answer.groups}
    found = by_id[member.group]
    assert (found.error_code, found.group_state, found.protocol_type) == (0, "Stable", "consumer")
    assert found.protocol_data == "range"
    assert (found.authorized_operations == OPERATIONS_NOT_ASKED) == (version < 3)
    (described,) = found.members
    assert (described.member_id, described.client_id) == (member.id, "wire")
    assert (described.member_metadata, described.member_assignment) == (member.metadata, member.assignment)
    missing = ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else ErrorCode.NONE
    assert (by_id[absent].error_code, by_id[absent].group_state) == (missing, "Dead")


@scenario(delete_groups.API)
def deletes_groups(place: Place, version: int) -> None:
    topic, group, member = place.new_topic(), place.new_group(), place.new_member()
    commit(place, 8, group, topic)
    request = delete_groups.DeleteGroupsRequest((group, member.group))
    answer = place.ask(delete_groups.API, version, request)
    assert {found.group_id: found.error_code for found in answer.results} == {
        group: 0,
        member.group: ErrorCode.NON_EMPTY_GROUP,
    }
    assert fetched(place, 7, group, topic) == {}


@scenario(offset_delete.API)
def deletes_offsets(place: Place, version: int) -> None:
    topic, group = place.new_topic(), place.new_group()
    commit(place, 8, group, topic)
    partitions = (offset_delete.OffsetDeleteRequestPartition(0),)
    request = offset_delete.OffsetDeleteRequest(group, (offset_delete.OffsetDeleteRequestTopic(topic, partitions),))
    answer = place.ask(offset_delete.API, version, request)
    assert answer.error_code == 0
    ((name, ((index, error),)),) = answer.topics
    assert (name, index, error) == (topic, 0, 0)
    assert fetched(place, 7, group, topic) == {}


def new_consumer(place: Place, version: int) -> tuple[str, str, str]:
    """A member of a group of the new protocol: its group, its id, the topic that it has partition 0 of."""
    topic, group = place.new_topic(), place.new_group()
    member_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=") if version >= 1 else ""
    request = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        group, member_id, 0, rebalance_timeout_ms=10_000, subscribed_topic_names=(topic,), topic_partitions=()
    )
    answer = place.ask_until(consumer_group_heartbeat.API, version, request, lambda response: response.error_code)
    assert answer.member_id
    assert answer.member_epoch > 0
    assert answer.heartbeat_interval_ms > 0
    # A coordinator that has not heard of the new topic yet assigns nothing at first.
    joined = request._replace(member_id=answer.member_id, subscribed_topic_names=None)
    deadline = time.monotonic() + 30.0
    while answer.assignment is None or not answer.assignment.topic_partitions:
        assert time.monotonic() < deadline
        time.sleep(0.02)  # a member hears of its assignment when it asks
        waiting = joined._replace(member_epoch=answer.member_epoch)
        answer = place.ask(consumer_group_heartbeat.API, version, waiting)
        assert answer.error_code == 0
        assert answer.member_id == joined.member_id
    ((topic_id, partitions, _),) = answer.assignment.topic_partitions
    assert (topic_id, partitions) == (place.topic_id(topic), (0,))
    beat = joined._replace(
        member_epoch=answer.member_epoch,
        topic_partitions=(consumer_group_heartbeat.TopicPartitions(topic_id, (0,)),),
    )
    again = place.ask(consumer_group_heartbeat.API, version, beat)
    assert (again.error_code, again.member_epoch) == (0, answer.member_epoch)
    return group, joined.member_id, topic


@scenario(consumer_group_heartbeat.API)
def consumers_beat(place: Place, version: int) -> None:
    group, member_id, _ = new_consumer(place, version)
    late = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(group, member_id, 99)
    answer = place.ask(consumer_group_heartbeat.API, version, late)
    assert answer.error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert answer.error_message
    leaving = late._replace(member_epoch=-1)
    assert place.ask(consumer_group_heartbeat.API, version, leaving).error_code == 0
    if version >= 1:  # KIP-848's regular expressions
        matching = late._replace(
            group_id=place.new_group(),
            member_epoch=0,
            rebalance_timeout_ms=10_000,
            subscribed_topic_names=(),
            subscribed_topic_regex="nothing-.*",
            topic_partitions=(),
        )
        assert place.ask(consumer_group_heartbeat.API, version, matching).error_code == 0


def new_sharer(place: Place) -> tuple[str, str, str]:
    """A member of a share group: its group, its id, the topic that it has partition 0 of."""
    topic, group, member_id = place.new_topic(), place.new_group(), str(uuid.uuid4())
    join = share_group_heartbeat.ShareGroupHeartbeatRequest(group, member_id, 0, subscribed_topic_names=(topic,))
    joined = place.ask_until(share_group_heartbeat.API, 1, join, lambda response: response.error_code)
    assert (joined.member_id, joined.member_epoch > 0, joined.heartbeat_interval_ms > 0) == (member_id, True, True)
    # Before the partition has its state in the share coordinator nobody is assigned it.
    deadline = time.monotonic() + 30.0
    while joined.assignment is None or not joined.assignment.topic_partitions:
        assert time.monotonic() < deadline
        time.sleep(0.02)  # a member hears of its assignment when it asks
        beat = share_group_heartbeat.ShareGroupHeartbeatRequest(group, member_id, joined.member_epoch)
        joined = place.ask(share_group_heartbeat.API, 1, beat)
        assert joined.error_code == 0
    assert joined.assignment.topic_partitions == ((place.topic_id(topic), (0,), ()),)
    return group, member_id, topic


@scenario(share_group_heartbeat.API)
def sharers_beat(place: Place, version: int) -> None:
    group, member_id, _ = new_sharer(place)
    late = share_group_heartbeat.ShareGroupHeartbeatRequest(group, member_id, 99)
    answer = place.ask(share_group_heartbeat.API, version, late)
    assert answer.error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert answer.error_message
    assert place.ask(share_group_heartbeat.API, version, late._replace(member_epoch=-1)).error_code == 0


@scenario(share_group_describe.API)
def describes_share_groups(place: Place, version: int) -> None:
    group, member_id, topic = new_sharer(place)
    request = share_group_describe.ShareGroupDescribeRequest((group, "absent"), True)
    by_id = {found.group_id: found for found in place.ask(share_group_describe.API, version, request).groups}
    assert by_id["absent"].error_code == ErrorCode.GROUP_ID_NOT_FOUND
    found = by_id[group]
    assert (found.error_code, found.group_state) == (0, "Stable")
    assert found.authorized_operations != OPERATIONS_NOT_ASKED
    (member,) = found.members
    assert (member.member_id, member.client_id, member.subscribed_topic_names) == (member_id, "wire", (topic,))
    assert member.assignment.topic_partitions == ((place.topic_id(topic), topic, (0,), ()),)


def new_instance(place: Place) -> tuple[str, str]:
    """Of Kafka Streams: its group, and its member id."""
    topic, group, member_id = place.new_topic(), place.new_group(), str(uuid.uuid4())
    store = streams_group_heartbeat.TopicInfo(f"{group}-store-changelog", 0, 0, ())
    subtopology = streams_group_heartbeat.Subtopology("0", (topic,), (), (store,), (), (), ())
    request = streams_group_heartbeat.StreamsGroupHeartbeatRequest(
        *(group, member_id, 0),
        rebalance_timeout_ms=10_000,
        topology=streams_group_heartbeat.Topology(1, (subtopology,)),
        active_tasks=(),
        standby_tasks=(),
        warmup_tasks=(),
        process_id="a process",
        user_endpoint=streams_group_heartbeat.Endpoint("localhost", 1_234),
        client_tags=(streams_group_heartbeat.KeyValue("zone", "a"),),
    )

    def join() -> streams_group_heartbeat.StreamsGroupHeartbeatResponse | None:
        answer = place.ask(streams_group_heartbeat.API, 0, request)
        return answer if not answer.error_code else None

    # UNKNOWN_SERVER_ERROR, too, now and then right after the topic was made
    answer = wait_until(join, lambda: place.ask(streams_group_heartbeat.API, 0, request))
    assert (answer.member_id, answer.member_epoch > 0, answer.heartbeat_interval_ms > 0) == (member_id, True, True)
    return group, member_id


@scenario(streams_group_heartbeat.API)
def instances_beat(place: Place, version: int) -> None:
    group, member_id = new_instance(place)
    late = streams_group_heartbeat.StreamsGroupHeartbeatRequest(group, member_id, 99)
    answer = place.ask(streams_group_heartbeat.API, version, late)
    assert answer.error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert answer.error_message
    leaving = late._replace(member_epoch=-1)
    assert place.ask(streams_group_heartbeat.API, version, leaving).error_code == 0


@scenario(streams_group_describe.API)
def describes_streams_groups(place: Place, version: int) -> None:
    group, member_id = new_instance(place)
    request = streams_group_describe.StreamsGroupDescribeRequest((group, "absent"), True)
    by_id = {found.group_id: found for found in place.ask(streams_group_describe.API, version, request).groups}
    assert by_id["absent"].error_code == ErrorCode.GROUP_ID_NOT_FOUND
    found = by_id[group]
    assert found.error_code == 0
    assert found.authorized_operations != OPERATIONS_NOT_ASKED
    assert found.topology is not None
    (subtopology,) = found.topology.subtopologies or ()
    assert [each.name for each in subtopology.state_changelog_topics] == [f"{group}-store-changelog"]
    (member,) = found.members
    assert (member.member_id, member.process_id, member.is_classic) == (member_id, "a process", False)
    assert member.user_endpoint == streams_group_heartbeat.Endpoint("localhost", 1_234)
    assert member.client_tags == (streams_group_heartbeat.KeyValue("zone", "a"),)


@scenario(consumer_group_describe.API)
def describes_consumer_groups(place: Place, version: int) -> None:
    group, member_id, topic = new_consumer(place, 1)
    request = consumer_group_describe.ConsumerGroupDescribeRequest((group, "absent"), True)
    answer = place.ask(consumer_group_describe.API, version, request)
    by_id = {found.group_id: found for found in answer.groups}
    assert by_id["absent"].error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert (by_id[group].error_code, by_id[group].group_state) == (0, "Stable")
    assert by_id[group].authorized_operations != OPERATIONS_NOT_ASKED
    (member,) = by_id[group].members
    assert (member.member_id, member.subscribed_topic_names) == (member_id, (topic,))
    ((_, name, partitions, _),) = member.target_assignment.topic_partitions
    assert (name, partitions) == (topic, (0,))
    assert member.member_type == (1 if version >= 1 else -1)
