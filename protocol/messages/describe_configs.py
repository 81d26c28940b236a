"""DescribeConfigs (key 32), versions 0-4. Source: Kafka 4.3, KIP-133; 3.9 for version 0, which Kafka 4 dropped.

Version 1 says where a value comes from (KIP-226), 3 its type and documentation (KIP-569).
"""

from typing import Annotated, NamedTuple

from protocol.api import Api
from protocol.wire import Bool, Int8, Int16, Int32, NullableString, String, TaggedFields, ignorable, only, since


class DescribeConfigsResource(NamedTuple):
    """`resource_type`: 2 a topic, 4 a broker; `configuration_keys`: None asks for all."""

    resource_type: Int8
    resource_name: String
    configuration_keys: tuple[String, ...] | None
    tagged: TaggedFields = ()


class DescribeConfigsRequest(NamedTuple):
    resources: tuple[DescribeConfigsResource, ...]
    include_synonyms: Annotated[Bool, since(1)] = False
    include_documentation: Annotated[Bool, since(3)] = False
    tagged: TaggedFields = ()


class DescribeConfigsSynonym(NamedTuple):
    name: String
    value: NullableString
    source: Int8
    tagged: TaggedFields = ()


class DescribeConfigsResourceResult(NamedTuple):
    """`value` is null where it is sensitive."""

    name: String
    value: NullableString
    read_only: Bool
    is_default: Annotated[Bool, only(0)] = False
    config_source: Annotated[Int8, since(1), ignorable] = -1
    is_sensitive: Bool = False
    synonyms: Annotated[tuple[DescribeConfigsSynonym, ...], since(1), ignorable] = ()
    config_type: Annotated[Int8, since(3), ignorable] = 0
    documentation: Annotated[NullableString, since(3), ignorable] = ""
    tagged: TaggedFields = ()


class DescribeConfigsResult(NamedTuple):
    error_code: Int16
    error_message: NullableString
    resource_type: Int8
    resource_name: String
    configs: tuple[DescribeConfigsResourceResult, ...]
    tagged: TaggedFields = ()


class DescribeConfigsResponse(NamedTuple):
    throttle_time_ms: Int32
    results: tuple[DescribeConfigsResult, ...]
    tagged: TaggedFields = ()


API = Api(
    key=32,
    name="DescribeConfigs",
    request=DescribeConfigsRequest,
    response=DescribeConfigsResponse,
    versions=(0, 4),
    flexible_since=4,
)
