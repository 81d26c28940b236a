"""What is asked of the offsets partitions and decides nothing: whether one is served, and why not; counts of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence

from protocol.errors import ErrorCode
from protocol.partition import partition_for
from shim.coordinator import GroupCoordinator, GroupMemory
from shim.metrics import StandbyCounts
from shim.runtime.backend import Backend
from shim.runtime.partition import Partition
from shim.runtime.unserved import DAMAGED


class ReadablePartitions:
    """Those of one log, for whoever looks at them; what is told is as of now, durable or not."""

    def __init__(self, backend: Backend, group_memory: GroupMemory) -> None:
        self._log = backend
        self._writes_of = backend.writes_of
        self._partitions = [Partition(number) for number in range(backend.num_partitions)]
        self.num_partitions = backend.num_partitions
        self.is_divided = backend.is_divided
        self.is_among_shims = backend.is_among_shims
        """See :class:`shim.runtime.backend.Backend`, of both."""
        self.flushes = backend.flushes
        self.cleaning = backend.cleaning
        self._group_memory = group_memory
        self._stopping = False
        self.named_owner: Callable[[int], str] = lambda number: ""
        """For people, the other process that is to have a partition; "" where that is not known."""

    def name_of(self, partition_number: int) -> str:
        """Of its log, for people."""
        return self._log.name_of(partition_number)

    def partition_of(self, group_id: str) -> int:
        return partition_for(group_id, len(self._partitions))

    def coordinator_of(self, group_id: str) -> GroupCoordinator | None:
        """Of the group's partition, as :meth:`coordinator` has it."""
        return self._partitions[partition_for(group_id, len(self._partitions))].served

    # -- is it served, and why not

    def coordinator(self, partition_number: int) -> GroupCoordinator | None:
        """None while the partition is not served. What is asked of it directly need not be durable."""
        return self._partitions[partition_number].served

    def loaded_coordinator(self, partition_number: int) -> GroupCoordinator | None:
        """As :meth:`coordinator`, and from when it is loaded on: nothing can be asked of it before the shim serves."""
        return self._partitions[partition_number].coordinator

    def why_not(self, partition_number: int) -> ErrorCode:
        """NONE where the partition is served; otherwise what a request gets."""
        return self._partitions[partition_number].why_not

    def is_owned_elsewhere(self, partition_number: int) -> bool:
        """Whether another process may serve the partition by now, or soon."""
        return not self._stopping and self.why_not(partition_number) is ErrorCode.NOT_COORDINATOR

    def where_it_is(self, partition_number: int) -> str:
        """Of one that is not served here, for people."""
        partition = self._partitions[partition_number]
        if partition.is_to_be_loaded and not self._stopping:
            is_taken_over = self.is_among_shims and not partition.was_forgotten
            return "being taken over, ask again" if is_taken_over else "being read back, ask again"
        if self.why_not(partition_number) is ErrorCode.COORDINATOR_NOT_AVAILABLE:
            return f"{DAMAGED}: the shim's log says where, and so does `offset-shim log verify` once it has ended"
        if not self.is_owned_elsewhere(partition_number):
            return "not loaded"
        owner = self.named_owner(partition_number)
        return f"at another shim, {owner} (ask its --admin)" if owner else "at another shim"

    def is_surely_ours(self, partition_number: int) -> bool:
        """Whether no other process can have the partition by now. It has not, either, when something that is
        asked for from now on (:meth:`shim.runtime.Runtime.ask`) is answered."""
        return self._writes_of(partition_number).is_surely_ours(partition_number)

    # -- for whoever measures

    @property
    def unavailable(self) -> Counter[ErrorCode]:
        """Partitions that are to be served here and are not loaded, by what a request would be answered."""
        return Counter(each.unavailable for each in self._partitions if each.is_ours and each.coordinator is None)

    @property
    def held_back(self) -> int:
        """Partitions that are loaded, and that no request reaches before they are admitted."""
        return sum(each.is_ours and each.coordinator is not each.served for each in self._partitions)

    @property
    def failing(self) -> int:
        """Partitions to be served here that are not, as the last write of each has failed."""
        return sum(each.is_ours and each.coordinator is None and bool(each.failing) for each in self._partitions)

    @property
    def disk_hangs(self) -> bool:
        """Whether nothing of a partition has become durable for `offsets.commit.timeout.ms`."""
        return any(self._writes_of(number).hangs(number) for number in range(len(self._partitions)))

    async def log_bytes(self, patience_seconds: float) -> int | None:
        """Of the offsets log; None where that is not to be had, or not in time, as partitions are being loaded."""
        try:
            async with asyncio.timeout(patience_seconds):
                return await self._log.size()
        except TimeoutError:
            return None

    @property
    def standbys(self) -> StandbyCounts | None:
        """None where nothing is on topics."""
        return self._log.standbys

    @property
    def complaints(self) -> Sequence[str] | None:
        """What is set so for the log's topics that it may lose what is written; None where it is on none."""
        return self._log.complaints

    @property
    def rebalances(self) -> int:
        """Since the process began."""
        return sum(partition.rebalances for partition in self._partitions)

    @property
    def group_bytes(self) -> int:
        """What groups and members take, as `group.memory.max.bytes` counts it."""
        return self._group_memory.used
