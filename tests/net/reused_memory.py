"""Bytes as a socket's reads bring them: in memory that the next read writes over."""

from collections.abc import Callable
from typing import TypeVar

Told = TypeVar("Told")


def in_reused_memory(feed: Callable[[memoryview], Told], data: bytes) -> Told:
    """Feed a view of `data`, and make it other bytes as soon as `feed` returns: what was kept of it shows."""
    memory = bytearray(data)
    told = feed(memoryview(memory))
    memory[:] = bytes(byte ^ 0xFF for byte in data)
    return told
