"""What two places have of a group's offsets, partition by partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Final

from protocol.offsets_log import CommittedOffset
from protocol.topic_partition import TopicPartition
from shim.migration.words import Difference, Refused
from shim.offsets.cluster.groups import Committed
from shim.offsets.store import Partition, StoredOffset

_SHOWN: Final = 5
MOST_SHOWN: Final = 100
"""Where a line is all that is left of them."""


def differing(some: Committed, others: Committed) -> list[TopicPartition]:
    """In leader epoch and metadata, too."""
    return sorted(at for at in some.keys() | others.keys() if _served(some.get(at)) != _served(others.get(at)))


def without(own: Committed, nowhere: Set[TopicPartition]) -> Committed:
    """``nowhere``: what the other place has no partition for, and so no offset of."""
    return {at: its for at, its in own.items() if at not in nowhere}


def differences_to_cluster(own: Committed, there: Committed) -> list[Difference]:
    """As :func:`differing`, of what is in the log and in the cluster."""
    return [
        Difference(at.topic, at.partition, _offset(own.get(at)), _offset(there.get(at)), "upstream")
        for at in differing(own, there)
    ]


def differences_to_zookeeper(own: Mapping[Partition, int], there: Mapping[Partition, StoredOffset]) -> list[Difference]:
    """By topic and partition; a negative offset there stands for none."""
    found = {at: each.offset for at, each in there.items() if each.offset >= 0}
    return [
        Difference(*at, own.get(at), found.get(at), "zookeeper")
        for at in sorted(own.keys() | found.keys())
        if own.get(at) != found.get(at)
    ]


def differs_from_zookeeper(group: str, in_cluster: Committed, there: Mapping[Partition, int]) -> str:
    """A line that says what differs, of a group that both have; "" where nothing does."""
    own: dict[Partition, int] = {at: its.offset for at, its in in_cluster.items()}
    differing = [at for at in sorted(own.keys() | there.keys()) if own.get(at) != there.get(at)]
    if not differing:
        return ""
    shown = "; ".join(
        f"{topic}-{number} is {own.get((topic, number), 'none')} in the cluster and "
        f"{there.get((topic, number), 'none')} in ZooKeeper"
        for topic, number in differing[:_SHOWN]
    )
    more = f"; and {len(differing) - _SHOWN} more" if differing[_SHOWN:] else ""
    return (
        f"group {group}: both the cluster and ZooKeeper have offsets of it, and they differ; which are right is for "
        f"--from upstream or --from zookeeper to say: {shown}{more}"
    )


def to_bring(own: Committed, there: Committed) -> tuple[Committed, list[TopicPartition]]:
    """What is to be committed there, and what is to be deleted, so that it has what the log has."""
    changed = {at: its for at, its in own.items() if _served(its) != _served(there.get(at))}
    return changed, sorted(there.keys() - own.keys())


def further_on(own: Committed, there: Committed, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Of these, those that the other place alone has, or has a later offset of."""
    return sorted(at for at in partitions if at in there and (at not in own or there[at].offset > own[at].offset))


def beside(own: Committed, there: Committed, partitions: Iterable[TopicPartition]) -> list[str]:
    """In words, what both have of these."""
    return [f"{at} ({_shown(own.get(at))} here, {_shown(there.get(at))} there)" for at in sorted(partitions)]


def refused(group: str, differences: Sequence[Difference], why: str) -> Refused:
    """To be raised: names the first few of them."""
    shown = "; ".join(map(str, differences[:_SHOWN]))
    more = f"; and {len(differences) - _SHOWN} more (migrate verify)" if len(differences) > _SHOWN else ""
    return Refused(f"group {group}: {why}: {shown}{more}")


def _shown(committed: CommittedOffset | None) -> str:
    return "none" if committed is None else str(committed.offset)


def _offset(committed: CommittedOffset | None) -> int | None:
    return None if committed is None else committed.offset


def _served(committed: CommittedOffset | None) -> tuple[int, int, str] | None:
    return None if committed is None else (committed.offset, committed.leader_epoch, committed.metadata)
