"""Snapshots of partitions on a topic, kept in the data directory: a start reads what is behind them, and no more.

::

    DIR/snapshots/<topic id, 32 hexadecimal digits>-<p>/<offset, 20 digits>.snapshot     as of a log in the directory
    DIR/snapshots/retention                      text: 0, topic id, `delete.retention.ms`, era; topic id and era in hex

What is in one (snapshot_format.py) is what whoever follows the partition has in memory (partition_copy.py), and is put
to the same questions; two more come with being kept in a file:

- How old it is (tombstones.py). Its time is that of its last batch, and that of the fence, with which the partition was
  taken over, is now, both as the brokers' clocks said when these were appended; or that of its file, by this machine's
  clock, where that is longer ago: one clock may have been set back. How long tombstones stay must not have
  changed since, in either direction: those that went under the shorter time are gone. An era is a time in which it has
  not, as far as looks at the topic tell; a snapshot of another era than this one is of no use.
- Whether the batch is there of which it was taken. A cluster that was put back to an earlier time has the same id, its
  topics have theirs, and leaders count their epochs on from there.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, TypeVar, TypeVarTuple
from uuid import uuid4

from protocol.errors import DecodeError
from protocol.records.batches import BatchError
from protocol.topic_partition import TopicPartition
from protocol.wire import ZERO_UUID
from shim.apart import apart
from shim.boottime import boottime
from shim.coordinator import GroupCoordinator
from shim.counted import counted
from shim.kafka_log.copies.snapshot_format import Anchor, Kept, TopicDump, head_of, read_kept
from shim.kafka_log.copies.tombstones import SHARE_OF_RETENTION
from shim.kafka_log.owning.owned_topic import OwnedTopic
from shim.log import LogError
from shim.log.disk.checkpoint import is_in_doubt, replace_for_good
from shim.log.disk.files import Files
from shim.log.disk.layout import make_data_dir
from shim.log.partition.snapshot import SnapshotFolder
from shim.log.segments.active import LastBatch
from shim.runtime.snapshots import Dump, End, NotNow
from shim.upstream.errors import UpstreamError
from shim.upstream.topic_reader import TopicReader

log = logging.getLogger(__name__)

SNAPSHOTS_NAME: Final = "snapshots"
"""The folder in a data directory."""

DISK_SECONDS = 30.0
"""How long a snapshot is waited for; without it all is read."""

_RENEWED_AT: Final = SHARE_OF_RETENTION / 2
"""Of the topic's `delete.retention.ms`."""

_RETENTION_NAME: Final = "retention"
_ERA: Final = re.compile(r"(0 [0-9a-f]{32} \d+ )([0-9a-f]{32})\n")
_FOLDER: Final = re.compile(r"([0-9a-f]{32})-(0|[1-9]\d{0,8})")
_ASKED_AT_ONCE: Final = 64

_Arguments = TypeVarTuple("_Arguments")
_Result = TypeVar("_Result")


class _Folder(SnapshotFolder):
    """It is made when the first snapshot is."""

    def take(self, anchor: LastBatch, payload: Iterable[bytes]) -> Path | None:
        make_data_dir(self._files, self._folder)
        return super().take(anchor, payload)


class TopicSnapshots:
    """See :class:`shim.runtime.snapshots.SnapshotLog`. Of a topic that brokers give no id there are none."""

    def __init__(self, files: Files, data_dir: Path, num_partitions: int) -> None:
        self._files = files
        self._path = data_dir / SNAPSHOTS_NAME
        self.num_partitions = num_partitions
        self._topic, self._topic_id = "", ZERO_UUID
        self._owned: OwnedTopic | None = None
        self._reader: TopicReader | None = None
        self._folders: dict[int, SnapshotFolder] = {}
        self._written: dict[int, tuple[int, int, int, int]] = {}
        """Of the batches that are asked for: base offset, producer id and epoch, append time."""
        self._taken_at: dict[int, float] = {}
        """Of CLOCK_BOOTTIME: as old is what each partition's newest one has."""
        self._retention_ms = 0
        self._era: bytes | None = None
        """None: none is believed or taken."""

    def open(self, topic: str, topic_id: bytes, owned: OwnedTopic, reader: TopicReader) -> None:
        self._topic, self._topic_id, self._owned, self._reader = topic, topic_id, owned, reader
        for number in range(self.num_partitions):
            self._folders[number] = _Folder(self._files, self._path / f"{topic_id.hex()}-{number}")

    def is_of_another(self, retention_ms: int) -> bool:
        """Whether the era is over, as `delete.retention.ms` has changed; another one begins with :meth:`tidy`."""
        if retention_ms == self._retention_ms and self._era is not None:
            return False
        self._era = None
        return True

    def tidy(self, retention_ms: int) -> None:
        """Blocking. Those of topics and partitions that are no more are removed, and what was begun; none is taken or
        believed before that is over. ``retention_ms``: `delete.retention.ms` of the topic. It never fails."""
        self._remove_what_is_left()
        try:
            era, is_new = self._era_of(retention_ms)
        except OSError as error:
            log.warning("%s: no snapshots are used or taken: %s", self._path, error)
            return
        if is_new:
            self._taken_at = dict.fromkeys(self._taken_at, float("-inf"))
        self._retention_ms, self._era = retention_ms, era

    def _era_of(self, retention_ms: int) -> tuple[bytes, bool]:
        """That which goes on, or a new one, durably, before anything is decided under it. Raises OSError."""
        path = self._path / _RETENTION_NAME
        head = f"0 {self._topic_id.hex()} {retention_ms} "
        try:
            found = _ERA.fullmatch(self._files.read_file(path).decode("ascii", "replace"))
        except FileNotFoundError:
            found = None
        except OSError as error:  # it says so at each look, and a file that is written anew can be read
            log.warning("%s: no snapshot from before is used: %s", path, error)
            found = None
        goes_on = found is not None and found[1] == head
        era = bytes.fromhex(found[2]) if found is not None and goes_on else uuid4().bytes
        if not goes_on or is_in_doubt(self._files, path):
            make_data_dir(self._files, self._path)
            replace_for_good(self._files, path, f"{head}{era.hex()}\n".encode("ascii"))
        return era, not goes_on

    def _remove_what_is_left(self) -> None:
        try:
            if not self._files.exists(self._path):
                return
            for name in self._files.names(self._path):
                found = _FOLDER.fullmatch(name)
                if found is None:
                    continue
                if bytes.fromhex(found[1]) == self._topic_id and int(found[2]) < self.num_partitions:
                    self._folders[int(found[2])].tidy()
                else:
                    self._remove(self._path / name)
        except OSError as error:
            log.warning("%s is not tidied up: %s", self._path, error)

    def _remove(self, folder: Path) -> None:
        """Raises OSError, also where there is something else in it."""
        names = self._files.names(folder)
        for name in names:
            if name.endswith((".snapshot", ".snapshot.tmp")):
                self._files.unlink(folder / name)
        self._files.rmdir(folder)
        log.info("%s is of a partition that is no more, and removed", folder)

    # -- taking them

    def begin_dump(self, coordinator: GroupCoordinator) -> Dump:
        return TopicDump(coordinator)

    def end_offset(self, number: int) -> int:
        return self._owned.end(number) if self._owned is not None else 0

    def is_outdated(self, number: int, _offset: int) -> bool:
        """It is soon: brokers tell nobody what they compact, and what is written to a partition may be too little for
        another one."""
        age = boottime() - self._taken_at.get(number, float("inf"))
        return age > self._retention_ms / 1000 * _RENEWED_AT

    def ends_of(self, number: int) -> list[End]:
        """Of what is written to topics everybody may ask; what comes of it is to be completed."""
        written = self._owned.last_written(number) if self._owned is not None else None
        if self._owned is None or written is None or self._topic_id == ZERO_UUID:
            return []
        self._written[number] = (written.base_offset, *self._owned.producer(number), written.append_time_ms)
        # What is not known yet is 0.
        batch = LastBatch(0, 0, 0, 0, written.base_offset, 0)
        return [End(self._where(number), self._folders[number], batch, is_offsets=True)]

    async def complete(self, number: int, ends: list[End]) -> list[End]:
        """Its leader is asked for the batch."""
        return [await self._completed(number, each) for each in ends]

    async def _completed(self, number: int, end: End) -> End:
        assert self._reader is not None
        assert self._owned is not None
        try:
            topic_id, header = await self._reader.batch_at(number, end.batch.base_offset)
        except (BatchError, UpstreamError) as error:
            raise NotNow(str(error)) from error
        if topic_id != self._topic_id or header is None:
            raise NotNow("the batch that was written last is not there")
        there = header.base_offset, header.producer_id, header.producer_epoch, header.max_timestamp
        if there != self._written[number] or not header.is_log_append_time:
            raise NotNow(f"offset {end.batch.base_offset} has another batch than was written there")
        if self._era is None:
            raise NotNow("how long tombstones stay is not on the disk yet")
        batch = LastBatch(header.next_offset, 0, 0, header.size, header.base_offset, header.crc)
        self._taken_at[number] = boottime()
        head = head_of(self._era, Anchor.of(topic_id, number, header), self._owned.owner)
        return end._replace(batch=batch, head=head)

    async def completed(self, ends: Mapping[int, list[End]], seconds: float) -> dict[int, list[End]]:
        """Likewise, of many partitions; of those whose leaders tell it within so many seconds."""
        told: dict[int, list[End]] = {}
        places = asyncio.Semaphore(_ASKED_AT_ONCE)

        async def one(number: int, its: list[End]) -> None:
            async with places:
                try:
                    told[number] = await self.complete(number, its)
                except NotNow as error:
                    log.info("%s: no snapshot is taken: %s", self._where(number), error)

        try:
            async with asyncio.timeout(seconds):
                await asyncio.gather(*(one(number, its) for number, its in ends.items()))
        except TimeoutError:
            left = len(ends) - len(told)
            log.info("%s: %s left without a snapshot: no answer in time", self._topic, counted(left, "partition"))
        return told

    def _where(self, number: int) -> str:
        return str(TopicPartition(self._topic, number))

    # -- believing them

    def newest(self, number: int, check: Callable[[], None] = lambda: None) -> Kept | None:
        """Blocking. The newest one that is sound; those that are not are removed. ``check`` is called now and then;
        what it raises ends that."""
        folder = self._folders[number]
        if self._era is None:
            return None
        try:
            snapshot = folder.newest(check)
            seconds_old = 0.0 if snapshot is None else self._files.seconds_old(snapshot.path)
        except FileNotFoundError:
            return None
        except OSError as error:
            log.warning("%s: no snapshot is used: %s", self._where(number), error)
            return None
        if snapshot is None:
            return None
        try:
            kept = read_kept(self._topic, snapshot, boottime() - seconds_old)
        except (DecodeError, LogError) as error:
            folder.refuse(snapshot.path, error)
            return None
        if (kept.anchor.topic_id, kept.anchor.partition) != (self._topic_id, number) or self._topic_id == ZERO_UUID:
            folder.refuse(snapshot.path, "it is of another partition, or topic")
            return None
        if kept.era != self._era:
            folder.refuse(snapshot.path, "delete.retention.ms of the topic has changed since it was taken")
            return None
        return kept

    def refuse(self, kept: Kept, reason: object) -> None:
        """Blocking."""
        self._folders[kept.anchor.partition].refuse(kept.snapshot.path, reason)

    def gone_on_with(self, number: int, since: float) -> None:
        """The partition's newest one has what there was then, of CLOCK_BOOTTIME."""
        self._taken_at[number] = since

    async def has(self, anchor: Anchor, least_epoch: int) -> bool:
        """Whether the topic does, at a leader of that epoch or a newer one; see :meth:`Anchor.goes_with`. Raises
        UpstreamError."""
        assert self._reader is not None
        try:
            topic_id, header = await self._reader.batch_at(anchor.partition, anchor.base_offset, least_epoch)
        except BatchError as error:
            raise UpstreamError(str(error)) from error
        return topic_id == anchor.topic_id and anchor.goes_with(header)


async def on_disk(call: Callable[[*_Arguments], _Result], *args: *_Arguments) -> _Result | None:
    """What it gives; None where the disk hangs, of which no partition is to wait for that long."""
    try:
        async with asyncio.timeout(DISK_SECONDS):
            return await apart(call, *args)
    except TimeoutError:
        log.warning("the disk with the snapshots has not answered within %g s: none is used", DISK_SECONDS)
        return None
