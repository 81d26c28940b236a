"""DescribeCluster (key 60, KIP-700): passed on; in the response each broker stands at the shim's port."""

from __future__ import annotations

from protocol.messages.describe_cluster import API
from shim.api.call import SIZE_FIELD, Services
from shim.upstream import readdressed

VERSIONS = (0, 2)

BROKERS = 1


def rewrite(services: Services, version: int, frame: bytes) -> bytes:
    correlation_id, response = API.parse_response(version, frame, SIZE_FIELD)
    # Controllers (endpoint type 2) have no ports here, and a client of theirs does not come through the shim.
    found = response.brokers if response.endpoint_type == BROKERS else ()
    brokers = readdressed(services.ports, found, lambda broker: broker.broker_id)
    return API.response_frame(version, correlation_id, response._replace(brokers=brokers))


__all__ = ["API", "VERSIONS", "rewrite"]
