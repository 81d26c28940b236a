"""Consumers in ZooKeeper: which of them commit to their group's coordinator (`offsets.storage=kafka`), and which are
not known to.

All consumers of 0.8 to 1.1 have their ids and the partitions that they own in ZooKeeper, wherever their offsets are,
and no id says where that is. One with `offsets.storage=kafka` sends the offsets of all partitions that it owns at each
commit, whether they have changed or not (`commitOffsets` of `ZookeeperConsumerConnector`, 0.8.2 to 1.1); one with
`zookeeper` never sends any. So a commit of a partition says it of its owner.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from shim.offsets.store import OffsetStore, Ownership, Partition


class _Seen(NamedTuple):
    """Of a group, who owned what when it was last looked at, and what was committed to the coordinator since it is
    owned so."""

    owned: dict[Partition, Ownership]
    committed: set[Partition]


class OldConsumers:
    """For the event loop. What was seen is not kept over a restart: it is seen again with the next commit of each."""

    def __init__(self, store: OffsetStore) -> None:
        self._store = store
        self._groups: dict[str, _Seen] = {}

    async def doubtful(self, group: str) -> list[str]:
        """The ids of those that are there, and have committed nothing to the coordinator since they own what they own,
        as far as was seen since the first look. Raises :class:`shim.offsets.store.StoreError`."""
        ids = await self._store.members(group)
        if not ids:
            self.forget(group)
            return []
        owned = await self._store.owned(group)
        before = self._groups.get(group, _Seen({}, set()))
        committed = {at for at in before.committed if owned.get(at) == before.owned.get(at)}
        self._groups[group] = _Seen(owned, committed)
        certain = {owned[at].consumer for at in committed}
        return [each for each in ids if each not in certain]

    def committed(self, group: str, partitions: Iterable[Partition]) -> None:
        """A client that is no member has committed these to the coordinator, and was told so."""
        seen = self._groups.get(group)
        if seen is not None:
            seen.committed.update(seen.owned.keys() & set(partitions))

    def forget(self, group: str) -> None:
        self._groups.pop(group, None)
