"""DescribeAcls (key 29), versions 0-3. Source: Kafka 4.3, KIP-140; 3.9 for version 0, which Kafka 4 dropped.

Version 1 has patterns of resource names (KIP-290), 3 users as a resource (KIP-373).
"""

from typing import Annotated, NamedTuple

from protocol.api import Api
from protocol.wire import Int8, Int16, Int32, NullableString, String, TaggedFields, since


class DescribeAclsRequest(NamedTuple):
    """A filter that is null lets everything through; `pattern_type_filter` 3 stands for literal names."""

    resource_type_filter: Int8
    resource_name_filter: NullableString
    pattern_type_filter: Annotated[Int8, since(1)] = 3
    principal_filter: NullableString = ""
    host_filter: NullableString = ""
    operation: Int8 = 0
    permission_type: Int8 = 0
    tagged: TaggedFields = ()


class AclDescription(NamedTuple):
    principal: String
    host: String
    operation: Int8
    permission_type: Int8
    tagged: TaggedFields = ()


class DescribeAclsResource(NamedTuple):
    resource_type: Int8
    resource_name: String
    pattern_type: Annotated[Int8, since(1)] = 3
    acls: tuple[AclDescription, ...] = ()
    tagged: TaggedFields = ()


class DescribeAclsResponse(NamedTuple):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: NullableString
    resources: tuple[DescribeAclsResource, ...]
    tagged: TaggedFields = ()


API = Api(
    key=29,
    name="DescribeAcls",
    request=DescribeAclsRequest,
    response=DescribeAclsResponse,
    versions=(0, 3),
    flexible_since=2,
)
