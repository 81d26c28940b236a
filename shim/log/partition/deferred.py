"""What of one partition waits, on its side of the journal: from when it is staged to when it stands in the segment.

::

    staged    framed, and on its way into the journal
    kept      the journal has it: from then on it waits
    dropped   it was staged, and the journal is not to have it: there is no such thing any more
    settled   one batch of all that waited stands in the segment, and counts

Where the journal did not take what was staged it is written at once, with what waits. When what waits is settled is not
said here: the one who writes everything has a clock for that (log/settling.py).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from protocol.own.record_sets import Appended
from protocol.topic_partition import TopicPartition
from shim.log.errors import LogError, RecoveryNeeded
from shim.log.journal.journal_records import EncodedEntry, WaitingEntry
from shim.log.journal.waiting import Waiting
from shim.log.partition.ends import Ends
from shim.log.segments.active import ActiveSegment, LogEnd
from shim.log.settings import LogSettings

_LAST_MS: Final = 2**63 - 1

_logger = logging.getLogger(__name__)


class Deferred:
    """For who writes to the partition, or recovers it. :attr:`since_ms` and :attr:`entry` may be asked by the one while
    the other is at it: what they tell of was there a moment before.

    What waits has the end of the log as its place, which nothing else may be written to: so it is settled before, or
    written with it.
    """

    __slots__ = ("_folder", "_settings", "_topic_partition", "waiting")

    def __init__(self, folder: Path, topic_partition: TopicPartition, settings: LogSettings) -> None:
        self._folder = folder
        self._topic_partition = topic_partition
        self._settings = settings
        self.waiting: Waiting | None = None
        """With what is staged; None when there is neither. Let go of whole, as another thread may be looking at it."""

    def stage(self, active: ActiveSegment, record_sets: Sequence[Appended], timestamp_ms: int) -> EncodedEntry | None:
        """Stages records to wait, the first ones for the end of this segment, for :meth:`keep` to follow, or
        :meth:`drop`, or :meth:`write`. Gives what the journal is to have of them; None where they cannot wait."""
        waiting = self.waiting
        if waiting is not None:
            return waiting.stage(record_sets)
        if abs(timestamp_ms) > _LAST_MS:
            return None
        room = active.room_for_more(timestamp_ms, self._settings)
        waiting = Waiting(self._topic_partition, active.end, timestamp_ms, room)
        entry = waiting.stage(record_sets)
        if entry is not None:
            self.waiting = waiting
        return entry

    def keep(self) -> bool:
        """The journal has what was staged. Gives whether so many wait that they should be written."""
        if self.waiting is None:
            raise RecoveryNeeded(self._folder)
        return self.waiting.keep()

    def drop(self) -> None:
        """What was staged is not to be written."""
        if self.waiting is not None:
            self.waiting.drop()
            if self.waiting.is_empty:
                self.waiting = None

    @property
    def entry(self) -> WaitingEntry | None:
        """What waits, for a journal that begins anew."""
        waiting = self.waiting
        return None if waiting is None or waiting.is_empty else waiting.entry()

    @property
    def since_ms(self) -> int | None:
        """The timestamp of the first record that waits; None when none does."""
        waiting = self.waiting
        return None if waiting is None or waiting.is_empty else waiting.timestamp_ms

    def write(self, active: ActiveSegment | None, ends: Ends) -> int:
        """Writes what waits, and what is staged, which is to be acknowledged. Gives its timestamp. Raises OSError: then
        it waits on, and nothing has changed."""
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
        self.waiting = None

    def settle_before_reading(self, active: ActiveSegment | None, ends: Ends) -> None:
        """So that what waits is read, too. Where it cannot be written it waits on: nobody is kept waiting for that."""
        self.drop()
        if self.waiting is not None and active is not None and active.end == self.waiting.place:
            try:
                self.settle(active, ends)
            except OSError as error:
                _logger.warning("%s: %s; what waits is written later", self._folder, error)

    def acknowledged(self, end: LogEnd) -> None:
        """The log ends there now, after a write: what waits was written with that, where its place is another one."""
        if self.waiting is not None and self.waiting.place != end:
            self.waiting = None

    def recovered(self, end: LogEnd) -> None:
        """The log was found to end there. Raises LogError where that is not the place of what waits."""
        if self.waiting is not None and self.waiting.place != end:
            raise LogError(f"{self._folder} ends at {end}, and what waits has its place elsewhere")
