"""ListGroups (key 16), versions 0-5. Source: Kafka 4.3, KIP-518 (states), KIP-848 (types)."""

from typing import Annotated, NamedTuple

from protocol.api import Api
from protocol.wire import Int16, Int32, String, TaggedFields, ignorable, since


class ListGroupsRequest(NamedTuple):
    """An empty filter lets every group through."""

    states_filter: Annotated[tuple[String, ...], since(4)] = ()
    types_filter: Annotated[tuple[String, ...], since(5)] = ()
    tagged: TaggedFields = ()


class ListedGroup(NamedTuple):
    group_id: String
    protocol_type: String
    group_state: Annotated[String, since(4), ignorable] = ""
    group_type: Annotated[String, since(5), ignorable] = ""
    tagged: TaggedFields = ()


class ListGroupsResponse(NamedTuple):
    throttle_time_ms: Annotated[Int32, since(1), ignorable] = 0
    error_code: Int16 = 0
    groups: tuple[ListedGroup, ...] = ()
    tagged: TaggedFields = ()


API = Api(
    key=16, name="ListGroups", request=ListGroupsRequest, response=ListGroupsResponse, versions=(0, 5), flexible_since=3
)
