"""Metadata (key 3): forwarded; in the response each broker stands at the shim's port for its node id."""

from __future__ import annotations

from collections.abc import Awaitable

from protocol.messages.metadata import API, MetadataResponse
from shim.api.call import SIZE_FIELD, Services
from shim.config import HostPort

VERSIONS = (0, 13)


def rewrite(services: Services, version: int, frame: bytes) -> bytes | Awaitable[bytes]:
    correlation_id, response = API.parse_response(version, frame, SIZE_FIELD)
    seen = {broker.node_id: HostPort(broker.host, broker.port) for broker in response.brokers}
    if seen == services.cluster.brokers:
        return _rewritten(services, version, correlation_id, response)
    return _learn_first(services, version, correlation_id, response, seen)


async def _learn_first(
    services: Services, version: int, correlation_id: int, response: MetadataResponse, seen: dict[int, HostPort]
) -> bytes:
    """A client told of a broker comes to its port at once: have it open before."""
    await services.cluster.learn(seen, whole=True)
    return _rewritten(services, version, correlation_id, response)


def _rewritten(services: Services, version: int, correlation_id: int, response: MetadataResponse) -> bytes:
    brokers = []
    for broker in response.brokers:
        host, port = services.ports.of(broker.node_id)
        brokers.append(broker._replace(host=host, port=port))
    return API.response_frame(version, correlation_id, response._replace(brokers=tuple(brokers)))


__all__ = ["API", "VERSIONS", "rewrite"]
