"""Partitions that are to be served here, and are not, as people read of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from protocol.errors import ErrorCode
from shim.counted import counted

DAMAGED: Final = "damaged and not served"
WORDS: Final = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "not loaded",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: DAMAGED,
    ErrorCode.NOT_COORDINATOR: "another shim's for now",
}
"""By what their requests are answered."""


def how_many(count: int, of: int, what: str) -> str:
    """``1 of 50 partitions is not loaded``."""
    return f"{count} of {counted(of, 'partition')} {'is' if count == 1 else 'are'} {what}"


def unserved(counts: Mapping[ErrorCode, int], of: int) -> list[str]:
    """A line for each kind. ``counts``: as :attr:`shim.runtime.Runtime.unavailable` has them."""
    return [how_many(count, of, WORDS[state]) for state, count in counts.items() if count]
