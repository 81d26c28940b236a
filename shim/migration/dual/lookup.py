"""What ZooKeeper has of groups, whatever the shim knows of them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from shim.offsets.store import STORE_SECONDS, OffsetStore, Partition, StoreUnavailable


class Lookup:
    """``store``: None where the shim runs without a ZooKeeper, which has nothing then. Raises
    :class:`shim.offsets.store.StoreError`. Nothing in ZooKeeper can have the name of some groups."""

    def __init__(self, store: OffsetStore | None) -> None:
        self._store = store

    def nobody_has(self, group: str) -> str:
        """In a line, where it was looked for; in the cluster besides."""
        if self._store is None:
            return f"the cluster has no offsets or members of a group {group}, and this shim runs without a ZooKeeper"
        return f"neither the cluster nor ZooKeeper has offsets or members of a group {group}"

    async def groups(self) -> Collection[str]:
        """All that have offsets or consumers."""
        return () if self._store is None else await self._store.groups()

    async def offsets(self, group: str) -> dict[Partition, int]:
        """Those of one group."""
        try:
            found = {} if self._store is None else await self._store.fetch(group)
        except ValueError:
            return {}
        return {at: each.offset for at, each in found.items() if each.offset >= 0}

    async def consumers(self, group: str) -> int:
        """How many are in the group."""
        try:
            return 0 if self._store is None else len(await self._store.members(group))
        except ValueError:
            return 0

    async def knows(self, group: str) -> bool:
        """Whether it has offsets or consumers, by the names of znodes alone; for somebody who waits."""
        if self._store is None:
            return False
        try:
            async with asyncio.timeout(STORE_SECONDS):
                return bool(await self._store.partitions(group)) or bool(await self._store.members(group))
        except ValueError:
            return False
        except TimeoutError:
            raise StoreUnavailable(f"group {group}: ZooKeeper does not answer") from None
