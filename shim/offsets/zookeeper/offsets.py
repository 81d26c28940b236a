"""Offsets in ZooKeeper, where the consumers of Kafka 0.8 to 1.1 keep them (``offsets.storage=zookeeper``)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from compat import zookeeper as layout
from protocol.topic_partition import Partition
from shim.offsets.store import Ownership, StoredOffset, StoreUnreadable
from shim.offsets.zookeeper.commit import commit
from shim.offsets.zookeeper.deletion import delete_group, delete_offsets
from shim.offsets.zookeeper.ensemble import Ensemble
from shim.offsets.zookeeper.in_store_words import in_store_words
from shim.offsets.zookeeper.offset_znodes import OffsetZnode, offset_znode, stored


class ZooKeeperOffsets:
    """An :class:`shim.offsets.store.OffsetStore`. ``ensemble`` is started, and whoever did that closes it.

    A version is the znode's: it counts what was written since the znode was created. Where somebody deletes a znode and
    creates it anew, it begins at 0 again, and can be the one that is expected.
    """

    def __init__(self, ensemble: Ensemble) -> None:
        self._ensemble = ensemble

    async def fetch(self, group: str, topics: Collection[str] | None = None) -> dict[Partition, StoredOffset]:
        """All that was written before, by whomever; what is written meanwhile may be among it or not.

        Raises :class:`StoreUnreadable` where one znode of these topics says no offset.
        """
        layout.group_path(group)
        with in_store_words():
            await self._ensemble.sync()
            if topics is None:
                topics = await self._ensemble.children(layout.offsets_path(group))
            found, unreadable = await self._read(group, topics)
        for path, why in unreadable.items():
            if why == layout.NO_PARTITION:
                continue  # somebody keeps something else there
            raise StoreUnreadable(f"{path}: {why}")
        return found

    async def partitions(self, group: str) -> list[Partition]:
        """By the names of znodes. Raises :class:`StoreUnreadable` for one that is no partition's."""
        layout.group_path(group)
        with in_store_words():
            await self._ensemble.sync()
            topics = await self._ensemble.children(layout.offsets_path(group))
            names = await self._ensemble.children_many([layout.topic_path(group, topic) for topic in topics])
        found: list[Partition] = []
        for topic, children in zip(topics, names, strict=True):
            chosen = layout.choose(children)
            for name, why in chosen.strange.items():
                if why == layout.NO_PARTITION:
                    continue
                raise StoreUnreadable(f"{layout.topic_path(group, topic)}/{name}: {why}")
            found += [(topic, partition) for partition in chosen.names]
        return found

    async def commit(self, group: str, offsets: Mapping[Partition, StoredOffset]) -> dict[Partition, int]:
        """All or none, where ZooKeeper takes all of them in one request (some 6,000); where not, in as many as needed,
        in the order given."""
        return await commit(self._ensemble, group, offsets)

    async def delete(
        self,
        group: str,
        partitions: Collection[Partition] | None = None,
        versions: Mapping[Partition, int] | None = None,
    ) -> None:
        """Topic and group go too where nothing is left in them. What is not of the old consumers stays, and what it
        is in."""
        if partitions is None:
            await delete_group(self._ensemble, group)
        else:
            await delete_offsets(self._ensemble, group, partitions, versions or {})

    async def members(self, group: str) -> list[str]:
        """By the ids that they have there, as long as they live."""
        with in_store_words():
            await self._ensemble.sync()
            return sorted(await self._ensemble.children(layout.ids_path(group)))

    async def owned(self, group: str) -> dict[Partition, Ownership]:
        """By what each consumer has claimed; a claim is the transaction that has created its znode."""
        owners = layout.owners_path(group)
        with in_store_words():
            await self._ensemble.sync()
            topics = await self._ensemble.children(owners)
            names = await self._ensemble.children_many([f"{owners}/{topic}" for topic in topics])
            named = [
                ((topic, at.partition), f"{owners}/{topic}/{name}")
                for topic, children in zip(topics, names, strict=True)
                for name in children
                if (at := layout.parse_partition(name)) is not None
            ]
            found = await self._ensemble.get_many([path for _, path in named])
        return {
            at: Ownership(layout.consumer_of(znode.data), znode.mzxid)
            for (at, _), znode in zip(named, found, strict=True)
            if znode is not None
        }

    async def groups(self) -> list[str]:
        """Those with offsets or consumers; of others there is nothing but the names of znodes."""
        with in_store_words():
            await self._ensemble.sync()
            names = sorted(await self._ensemble.children(layout.CONSUMERS))
            topics = await self._ensemble.children_many([layout.offsets_path(name) for name in names])
            ids = await self._ensemble.children_many([layout.ids_path(name) for name in names])
        return [name for name, *found in zip(names, topics, ids, strict=True) if any(found)]

    async def _read(self, group: str, topics: Collection[str]) -> tuple[dict[Partition, StoredOffset], dict[str, str]]:
        """The offsets of these topics; and where → why of what is none."""
        paths = [layout.topic_path(group, topic) for topic in topics]
        names = await self._ensemble.children_many(paths)
        unreadable: dict[str, str] = {}
        found_at: list[OffsetZnode] = []
        for topic, path, children in zip(topics, paths, names, strict=True):
            chosen = layout.choose(children)
            found_at.extend(offset_znode(group, topic, name) for name in chosen.names.values())
            unreadable |= {f"{path}/{name}": why for name, why in chosen.strange.items()}
        offsets: dict[Partition, StoredOffset] = {}
        for at, znode in zip(found_at, await self._ensemble.get_many([each.path for each in found_at]), strict=True):
            if znode is None:
                continue  # deleted since
            try:
                offsets[at.partition] = stored(at, znode)
            except layout.NotAnOffset as error:
                unreadable[at.path] = str(error)
        return offsets, unreadable
