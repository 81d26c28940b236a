"""When a snapshot of a partition is taken, and how, without anybody having to wait for it.

A snapshot is taken at the moment when a flight is handed to the log: what the coordinator has applied by then is what
is in the log once that flight has landed. The dump is made in steps, between which requests go on; where the log ends
is found out by the thread that writes, right after the flight; and what comes of both is written by a thread of its
own. When the flight fails, the snapshot is thrown away.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from shim.coordinator import GroupCoordinator, StateDump
from shim.log import OFFSETS_TOPIC, LogError, OffsetsLog
from shim.log.files import Files
from shim.log.snapshot import Anchor, last_batch, write_snapshot

log = logging.getLogger(__name__)

LEAST_RECORDS = 100_000
"""So many records, or as many as the partition has offsets if that is more, are replayed at most, more or less."""

LEAST_RECORDS_AT_STOP = 1_000
"""To replay fewer than these takes no longer than to write a snapshot does."""

_STEP_S: Final = 0.004


class End(NamedTuple):
    """Where a partition's log of one topic ends."""

    topic: str
    folder: Path
    offset: int
    anchor: Anchor


class Taking:
    """A snapshot in the making. ``landed`` is told where the logs end, or None where the flight failed."""

    def __init__(self, number: int, dump: StateDump) -> None:
        self.number = number
        self.dump = dump
        self.landed: asyncio.Future[list[End] | None] = asyncio.get_running_loop().create_future()


class Snapshots:
    """Of all partitions of a data directory; one is taken at a time. For the event loop, where nothing else is said."""

    def __init__(self, offsets_log: OffsetsLog, files: Files) -> None:
        self._log = offsets_log
        self._files = files
        self._topics = sorted({partition.topic_partition.topic for partition in offsets_log.partition_logs()})
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="log-snapshot")
        self._since = [0] * offsets_log.num_partitions
        self._offset = [0] * offsets_log.num_partitions
        self._due: dict[int, None] = {}
        self._taking: asyncio.Task[None] | None = None
        self._ended: Callable[[], None] = lambda: None

    # -- when

    def loaded(self, number: int, coordinator: GroupCoordinator, replayed: int, snapshot_offset: int) -> None:
        """The partition was read back: from a snapshot of that offset (0: none), and so many records behind it."""
        self._since[number], self._offset[number] = 0, snapshot_offset
        self.written(number, coordinator, replayed)

    def written(self, number: int, coordinator: GroupCoordinator | None, records: int) -> None:
        """So many more records are in the partition's log."""
        self._since[number] += records
        if coordinator is not None and self._since[number] >= max(LEAST_RECORDS, coordinator.offset_count):
            self._due[number] = None

    def compacted(self, number: int, end_offset: int) -> None:
        """The log up to there was written anew: a snapshot of less has lost the batch that it is anchored to."""
        if 0 < self._offset[number] <= end_offset:
            self._due[number] = None

    @property
    def due(self) -> bool:
        """Whether there is one to take now."""
        return bool(self._due) and self._taking is None

    # -- how

    def begin(self, coordinator_of: Callable[[int], GroupCoordinator | None]) -> Taking | None:
        """To be called when a flight is handed over, with all records that were decided by then; then its ``landed``
        has to be told."""
        while self.due:
            number = next(iter(self._due))
            del self._due[number]
            coordinator = coordinator_of(number)
            if coordinator is not None:  # otherwise it is being read back
                self._since[number] = 0
                taking = Taking(number, coordinator.begin_dump())
                self._taking = asyncio.get_running_loop().create_task(self._take(taking))
                return taking
        return None

    def when_done(self, call: Callable[[], None]) -> None:
        """Have this called each time when another one could be begun."""
        self._ended = call

    async def _take(self, taking: Taking) -> None:
        try:
            until = time.monotonic() + _STEP_S
            while taking.dump.step():
                if time.monotonic() >= until:
                    await asyncio.sleep(0)
                    until = time.monotonic() + _STEP_S
            ends = await taking.landed
            if ends is not None:
                pieces = taking.dump.pieces()
                loop = asyncio.get_running_loop()
                self._offset[taking.number] = await loop.run_in_executor(self._thread, self._write, ends, pieces)
        finally:
            self._taking = None
            self._ended()

    def ends_of(self, number: int) -> list[End]:
        """Where the partition's logs end now; to be called by the thread that writes."""
        ends = []
        for topic in self._topics:
            partition = self._log.partition_log(number, topic=topic)
            try:
                anchor = last_batch(self._files, partition)
            except (OSError, LogError) as error:
                log.warning("%s: no snapshot was taken: %s", partition.topic_partition, error)
                continue
            if anchor is not None:
                ends.append(End(topic, partition.folder, partition.log_end_offset, anchor))
        return ends

    def _write(self, ends: Sequence[End], pieces: Sequence[bytes]) -> int:
        """The offset of the snapshot of the offsets' log, 0 when there is none now."""
        offset = 0
        for end in ends:
            # Of the other topics nothing has to be known but where the log goes on.
            payload = pieces if end.topic == OFFSETS_TOPIC else ()
            try:
                write_snapshot(self._files, end.folder, end.offset, end.anchor, payload)
            except OSError as error:
                log.warning("%s: a snapshot could not be written: %s", end.folder.name, error)
            else:
                offset = end.offset if end.topic == OFFSETS_TOPIC else offset
        return offset

    # -- the end

    def stop(self) -> None:
        if self._taking is not None:
            self._taking.cancel()

    async def ended(self) -> None:
        """Wait, after :meth:`stop`, until the thread has done what it was at."""
        await asyncio.get_running_loop().run_in_executor(self._thread, _nothing)

    def shutdown(self) -> None:
        """The last thing."""
        self._thread.shutdown()

    def take_last(self, coordinators: Sequence[tuple[int, GroupCoordinator]], seconds: float) -> None:
        """Snapshots of these, which decide nothing any more, as far as they are of use; those first that are of most.

        For the thread that writes. Begins none after so many seconds: it is only for the next start to be quick.
        """
        until = time.monotonic() + seconds
        of_use = [each for each in coordinators if self._since[each[0]] >= LEAST_RECORDS_AT_STOP]
        of_use.sort(key=lambda each: self._since[each[0]], reverse=True)
        for taken, (number, coordinator) in enumerate(of_use):
            if time.monotonic() >= until:
                log.info("%d partitions are left without a new snapshot", len(of_use) - taken)
                return
            self._write(self.ends_of(number), [coordinator.dump()])


def _nothing() -> None:
    pass
