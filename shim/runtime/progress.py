"""How far the loading of all partitions is, and when those are served that have come later."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable
from typing import Final

from shim.counted import counted
from shim.runtime.partition import Partition

log = logging.getLogger(__name__)

_PROGRESS_EVERY_S: Final = 1.0


class Progress:
    """Tells how far the loading is, at most once a second."""

    def __init__(self) -> None:
        self._begun = self._told = time.monotonic()
        self._partitions = self._bytes = self._records = 0
        self._done = self._done_bytes = self._from_snapshots = 0

    def expect(self, sizes: Iterable[int]) -> None:
        """Partitions of so many bytes are to be loaded."""
        self._begun = self._told = time.monotonic()
        for size in sizes:
            self._partitions += 1
            self._bytes += size

    def replayed(self, records: int) -> None:
        self._records += records
        now = time.monotonic()
        if now - self._told >= _PROGRESS_EVERY_S and self._done < self._partitions:
            self._told = now
            log.info(
                "loading: %d of %s%s, %s replayed, %d a second",
                *(self._done, counted(self._partitions, "partition"), self._read(), counted(self._records, "record")),
                self._records / (now - self._begun),
            )

    def _read(self) -> str:
        """ "" where nobody knows how much there is, as of topics."""
        return f", {self._done_bytes >> 20} of {self._bytes >> 20} MiB" if self._bytes else ""

    def loaded(self, size: int, *, from_snapshot: bool) -> None:
        self._done += 1
        self._from_snapshots += from_snapshot
        self._done_bytes += size
        self.replayed(0)
        self._tell_the_end()

    def failed(self, size: int) -> None:
        """A partition of so many bytes is not loaded, or only later."""
        self._partitions -= 1
        self._bytes -= size
        self._tell_the_end()

    def _tell_the_end(self) -> None:
        if self._done == self._partitions:
            seconds = time.monotonic() - self._begun
            log.info(
                "loaded %s (%d from snapshots), %s replayed, in %.1f s",
                *(counted(self._done, "partition"), self._from_snapshots, counted(self._records, "record"), seconds),
            )


class NewShare:
    """Partitions that have come to this process while it runs: one line when all of them are served, or are not to be
    any more. Times are those of the shim's clock, in milliseconds."""

    def __init__(self) -> None:
        self._missing: set[Partition] = set()
        self._served = self._begun = 0

    def comes(self, partitions: Collection[Partition], now: int) -> None:
        """To those that are still missing."""
        if not self._missing:
            self._served, self._begun = 0, now
        self._missing.update(partitions)

    def served(self, partition: Partition, now: int) -> None:
        if partition in self._missing:
            self._served += 1
            self.left(partition, now)

    def left(self, partition: Partition, now: int) -> None:
        """It is not missing: others have it, or it cannot be served, of which there is a line."""
        if partition in self._missing:
            self._missing.remove(partition)
            if self._served and not self._missing:
                log.info("%s taken over in %.1f s", counted(self._served, "partition"), (now - self._begun) / 1000)
