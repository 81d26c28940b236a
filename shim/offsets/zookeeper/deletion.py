"""Deletes offsets from ZooKeeper, and what is left empty above them."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from compat import zookeeper as layout
from protocol.topic_partition import Partition
from shim.offsets.store import GroupInUse, StoreUnavailable
from shim.offsets.zookeeper.ensemble import Ensemble
from shim.offsets.zookeeper.in_store_words import in_store_words
from shim.offsets.zookeeper.znodes import ANY_VERSION, Delete, MultiFailed, NoZnode, Operation, ZnodeHasChildren

log = logging.getLogger(__name__)

_TRIES: Final = 5
"""Of a deletion whose znodes somebody else deletes at the same time."""


async def delete_offsets(
    ensemble: Ensemble, group: str, partitions: Collection[Partition], versions: Mapping[Partition, int]
) -> None:
    """``versions``: that the znodes are expected to have; whatever they have where that is not said.

    Where a partition has znodes of both layouts both go: otherwise the older one would say its offset from then
    on."""
    gone = set(partitions)
    topics = sorted({topic for topic, _ in gone})
    layout.group_path(group)
    with in_store_words():
        for _ in range(_TRIES):
            deletions = [
                Delete(path, versions.get((topic, number), ANY_VERSION) if path.endswith(f"/{number}") else ANY_VERSION)
                for topic, number, path in await _offsets(ensemble, group, topics)
                if (topic, number) in gone
            ]
            if await _deleted(ensemble, deletions):
                await _prune(ensemble, group, topics)
                return
    raise _not_done(group)


async def delete_group(ensemble: Ensemble, group: str) -> None:
    """Raises :class:`GroupInUse`."""
    ids = layout.ids_path(group)
    with in_store_words():
        for _ in range(_TRIES):
            if await ensemble.children(ids):
                raise _in_use(group)
            topics = await ensemble.children(layout.offsets_path(group))
            deletions = [Delete(path) for _, _, path in await _offsets(ensemble, group, topics)]
            if await ensemble.get(ids) is not None:
                # First, and in one request with offsets: a consumer that has come by then keeps it from being done.
                deletions.insert(0, Delete(ids))
            try:
                deleted = await _deleted(ensemble, deletions)
            except MultiFailed as failed:
                if failed.operation.path == ids and isinstance(failed.reason, ZnodeHasChildren):
                    raise _in_use(group) from failed
                raise
            if deleted:
                await _prune(ensemble, group, topics)
                return
    raise _not_done(group)


async def _offsets(ensemble: Ensemble, group: str, topics: Sequence[str]) -> list[tuple[str, int, str]]:
    """Topic, partition and path of each znode that is named as one with an offset, of either layout."""
    paths = [layout.topic_path(group, topic) for topic in topics]
    found = []
    for topic, path, names in zip(topics, paths, await ensemble.children_many(paths), strict=True):
        named = ((layout.parse_partition(name), name) for name in names)
        found += [(topic, place.partition, f"{path}/{name}") for place, name in named if place is not None]
    return found


async def _deleted(ensemble: Ensemble, deletions: Sequence[Delete]) -> bool:
    """Whether they are gone; False where one was not there any more. Raises :class:`MultiFailed` for whatever else."""
    limit = ensemble.jute_maxbuffer * 7 // 8
    for portion in layout.portions(deletions, ensemble.size_of, limit):
        operations: Sequence[Operation] = portion
        try:
            await ensemble.multi(operations)
        except MultiFailed as failed:
            if isinstance(failed.reason, NoZnode):
                return False
            raise
    return True


async def _prune(ensemble: Ensemble, group: str, topics: Sequence[str]) -> None:
    """Of what the old consumers make for a group, what is empty: its topics and, where it has no consumers and no
    offsets any more, all of it."""
    for topic in topics:
        await _delete_if_empty(ensemble, layout.topic_path(group, topic))
    if await ensemble.children(layout.offsets_path(group)) or await ensemble.children(layout.ids_path(group)):
        return
    owners = layout.owners_path(group)
    for topic in await ensemble.children(owners):
        await _delete_if_empty(ensemble, f"{owners}/{topic}")
    for path in (owners, layout.offsets_path(group), layout.ids_path(group), layout.group_path(group)):
        await _delete_if_empty(ensemble, path)


async def _delete_if_empty(ensemble: Ensemble, path: str) -> None:
    try:
        await ensemble.delete(path)
    except NoZnode:
        log.debug("%s is gone already", path)
    except ZnodeHasChildren:
        log.debug("%s stays: it is not empty", path)


def _in_use(group: str) -> GroupInUse:
    return GroupInUse(f"group {group!r} has consumers in ZooKeeper")


def _not_done(group: str) -> StoreUnavailable:
    return StoreUnavailable(f"group {group!r}: somebody else deletes its offsets at the same time")
