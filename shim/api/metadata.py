"""Metadata (key 3): forwarded; in the response each broker stands at the shim's port for its node id."""

from __future__ import annotations

from protocol.messages.metadata import API
from shim.api.call import SIZE_FIELD, Services
from shim.config import HostPort

VERSIONS = (0, 13)


async def rewrite(services: Services, version: int, frame: bytes) -> bytes:
    correlation_id, response = API.parse_response(version, frame, SIZE_FIELD)
    # A client told of a broker comes to its port at once: have it open before.
    await services.cluster.learn(
        {broker.node_id: HostPort(broker.host, broker.port) for broker in response.brokers}, whole=True
    )
    brokers = services.ports.readdressed(response.brokers, lambda broker: broker.node_id)
    return API.response_frame(version, correlation_id, response._replace(brokers=brokers))


__all__ = ["API", "VERSIONS", "rewrite"]
