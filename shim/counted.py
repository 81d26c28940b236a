"""Counts of what is counted, the first few of many, and durations, as messages have them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def counted(count: int, what: str) -> str:
    """``1 batch``, ``2 batches``, ``1,000 offsets``. ``what``: in the singular."""
    if count == 1:
        return f"1 {what}"
    return f"{count:,} {what}es" if what.endswith("ch") else f"{count:,} {what}s"


def some_of(items: Sequence[T], told: Callable[[T], str] = str, most: int = 5) -> str:
    """``a, b and 1,000 more``: the first ``most`` of them, each as ``told``."""
    more = f" and {len(items) - most:,} more" if len(items) > most else ""
    return ", ".join(map(told, items[:most])) + more


_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000))


def lasting(ms: int) -> str:
    """``0 s``, ``90 s``, ``2 min``, ``36 h``: in full units, of which there are two at least, but for seconds."""
    for unit, size in _UNITS:
        if ms >= 2 * size:
            return f"{ms // size:,} {unit}"
    return f"{max(ms, 0) // 1_000} s"
