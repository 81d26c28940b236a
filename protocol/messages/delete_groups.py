"""DeleteGroups (key 42), versions 0-2. Source: Kafka 4.3, KIP-229."""

from typing import NamedTuple

from protocol.api import Api
from protocol.wire import Int16, Int32, String, TaggedFields


class DeleteGroupsRequest(NamedTuple):
    groups_names: tuple[String, ...]
    tagged: TaggedFields = ()


class DeletableGroupResult(NamedTuple):
    group_id: String
    error_code: Int16
    tagged: TaggedFields = ()


class DeleteGroupsResponse(NamedTuple):
    throttle_time_ms: Int32
    results: tuple[DeletableGroupResult, ...]
    tagged: TaggedFields = ()


API = Api(
    key=42,
    name="DeleteGroups",
    request=DeleteGroupsRequest,
    response=DeleteGroupsResponse,
    versions=(0, 2),
    flexible_since=2,
)
