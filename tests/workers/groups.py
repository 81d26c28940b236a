"""Names of groups by the worker that has them."""

from __future__ import annotations

from protocol.partition import partition_for
from tests.workers.conftest import OFFSETS_PARTITIONS


def of_both(prefix: str, count: int) -> list[str]:
    """Names of groups, by turns of the first worker and of the second of two."""
    found: list[list[str]] = [[], []]
    number = 0
    while any(len(names) < count // 2 for names in found):
        name = f"{prefix}-{number}"
        found[partition_for(name, OFFSETS_PARTITIONS) % 2].append(name)
        number += 1
    return [name for both in zip(*found, strict=False) for name in both][:count]
