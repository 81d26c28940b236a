"""CreateTopics (key 19), versions 0-7. Source: Kafka 4.3, KIP-4; 3.9 for versions 0 and 1, which Kafka 4 dropped.

Version 1 can validate only, 4 leaves counts to the broker's defaults (KIP-464), 5 gives the configuration back
(KIP-525), 6 may be throttled (KIP-599), 7 gives the topic's id (KIP-516).
"""

from typing import Annotated, NamedTuple

from protocol.api import Api
from protocol.wire import (
    ZERO_UUID,
    Bool,
    Int8,
    Int16,
    Int32,
    NullableString,
    String,
    TaggedFields,
    Uuid,
    ignorable,
    since,
    tag,
)


class CreatableReplicaAssignment(NamedTuple):
    partition_index: Int32
    broker_ids: tuple[Int32, ...]
    tagged: TaggedFields = ()


class CreatableTopicConfig(NamedTuple):
    name: String
    value: NullableString
    tagged: TaggedFields = ()


class CreatableTopic(NamedTuple):
    """`num_partitions` and `replication_factor` are -1 with assignments, and from version 4 on for the defaults."""

    name: String
    num_partitions: Int32
    replication_factor: Int16
    assignments: tuple[CreatableReplicaAssignment, ...]
    configs: tuple[CreatableTopicConfig, ...]
    tagged: TaggedFields = ()


class CreateTopicsRequest(NamedTuple):
    topics: tuple[CreatableTopic, ...]
    timeout_ms: Int32 = 60000
    validate_only: Annotated[Bool, since(1)] = False
    tagged: TaggedFields = ()


class CreatableTopicConfigs(NamedTuple):
    name: String
    value: NullableString
    read_only: Bool
    config_source: Annotated[Int8, ignorable] = -1
    is_sensitive: Bool = False
    tagged: TaggedFields = ()


class CreatableTopicResult(NamedTuple):
    """`configs` is null when they may not be seen; `topic_config_error_code` then says why."""

    name: String
    topic_id: Annotated[Uuid, since(7), ignorable] = ZERO_UUID
    error_code: Int16 = 0
    error_message: Annotated[NullableString, since(1), ignorable] = ""
    topic_config_error_code: Annotated[Int16, since(5), tag(0), ignorable] = 0
    num_partitions: Annotated[Int32, since(5), ignorable] = -1
    replication_factor: Annotated[Int16, since(5), ignorable] = -1
    configs: Annotated[tuple[CreatableTopicConfigs, ...] | None, since(5), ignorable] = ()
    tagged: TaggedFields = ()


class CreateTopicsResponse(NamedTuple):
    throttle_time_ms: Annotated[Int32, since(2), ignorable] = 0
    topics: tuple[CreatableTopicResult, ...] = ()
    tagged: TaggedFields = ()


API = Api(
    key=19,
    name="CreateTopics",
    request=CreateTopicsRequest,
    response=CreateTopicsResponse,
    versions=(0, 7),
    flexible_since=5,
)
