"""Which partition of `__consumer_offsets` a group lives in.

Source: `java.lang.String.hashCode` and Kafka's `Utils.abs` (Kafka 4.3), which takes Integer.MIN_VALUE to 0.
"""

from collections.abc import Iterable
from functools import lru_cache
from struct import unpack
from typing import Final

OFFSETS_TOPIC: Final = "__consumer_offsets"

# The groups that are asked for again and again; what a cache of them takes is bounded by both numbers.
_KEPT: Final = 4096
_SHORT: Final = 256


def java_hash(text: str) -> int:
    """`String.hashCode` of `text`: -2**31 .. 2**31 - 1, over UTF-16 units."""
    units: Iterable[int]
    if text.isascii():
        units = text.encode()
    else:
        raw = text.encode("utf-16-be", "surrogatepass")
        units = unpack(f">{len(raw) // 2}H", raw)
    value = 0
    for unit in units:
        value = (value * 31 + unit) & 0xFFFFFFFF
    return value - 0x100000000 if value & 0x80000000 else value


_short_hash = lru_cache(_KEPT)(java_hash)


def partition_for(group: str, num_partitions: int) -> int:
    """The offsets partition of `group`, out of `num_partitions` (`offsets.topic.num.partitions`), one at least."""
    value = _short_hash(group) if len(group) <= _SHORT else java_hash(group)
    return 0 if value == -0x80000000 else abs(value) % num_partitions
