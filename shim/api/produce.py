"""Produce (key 0): forwarded. From v10 on the response may name the new leader's address (KIP-951)."""

from __future__ import annotations

from protocol.messages.produce import API, is_plain_response
from shim.api.call import Services
from shim.api.new_leaders import at_our_ports

VERSIONS = (10, 13)
"""Older ones name nobody."""


def rewrite(services: Services, version: int, frame: bytes) -> bytes:
    return frame if is_plain_response(frame, version) else at_our_ports(services, API, version, frame)


__all__ = ["API", "VERSIONS", "rewrite"]
