"""Where a partition's log ends: what of it was written, what is durable, what counts."""

from __future__ import annotations

import logging
from pathlib import Path

from shim.counted import counted
from shim.log.errors import LogError
from shim.log.segments.active import LogEnd

_logger = logging.getLogger(__name__)


class Ends:
    """``written`` is beyond ``acknowledged`` only while a write is under way or has failed. ``synced``, of the segment
    itself, may be behind: ``journaled`` says that the journal then has what was acknowledged; otherwise, under a loose
    flush policy, nothing durable has.
    """

    def __init__(self, folder: Path, recovery_point: int, *, journaled: bool) -> None:
        self.written = self.synced = LogEnd(0, 0, 0)
        self.unsynced_since_ms: int | None = None
        """The timestamp of the oldest write that was acknowledged and is not durable; None when all are."""
        self._folder = folder
        self._journaled = journaled
        self._checkpointed = recovery_point
        self._acknowledged: LogEnd | None = None
        self.sync_failures = 0
        self._mended = 0

    @property
    def acknowledged(self) -> LogEnd:
        """Raises LogError before the first recovery has found out."""
        if self._acknowledged is None:
            raise LogError(f"the end of {self._folder} is not known before it is recovered")
        return self._acknowledged

    @property
    def known(self) -> bool:
        return self._acknowledged is not None

    @property
    def recovery_point(self) -> int:
        """Every offset below it is on the disk, and stays there whatever fails."""
        if self._acknowledged is None:
            return self._checkpointed
        return min(self._acknowledged.offset, self.synced.offset)

    @property
    def all_synced(self) -> bool:
        """Whether everything that counts is durable, and nothing else is there."""
        return self._acknowledged == self.synced == self.written

    @property
    def needs_journal(self) -> bool:
        """Whether something that was acknowledged may be in the journal only."""
        end = self._acknowledged
        return self.needs_redo or (self._journaled and end is not None and self.synced.offset < end.offset)

    @property
    def needs_redo(self) -> bool:
        """Whether what was acknowledged has to be put back from the journal, since a sync has failed, or a start."""
        return self._journaled and self._sync_failed

    @property
    def _sync_failed(self) -> bool:
        return self.sync_failures > self._mended

    @property
    def unsynced_records(self) -> int:
        return self.written.offset - self.synced.offset

    def sync_succeeded(self) -> None:
        self.synced = self.written
        self.unsynced_since_ms = None

    def sync_failed(self) -> None:
        self.sync_failures += 1

    def redone(self, acknowledged: LogEnd | None, end: int | None, sync_failures: int) -> None:
        """What was acknowledged after so many failures is durable in the segment, from the journal, which had it up to
        this offset. The partition is still to be recovered."""
        if acknowledged is not None:
            self.synced = acknowledged
        elif end is not None:
            self._checkpointed = max(self._checkpointed, end)
        self._mended = max(self._mended, sync_failures)

    def acknowledge(self, timestamp_ms: int) -> None:
        self._acknowledged = self.written
        if not self._journaled and self.unsynced_since_ms is None and self.synced != self.written:
            self.unsynced_since_ms = timestamp_ms

    def recovered(self, end: LogEnd) -> None:
        """The log ends here, all of it durable."""
        self.written = self.synced = end  # before what was acknowledged: the recovery point may be asked for meanwhile
        self._acknowledged = end
        self._mended = self.sync_failures
        self.unsynced_since_ms = None

    def certain(self) -> LogEnd | None:
        """Where the log has to end after a failure; None before the first recovery, when only the disk can tell.

        A sync that failed has left nothing certain but what was synced before it, and what the journal has. Under a
        loose flush policy that may be less than what was acknowledged.
        """
        end = self._acknowledged
        if end is None or self._journaled or not self._sync_failed or self.synced.offset >= end.offset:
            return end
        _logger.error(
            "%s: a flush failed: lost are %s that were acknowledged before it, from offset %d on",
            self._folder,
            counted(end.offset - self.synced.offset, "record"),
            self.synced.offset,
        )
        return self.synced
