"""When what waits is written to the segments."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Final

from shim.log.journal.journal_records import EncodedEntry, encoded_waiting
from shim.log.partition.partition import PartitionLog

_WAITING_MS: Final = 1000
"""What waits is written after so long, and tried again after so long."""

_logger = logging.getLogger(__name__)


class Settling:
    """For the thread that writes. Where it fails it waits on: the journal has it, and no partition fails for that."""

    def __init__(self, logs: Collection[PartitionLog]) -> None:
        self._logs = logs
        self.due_ms: int | None = None
        """When :meth:`settle_due` is to be called; None when nothing waits. It may find nothing to do: what waits is
        written before whatever else is written there, as are records that come when there is much of it."""
        self._told: set[PartitionLog] = set()
        """That what waits cannot be written."""

    def begin(self, timestamp_ms: int) -> None:
        """Something waits since then."""
        if self.due_ms is None:
            self.due_ms = timestamp_ms + _WAITING_MS

    def settle_due(self, now_ms: int) -> None:
        """What has waited long enough."""
        due = []
        for log in self._logs:
            waiting = log.waiting
            if waiting is None:
                continue
            since_ms = waiting.timestamp_ms
            # Those that will be due soon, too: each by itself would be a chore of its own.
            if since_ms + _WAITING_MS // 2 > now_ms:
                due.append(since_ms + _WAITING_MS)
            elif not self.settle(log):
                due.append(now_ms + _WAITING_MS)
        self.due_ms = min(due, default=None)

    def settle_all(self) -> None:
        for log in self._logs:
            if log.waiting is not None:
                self.settle(log)

    def still_waiting(self) -> list[EncodedEntry]:
        """Of partitions that take no writes now, as they are being read back, or the disk is full."""
        still = []
        for log in self._logs:
            if (waiting := log.waiting) is not None:
                runs = waiting.runs()
                still.append(
                    encoded_waiting(log.topic_partition.topic, [waiting.begun], [log.number] * len(runs), runs)
                )
        return still

    def settle(self, log: PartitionLog) -> bool:
        """Whether nothing of it waits any more."""
        try:
            log.settle()
        except OSError as error:
            if log not in self._told:
                _logger.error("%s: what waits cannot be written, trying again: %s", log.topic_partition, error)
            self._told.add(log)
            return False
        self._told.discard(log)
        return log.waiting is None  # it does on while it is being read back
