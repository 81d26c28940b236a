"""What ZooKeeper has of groups, for who looks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, nullcontext
from typing import Final

from shim.migration.compared import differs_from_zookeeper
from shim.migration.dual.lookup import Lookup
from shim.migration.reader import GroupReader
from shim.migration.stores import Stores
from shim.migration.words import NotKnown
from shim.offsets.store import StoreError, StoreUnavailable
from shim.upstream.errors import UpstreamError

_SOON_SECONDS: Final = 5.0
"""For so long it is waited for, for what it has of one group, in which there may be many znodes."""


class InZooKeeper:
    """For the event loop."""

    def __init__(self, stores: Stores, lookup: Lookup, reader: GroupReader) -> None:
        self._stores = stores
        self._lookup = lookup
        self._reader = reader

    async def groups(self) -> Collection[str]:
        """All that have offsets or consumers there. Raises StoreError."""
        self._stores.in_sight()
        return await self._lookup.groups()

    async def counted(self, group: str) -> tuple[int, int]:
        """How many offsets and consumers are there of a group that the cluster does not have. Raises StoreError, and
        NotKnown where there are none."""
        async with self._soon():
            count, members = len(await self._lookup.offsets(group)), await self._lookup.consumers(group)
        if not (count or members):
            raise NotKnown(self._lookup.nobody_has(group))
        return count, members

    async def differs(self, group: str, *, soon: bool) -> str:
        """From the cluster: why it has to be said which offsets are right; "" where it has not. ``soon``: for who only
        looks, and does not wait for it as long as it takes."""
        try:
            async with self._soon() if soon else nullcontext():
                there = await self._lookup.offsets(group)
            in_cluster = await self._reader.cluster_offsets(group) if there else {}
        except (StoreError, UpstreamError) as error:
            return f"group {group}: whether ZooKeeper has other offsets of it cannot be found out: {error}"
        return "" if not there else differs_from_zookeeper(group, in_cluster, there)

    @asynccontextmanager
    async def _soon(self) -> AsyncIterator[None]:
        """Raises StoreUnavailable where it is known to be away, or has not answered."""
        self._stores.in_sight()
        try:
            async with asyncio.timeout(_SOON_SECONDS):
                yield
        except TimeoutError:
            raise StoreUnavailable(f"ZooKeeper has not answered in {_SOON_SECONDS:g} s") from None
