"""ShareAcknowledge (key 79, KIP-932): passed on. The response may name the new leader's address."""

from __future__ import annotations

from protocol.messages.share_acknowledge import API
from shim.api.call import Services
from shim.api.new_leaders import at_our_ports

VERSIONS = (1, 2)


def rewrite(services: Services, version: int, frame: bytes) -> bytes:
    return at_our_ports(services, API, version, frame)


__all__ = ["API", "VERSIONS", "rewrite"]
