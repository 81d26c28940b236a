"""Offsets of topic-partitions, and their JSON: the form that Spark's Kafka source takes, ``{topic: {"0": offset}}``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


Offsets: TypeAlias = Mapping[TopicPartition, int]


class Range(NamedTuple):
    """Offsets from ``start`` to before ``end`` of one topic-partition."""

    at: TopicPartition
    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start


def nested(offsets: Offsets) -> dict[str, dict[str, int]]:
    """For JSON, sorted."""
    found: dict[str, dict[str, int]] = {}
    for at in sorted(offsets):
        found.setdefault(at.topic, {})[str(at.partition)] = offsets[at]
    return found


def flat(document: object) -> dict[TopicPartition, int]:
    """What :func:`nested` gave. Raises ValueError for anything else."""
    if not isinstance(document, dict):
        raise ValueError("offsets are not an object")
    found: dict[TopicPartition, int] = {}
    for topic, partitions in document.items():
        if not isinstance(partitions, dict):
            raise ValueError(f"offsets of {topic} are not an object")
        for partition, offset in partitions.items():
            if not partition.isdecimal() or type(offset) is not int or offset < 0:
                raise ValueError(f"{topic}-{partition}: {offset!r} is no offset")
            found[TopicPartition(topic, int(partition))] = offset
    return found


def source_options(ranges: Iterable[Range]) -> dict[str, str]:
    """Which offsets Spark's Kafka source reads: just these ranges, of just these partitions."""
    chosen = sorted(ranges)
    partitions: dict[str, list[int]] = {}
    for each in chosen:
        partitions.setdefault(each.at.topic, []).append(each.at.partition)
    return {
        "assign": json.dumps(partitions),
        "startingOffsets": json.dumps(nested({each.at: each.start for each in chosen})),
        "endingOffsets": json.dumps(nested({each.at: each.end for each in chosen})),
    }
