"""Responses that name brokers beside what they are about: who leads a partition now (KIP-951)."""

from __future__ import annotations

from typing import Any

from protocol.api import Api
from shim.api.call import SIZE_FIELD, Services
from shim.upstream import readdressed


def at_our_ports(services: Services, api: Api[Any, Any], version: int, frame: bytes) -> bytes:
    """The response's frame with the shim's ports in the place of brokers' addresses. Raises DecodeError."""
    correlation_id, response = api.parse_response(version, frame, SIZE_FIELD)
    if not response.node_endpoints:
        return frame
    endpoints = readdressed(services.ports, response.node_endpoints, lambda endpoint: endpoint.node_id)
    return api.response_frame(version, correlation_id, response._replace(node_endpoints=endpoints))
