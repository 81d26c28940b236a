"""What the cluster has that is the group's own, though the mirror has not written it: a transaction has put it in force
there, and the log has it pending yet, or reads of it later."""

from __future__ import annotations

from collections.abc import Set

from protocol.topic_partition import TopicPartition
from shim.coordinator import GroupCoordinator
from shim.migration.own_offsets import NotReadable, own_offsets
from shim.offsets.cluster.groups import Committed
from shim.offsets.store import StoreUnavailable


def in_force_there(coordinator: GroupCoordinator, group: str, own: Committed, there: Committed) -> Set[TopicPartition]:
    """Where the log has something else than the cluster, and what that has is the log's by now, or pending here of a
    transaction. Raises StoreUnavailable."""
    ours = _ours(coordinator, group)
    return {
        at
        for at, its in there.items()
        if (at not in own or own[at].offset != its.offset) and (at.topic, at.partition, its.offset) in ours
    }


def of_others(coordinator: GroupCoordinator, group: str, own: Committed, there: Committed) -> Committed:
    """``there``, but for what a transaction of the group has put in force there since ``own`` was read: the cluster's
    log says so here later; or has put in force there though it had been overruled here."""
    overruled = coordinator.overruled(group)
    ours = _ours(coordinator, group) | {(*at, offset) for at, each in overruled.items() for offset in each.offsets}
    others: Committed = {}
    for at, its in there.items():
        before = own.get(at)
        if (before is not None and before.offset == its.offset) or (at.topic, at.partition, its.offset) not in ours:
            others[at] = its
        elif before is not None:
            others[at] = before
    return others


def _ours(coordinator: GroupCoordinator, group: str) -> Set[tuple[str, int, int]]:
    """What the log has by now, and what is pending. Raises StoreUnavailable."""
    try:
        now = own_offsets(coordinator, group)
    except NotReadable as error:
        raise StoreUnavailable(str(error)) from error
    return {(at.topic, at.partition, its.offset) for at, its in now.items()} | coordinator.pending_offsets(group)
