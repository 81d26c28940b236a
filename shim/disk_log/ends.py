"""What snapshots of the log in the data directory are of: where its partitions end, and what coordinators have."""

from __future__ import annotations

import logging

from protocol.partition import OFFSETS_TOPIC
from shim.coordinator import GroupCoordinator, StateDump
from shim.log import OffsetsLog
from shim.runtime.snapshots import End

log = logging.getLogger(__name__)


class DiskEnds:
    """See :class:`shim.runtime.snapshots.SnapshotLog`."""

    def __init__(self, offsets_log: OffsetsLog) -> None:
        self.num_partitions = offsets_log.num_partitions
        self._log = offsets_log
        self._topics = sorted({partition.topic_partition.topic for partition in offsets_log.partition_logs()})

    def begin_dump(self, coordinator: GroupCoordinator) -> StateDump:
        """Without the shim's own state, which has a log of its own, and of which there is little."""
        return coordinator.begin_dump()

    def end_offset(self, number: int) -> int:
        return self._log.log_end_offset(number)

    def is_outdated(self, number: int, offset: int) -> bool:
        """Compaction has taken it."""
        return self._log.partition_log(number).snapshots.is_outdated(offset)

    def ends_of(self, number: int) -> list[End]:
        ends = []
        for topic in self._topics:
            partition = self._log.partition_log(number, topic=topic)
            try:
                partition.settle()
                batch = partition.last_batch
            except OSError as error:
                log.warning("%s: no snapshot was taken: %s", partition.topic_partition, error)
                continue
            if batch is not None:
                name = str(partition.topic_partition)
                ends.append(End(name, partition.snapshots, batch, is_offsets=topic == OFFSETS_TOPIC))
        return ends

    async def complete(self, _number: int, ends: list[End]) -> list[End]:
        """The thread that writes knows all of them."""
        return ends
