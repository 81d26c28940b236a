"""StreamsGroupHeartbeat (key 88), version 0. Source: Kafka 4.3, KIP-1071."""

from typing import NamedTuple

from protocol.api import Api
from protocol.wire import Bool, Int8, Int16, Int32, Int64, NullableString, String, TaggedFields, UInt16


class KeyValue(NamedTuple):
    key: String
    value: String
    tagged: TaggedFields = ()


class TopicInfo(NamedTuple):
    """`partitions`: 0 where it is to be derived. `replication_factor`: 0 for the broker's default."""

    name: String
    partitions: Int32
    replication_factor: Int16
    topic_configs: tuple[KeyValue, ...]
    tagged: TaggedFields = ()


class CopartitionGroup(NamedTuple):
    """Places in the lists of the subtopology."""

    source_topics: tuple[Int16, ...]
    source_topic_regex: tuple[Int16, ...]
    repartition_source_topics: tuple[Int16, ...]
    tagged: TaggedFields = ()


class Subtopology(NamedTuple):
    subtopology_id: String
    source_topics: tuple[String, ...]
    source_topic_regex: tuple[String, ...]
    state_changelog_topics: tuple[TopicInfo, ...]
    repartition_sink_topics: tuple[String, ...]
    repartition_source_topics: tuple[TopicInfo, ...]
    copartition_groups: tuple[CopartitionGroup, ...]
    tagged: TaggedFields = ()


class Topology(NamedTuple):
    epoch: Int32
    subtopologies: tuple[Subtopology, ...]
    tagged: TaggedFields = ()


class TaskIds(NamedTuple):
    subtopology_id: String
    partitions: tuple[Int32, ...]
    tagged: TaggedFields = ()


class TaskOffset(NamedTuple):
    subtopology_id: String
    partition: Int32
    offset: Int64
    tagged: TaggedFields = ()


class Endpoint(NamedTuple):
    """Of an application's own, for interactive queries; no broker's."""

    host: String
    port: UInt16
    tagged: TaggedFields = ()


class StreamsGroupHeartbeatRequest(NamedTuple):
    """`member_epoch`: 0 joins, -1 leaves, -2 leaves for a while (static members). None means "as before"."""

    group_id: String
    member_id: String
    member_epoch: Int32
    endpoint_information_epoch: Int32 = 0
    instance_id: NullableString = None
    rack_id: NullableString = None
    rebalance_timeout_ms: Int32 = -1
    topology: Topology | None = None
    active_tasks: tuple[TaskIds, ...] | None = None
    standby_tasks: tuple[TaskIds, ...] | None = None
    warmup_tasks: tuple[TaskIds, ...] | None = None
    process_id: NullableString = None
    user_endpoint: Endpoint | None = None
    client_tags: tuple[KeyValue, ...] | None = None
    task_offsets: tuple[TaskOffset, ...] | None = None
    task_end_offsets: tuple[TaskOffset, ...] | None = None
    shutdown_application: Bool = False
    tagged: TaggedFields = ()


class Status(NamedTuple):
    status_code: Int8
    status_detail: String
    tagged: TaggedFields = ()


class TopicPartition(NamedTuple):
    topic: String
    partitions: tuple[Int32, ...]
    tagged: TaggedFields = ()


class EndpointToPartitions(NamedTuple):
    user_endpoint: Endpoint
    active_partitions: tuple[TopicPartition, ...]
    standby_partitions: tuple[TopicPartition, ...]
    tagged: TaggedFields = ()


class StreamsGroupHeartbeatResponse(NamedTuple):
    """Tasks: None means "as before"."""

    throttle_time_ms: Int32
    error_code: Int16
    error_message: NullableString = None
    member_id: String = ""
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    acceptable_recovery_lag: Int32 = 0
    task_offset_interval_ms: Int32 = 0
    status: tuple[Status, ...] | None = ()
    active_tasks: tuple[TaskIds, ...] | None = None
    standby_tasks: tuple[TaskIds, ...] | None = None
    warmup_tasks: tuple[TaskIds, ...] | None = None
    endpoint_information_epoch: Int32 = 0
    partitions_by_user_endpoint: tuple[EndpointToPartitions, ...] | None = None
    tagged: TaggedFields = ()


API = Api(
    key=88,
    name="StreamsGroupHeartbeat",
    request=StreamsGroupHeartbeatRequest,
    response=StreamsGroupHeartbeatResponse,
    versions=(0, 0),
    flexible_since=0,
)
