"""StreamsGroupDescribe (key 89), version 0. Source: Kafka 4.3, KIP-1071."""

from typing import NamedTuple

from protocol.api import Api
from protocol.messages.streams_group_heartbeat import Endpoint, KeyValue, TaskIds, TaskOffset, TopicInfo
from protocol.wire import Bool, Int16, Int32, NullableString, String, TaggedFields


class StreamsGroupDescribeRequest(NamedTuple):
    group_ids: tuple[String, ...]
    include_authorized_operations: Bool
    tagged: TaggedFields = ()


class Subtopology(NamedTuple):
    subtopology_id: String
    source_topics: tuple[String, ...]
    repartition_sink_topics: tuple[String, ...]
    state_changelog_topics: tuple[TopicInfo, ...]
    repartition_source_topics: tuple[TopicInfo, ...]
    tagged: TaggedFields = ()


class Topology(NamedTuple):
    epoch: Int32
    subtopologies: tuple[Subtopology, ...] | None = None
    tagged: TaggedFields = ()


class Assignment(NamedTuple):
    active_tasks: tuple[TaskIds, ...] = ()
    standby_tasks: tuple[TaskIds, ...] = ()
    warmup_tasks: tuple[TaskIds, ...] = ()
    tagged: TaggedFields = ()


class Member(NamedTuple):
    member_id: String
    member_epoch: Int32 = 0
    instance_id: NullableString = None
    rack_id: NullableString = None
    client_id: String = ""
    client_host: String = ""
    topology_epoch: Int32 = 0
    process_id: String = ""
    user_endpoint: Endpoint | None = None
    client_tags: tuple[KeyValue, ...] = ()
    task_offsets: tuple[TaskOffset, ...] = ()
    task_end_offsets: tuple[TaskOffset, ...] = ()
    assignment: Assignment = Assignment()
    target_assignment: Assignment = Assignment()
    is_classic: Bool = False
    tagged: TaggedFields = ()


class DescribedGroup(NamedTuple):
    """`authorized_operations` is a bit set, -2147483648 when nobody asked for it."""

    error_code: Int16
    error_message: NullableString = None
    group_id: String = ""
    group_state: String = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    topology: Topology | None = None
    members: tuple[Member, ...] = ()
    authorized_operations: Int32 = -2147483648
    tagged: TaggedFields = ()


class StreamsGroupDescribeResponse(NamedTuple):
    throttle_time_ms: Int32
    groups: tuple[DescribedGroup, ...]
    tagged: TaggedFields = ()


API = Api(
    key=89,
    name="StreamsGroupDescribe",
    request=StreamsGroupDescribeRequest,
    response=StreamsGroupDescribeResponse,
    versions=(0, 0),
    flexible_since=0,
)
