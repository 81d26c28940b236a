"""FindCoordinator (key 10), versions 0-6.

Source: Kafka 4.3, KIP-98 (key type), KIP-699 (many keys), KIP-932 (share groups).
"""

from typing import Annotated, NamedTuple

from protocol.api import Api
from protocol.wire import (
    Int8,
    Int16,
    Int32,
    NullableString,
    String,
    TaggedFields,
    between,
    ignorable,
    since,
    until,
)


class FindCoordinatorRequest(NamedTuple):
    """`key_type`: 0 group, 1 transaction, 2 share partition (`group:topic id:partition`)."""

    key: Annotated[String, until(3)] = ""
    key_type: Annotated[Int8, since(1)] = 0
    coordinator_keys: Annotated[tuple[String, ...], since(4)] = ()
    tagged: TaggedFields = ()


class Coordinator(NamedTuple):
    key: String
    node_id: Int32
    host: String
    port: Int32
    error_code: Int16
    error_message: Annotated[NullableString, ignorable] = ""
    tagged: TaggedFields = ()


class FindCoordinatorResponse(NamedTuple):
    throttle_time_ms: Annotated[Int32, since(1), ignorable] = 0
    error_code: Annotated[Int16, until(3)] = 0
    error_message: Annotated[NullableString, between(1, 3), ignorable] = ""
    node_id: Annotated[Int32, until(3)] = 0
    host: Annotated[String, until(3)] = ""
    port: Annotated[Int32, until(3)] = 0
    coordinators: Annotated[tuple[Coordinator, ...], since(4)] = ()
    tagged: TaggedFields = ()


API = Api(
    key=10,
    name="FindCoordinator",
    request=FindCoordinatorRequest,
    response=FindCoordinatorResponse,
    versions=(0, 6),
    flexible_since=3,
)
