"""DescribeCluster (key 60), versions 0-2.

Source: Kafka 4.3, KIP-700, KIP-919 (endpoint type), KIP-1073 (fenced brokers).
"""

from typing import Annotated, NamedTuple

from protocol.api import Api
from protocol.wire import Bool, Int8, Int16, Int32, NullableString, String, TaggedFields, since


class DescribeClusterRequest(NamedTuple):
    """`endpoint_type`: 1 brokers, 2 controllers."""

    include_cluster_authorized_operations: Bool
    endpoint_type: Annotated[Int8, since(1)] = 1
    include_fenced_brokers: Annotated[Bool, since(2)] = False
    tagged: TaggedFields = ()


class DescribeClusterBroker(NamedTuple):
    broker_id: Int32
    host: String
    port: Int32
    rack: NullableString = None
    is_fenced: Annotated[Bool, since(2)] = False
    tagged: TaggedFields = ()


class DescribeClusterResponse(NamedTuple):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: NullableString = None
    endpoint_type: Annotated[Int8, since(1)] = 1
    cluster_id: String = ""
    controller_id: Int32 = -1
    brokers: tuple[DescribeClusterBroker, ...] = ()
    cluster_authorized_operations: Int32 = -2147483648
    tagged: TaggedFields = ()


API = Api(
    key=60,
    name="DescribeCluster",
    request=DescribeClusterRequest,
    response=DescribeClusterResponse,
    versions=(0, 2),
    flexible_since=0,
)
