"""ApiVersions (key 18), versions 0-4. Source: Kafka 4.3, KIP-35, KIP-511 (client name), KIP-584 (features).

Its response header is version 0 whatever the API's version, so that a client can read the answer to a version the
server lacks.
"""

from typing import Annotated, NamedTuple

from protocol.api import Api
from protocol.wire import Bool, Int16, Int32, Int64, String, TaggedFields, ignorable, since, tag


class ApiVersionsRequest(NamedTuple):
    client_software_name: Annotated[String, since(3), ignorable] = ""
    client_software_version: Annotated[String, since(3), ignorable] = ""
    tagged: TaggedFields = ()


class ApiVersion(NamedTuple):
    api_key: Int16
    min_version: Int16
    max_version: Int16
    tagged: TaggedFields = ()


class SupportedFeatureKey(NamedTuple):
    name: String
    min_version: Int16
    max_version: Int16
    tagged: TaggedFields = ()


class FinalizedFeatureKey(NamedTuple):
    name: String
    max_version_level: Int16
    min_version_level: Int16
    tagged: TaggedFields = ()


class ApiVersionsResponse(NamedTuple):
    error_code: Int16
    api_keys: tuple[ApiVersion, ...]
    throttle_time_ms: Annotated[Int32, since(1), ignorable] = 0
    supported_features: Annotated[tuple[SupportedFeatureKey, ...], since(3), tag(0), ignorable] = ()
    finalized_features_epoch: Annotated[Int64, since(3), tag(1), ignorable] = -1
    finalized_features: Annotated[tuple[FinalizedFeatureKey, ...], since(3), tag(2), ignorable] = ()
    zk_migration_ready: Annotated[Bool, since(3), tag(3), ignorable] = False
    tagged: TaggedFields = ()


API = Api(
    key=18,
    name="ApiVersions",
    request=ApiVersionsRequest,
    response=ApiVersionsResponse,
    versions=(0, 4),
    flexible_since=3,
)
