"""What of one partition waits, on its side of the journal: from when it is staged to when it stands in the segment.

::

    staged    with what waits, or kept for it (log/staging.py), and on its way into the journal
    dropped   it was staged, and is not acknowledged: it does not wait any more
    settled   one batch of all that waited stands in the segment, and counts

Where the journal did not take what was staged it is written at once, with what waits. When what waits is settled is not
said here: the one who writes everything has a clock for that (log/settling.py).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from shim.log.errors import LogError, RecoveryNeeded
from shim.log.journal.waiting import Staging, Waiting
from shim.log.partition.ends import Ends
from shim.log.segments.active import ActiveSegment, LogEnd
from shim.log.settings import LogSettings

_LAST_MS: Final = 2**63 - 1

_logger = logging.getLogger(__name__)


class Deferred:
    """For who writes to the partition, or recovers it. :attr:`waiting` may be asked for by the one while the other is
    at it: what it tells of was there a moment before.

    What waits has the end of the log as its place, which nothing else may be written to: so it is settled before, or
    written with it.
    """

    __slots__ = ("_folder", "_settings", "waiting")

    def __init__(self, folder: Path, settings: LogSettings) -> None:
        self._folder = folder
        self._settings = settings
        self.waiting: Waiting | None = None
        """None when nothing does. Let go of whole, as another thread may be looking at it."""

    def begin(
        self, partition: int, active: ActiveSegment, runs: Sequence[bytes], timestamp_ms: int, staging: Staging
    ) -> bool:
        """Stages the first records to wait, for the end of this segment. False where they cannot."""
        if abs(timestamp_ms) > _LAST_MS:
            return False
        room = active.room_for_more(timestamp_ms, self._settings)
        waiting = Waiting(partition, active.end, timestamp_ms, room, staging)
        if not waiting.take(runs):
            return False
        self.waiting = waiting
        return True

    def drop(self, count: int) -> None:
        """So many, which were staged last, are not acknowledged. Nothing is kept back."""
        waiting = self.waiting
        if waiting is not None:
            if waiting.count == count:
                self._end(waiting)
            else:
                waiting.drop(count)

    def _end(self, waiting: Waiting) -> None:
        waiting.close()
        self.waiting = None

    def write(self, active: ActiveSegment | None, ends: Ends) -> int:
        """Writes what waits, which is to be acknowledged. Gives its timestamp. Raises OSError: then it waits on, and
        nothing has changed."""
        waiting = self.waiting
        if active is None or waiting is None:
            raise RecoveryNeeded(self._folder)
        if active.end != waiting.place:
            raise LogError(f"{self._folder} ends at {active.end}, and what waits has its place at {waiting.place}")
        active.append(waiting.batch())
        ends.written = active.end
        return waiting.timestamp_ms

    def settle(self, active: ActiveSegment | None, ends: Ends) -> None:
        """Writes what waits: it counts, and can be read, from then on. Raises as :meth:`write`."""
        ends.acknowledge(self.write(active, ends))
        if self.waiting is not None:
            self._end(self.waiting)

    def settle_before_reading(self, active: ActiveSegment | None, ends: Ends) -> None:
        """So that what waits is read, too. Where it cannot be written it waits on: nobody is kept waiting for that."""
        if self.waiting is not None and active is not None and active.end == self.waiting.place:
            try:
                self.settle(active, ends)
            except OSError as error:
                _logger.warning("%s: %s; what waits is written later", self._folder, error)

    def acknowledged(self, end: LogEnd) -> None:
        """The log ends there now, after a write: what waits was written with that, where its place is another one."""
        if self.waiting is not None and self.waiting.place != end:
            self._end(self.waiting)

    def recovered(self, end: LogEnd) -> None:
        """The log was found to end there. Raises LogError where that is not the place of what waits."""
        if self.waiting is not None and self.waiting.place != end:
            raise LogError(f"{self._folder} ends at {end}, and what waits has its place elsewhere")
