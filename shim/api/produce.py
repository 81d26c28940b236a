"""Produce (key 0): passed on. From v10 on the response may name the new leader's address (KIP-951)."""

from __future__ import annotations

from protocol.messages.produce import API, is_plain_response, produce_acks
from shim.api.call import Services
from shim.api.new_leaders import at_our_ports

VERSIONS = (10, 13)
"""Older ones name nobody."""


def rewrite(services: Services, version: int, frame: bytes) -> bytes:
    return frame if is_plain_response(frame, version) else at_our_ports(services, API, version, frame)


def answered(data: bytes | memoryview, start: int, end: int, version: int) -> tuple[bool | None, int]:
    """Of any version: see :class:`shim.api.route.Route`."""
    acks, said = produce_acks(data, start, end, version)
    return None if acks is None else acks != 0, said


__all__ = ["API", "VERSIONS", "answered", "rewrite"]
