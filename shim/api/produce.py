"""Produce (key 0): forwarded. From v10 on the response may name the new leader's address (KIP-951)."""

from __future__ import annotations

from protocol.messages.produce import API, is_plain_response
from shim.api.call import SIZE_FIELD, Services
from shim.upstream import readdressed

VERSIONS = (10, 13)
"""Older ones name nobody."""


def rewrite(services: Services, version: int, frame: bytes) -> bytes:
    if is_plain_response(frame, version):
        return frame
    correlation_id, response = API.parse_response(version, frame, SIZE_FIELD)
    if not response.node_endpoints:
        return frame
    endpoints = readdressed(services.ports, response.node_endpoints, lambda endpoint: endpoint.node_id)
    return API.response_frame(version, correlation_id, response._replace(node_endpoints=endpoints))


__all__ = ["API", "VERSIONS", "rewrite"]
