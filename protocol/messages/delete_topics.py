"""DeleteTopics (key 20), versions 0-6. Source: Kafka 4.3, KIP-4; 3.9 for version 0, which Kafka 4 dropped.

Version 5 has error messages and may be throttled (KIP-599), 6 can name topics by id (KIP-516).
"""

from typing import Annotated, NamedTuple

from protocol.api import Api
from protocol.wire import (
    ZERO_UUID,
    Int16,
    Int32,
    NullableString,
    String,
    TaggedFields,
    Uuid,
    ignorable,
    nullable_since,
    since,
    until,
)


class DeleteTopicState(NamedTuple):
    """`name` is null where the topic is named by its id."""

    name: NullableString = None
    topic_id: Uuid = ZERO_UUID
    tagged: TaggedFields = ()


class DeleteTopicsRequest(NamedTuple):
    topics: Annotated[tuple[DeleteTopicState, ...], since(6)] = ()
    topic_names: Annotated[tuple[String, ...], until(5), ignorable] = ()
    timeout_ms: Int32 = 0
    tagged: TaggedFields = ()


class DeletableTopicResult(NamedTuple):
    name: Annotated[NullableString, nullable_since(6)]
    topic_id: Annotated[Uuid, since(6), ignorable] = ZERO_UUID
    error_code: Int16 = 0
    error_message: Annotated[NullableString, since(5), ignorable] = None
    tagged: TaggedFields = ()


class DeleteTopicsResponse(NamedTuple):
    throttle_time_ms: Annotated[Int32, since(1), ignorable] = 0
    responses: tuple[DeletableTopicResult, ...] = ()
    tagged: TaggedFields = ()


API = Api(
    key=20,
    name="DeleteTopics",
    request=DeleteTopicsRequest,
    response=DeleteTopicsResponse,
    versions=(0, 6),
    flexible_since=4,
)
