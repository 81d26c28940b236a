"""Whether the topics and partitions of a request exist, and are the ones that they were.

Topics that are known cost a look into a table. For others the cluster is asked, and the connection's later requests
wait, as they wait for each other in a broker.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple, Protocol

from protocol.commit_rows import CommitRows
from shim.following import Topics


class _Partition(Protocol):
    @property
    def partition_index(self) -> int: ...


class _Topic(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def partitions(self) -> Sequence[_Partition]: ...


class Split(NamedTuple):
    """The topics of a request, of each the partitions that exist, and those that do not; topics without any left out.

    The messages of the request, with fewer partitions.
    """

    existing: list[Any]
    missing: list[Any]


def are_known(topics: Topics, wanted: Collection[_Topic]) -> bool:
    """Whether all of them are known to exist. Those that are not may exist, too."""
    counts = topics.partition_counts
    for topic in wanted:
        count = counts.get(topic.name, 0)
        if isinstance(topic.partitions, CommitRows):
            if not 0 <= topic.partitions.lowest <= topic.partitions.highest < count:
                return False
            continue
        for partition in topic.partitions:
            if not 0 <= partition.partition_index < count:
                return False
    return True


async def split(topics: Topics, wanted: Collection[_Topic]) -> Split:
    """Ask the cluster. What it cannot be asked of exists: a client gives up at a partition that does not, while an
    offset for one that does not exist does no harm. Raises :class:`shim.following.TopicInDoubt`.
    """
    counts = await topics.partitions_of({topic.name for topic in wanted})
    existing, missing = [], []
    for topic in wanted:
        count = counts[topic.name]
        if count is None:
            existing.append(topic)
            continue
        there = [p for p in topic.partitions if 0 <= p.partition_index < count]
        others = [p for p in topic.partitions if not 0 <= p.partition_index < count]
        if others or not count:
            missing.append(_with(topic, others))
        if there or (count and not others):
            existing.append(_with(topic, there))
    return Split(existing, missing)


def _with(topic: Any, partitions: list[_Partition]) -> Any:
    return topic._replace(partitions=tuple(partitions))


def merged(refused: Sequence[Any], decided: Sequence[Any]) -> tuple[Any, ...]:
    """The topics of two responses as those of one, in a broker's order: what was refused, and then the rest."""
    topics: dict[str, Any] = {}
    for topic in (*refused, *decided):
        before = topics.get(topic.name)
        topics[topic.name] = topic if before is None else _with(topic, [*before.partitions, *topic.partitions])
    return tuple(topics.values())
