"""Reading partitions back: from a snapshot where there is one, and from the log behind it."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final

from protocol.errors import DecodeError
from protocol.own.history_log import HISTORY_TOPIC
from protocol.own.record_sets import LoggedRecord
from protocol.own.state_log import STATE_TOPIC, GroupChangeKey, GroupHandsValue, StateRecord, decode_state
from shim.coordinator import CoordinatorSettings, GroupCoordinator, ReplayedPartition
from shim.log import LogError, OffsetsLog
from shim.log.partition.partition import PartitionLog
from shim.log.partition.snapshot import Snapshot
from shim.logged_once import LoggedOnce
from shim.runtime.backend import Loaded
from shim.runtime.progress import Progress
from shim.runtime.replaying import Home, Replay

log = logging.getLogger(__name__)

_LOOK_EVERY: Final = 64  # records


class _Stopped(Exception):
    """Nobody will ask for what is being read."""


class Loader:
    """Blocking; one thread calls it."""

    settings: CoordinatorSettings
    """Of the coordinators that are made from now on."""

    def __init__(self, offsets_log: OffsetsLog, settings: CoordinatorSettings, stopped: Callable[[], bool]) -> None:
        """``stopped`` says whether nobody will ask any more for what is read."""
        self._log = offsets_log
        self.settings = settings
        self._stopped = stopped
        self._num_partitions = offsets_log.num_partitions
        topics = {partition.topic_partition.topic for partition in offsets_log.partition_logs()}
        self._with_history = HISTORY_TOPIC in topics
        self._with_state = STATE_TOPIC in topics
        self.progress = Progress()
        self._trouble = LoggedOnce(log)

    def load(self, number: int) -> Loaded:
        """The partition as the disk has it; its log takes writes then, and so does its history, unless that is damaged.
        Where the history takes none for now, as on a full disk, whoever writes to it has the partition loaded again.

        Raises LogError, OSError.
        """
        refused = f"commits of __consumer_offsets-{number} are refused, as its history cannot be written"
        try:
            loaded = self._load(number)
            if self._with_state:
                self._replay_state(loaded.coordinator, number)
        except _Stopped:
            return Loaded(GroupCoordinator(self.settings), 0, 0)
        if not self._with_history:
            return loaded._replace(has_history=False)
        try:
            self._read_over_history(number)
        except (LogError, OSError) as error:
            # Nothing that is served is in there.
            if isinstance(error, OSError) and error.errno != errno.EIO:  # a disk says so of what is damaged
                self._trouble.failed(refused, error, logging.ERROR)
                return loaded
            log.error("%s; no history is kept of __consumer_offsets-%d until that is repaired", error, number)
            return loaded._replace(has_history=False)
        self._trouble.went_well(refused)
        return loaded

    def changes(self, number: int) -> dict[GroupChangeKey, GroupHandsValue]:
        """Where groups stood before, which no coordinator knows. Raises LogError, OSError."""
        return {
            key: value
            for key, value in self._state_records(number)
            if isinstance(key, GroupChangeKey) and isinstance(value, GroupHandsValue)
        }

    def size(self, number: int) -> int:
        """Bytes of the partition's folder, nearly: what loading it will take longer for."""
        folder = self._log.partition_log(number).folder
        try:
            return sum(path.stat().st_size for path in folder.iterdir())
        except OSError:  # so will loading it, which says so
            return 0

    def _load(self, number: int) -> Loaded:
        partition = self._log.partition_log(number)
        while True:
            snapshot = partition.snapshots.newest(self._check_stopped)
            home = Home(number, self._num_partitions, partition.folder)
            coordinator = self._restored(partition, snapshot, home)
            if snapshot is None or coordinator is None:
                coordinator = GroupCoordinator(self.settings)
                return Loaded(coordinator, self._replay(coordinator, home, self._log.recover(number)), 0)
            records = self._log.recover(number, start_offset=snapshot.offset, anchor=snapshot.anchor.position)
            replayed = self._replay(coordinator, home, records)
            if self._stopped() or partition.snapshots.stands(snapshot):
                return Loaded(coordinator, replayed, snapshot.offset)
            # What the recovery found, or did, or the cleaner meanwhile, has changed the log before that offset.
            partition.snapshots.refuse(snapshot.path, "the log does not hold what it is of")

    def _check_stopped(self) -> None:
        if self._stopped():
            raise _Stopped

    def _restored(self, partition: PartitionLog, snapshot: Snapshot | None, home: Home) -> GroupCoordinator | None:
        if snapshot is None:
            return None
        coordinator = GroupCoordinator(self.settings)
        try:
            coordinator.restore(snapshot.payload, self._check_stopped)
        except DecodeError as error:
            partition.snapshots.refuse(snapshot.path, error)
            return None
        home.check_some(coordinator.group_ids())
        return coordinator

    def _replay(self, into: ReplayedPartition, home: Home, records: Iterable[LoggedRecord]) -> int:
        def skipped(offset: int, type_: int) -> None:
            log.warning("__consumer_offsets-%d offset %d: key type %d skipped", home.number, offset, type_)

        replay = Replay(into, home, skipped)
        records = iter(records)
        count = 0
        while some := list(islice(records, _LOOK_EVERY)):
            if self._stopped():
                break
            replay.apply(some)
            count += len(some)
            self.progress.replayed(len(some))
        return count

    def _replay_state(self, into: ReplayedPartition, number: int) -> None:
        """There is little of it, so that it needs no snapshots."""
        for key, value in self._state_records(number):
            self._check_stopped()
            into.replay_state(key, value)

    def _state_records(self, number: int) -> Iterator[StateRecord]:
        partition = self._log.partition_log(number, topic=STATE_TOPIC)
        home = Home(number, self._num_partitions, partition.folder)
        for logged in self._log.recover(number, topic=STATE_TOPIC):
            try:
                key, value = decode_state(logged.key, logged.value)
            except DecodeError as error:
                reason = f"{STATE_TOPIC}-{number} offset {logged.offset}: the record cannot be decoded: {error}"
                raise LogError(reason) from error
            home.check(key.group)
            yield key, value

    def _read_over_history(self, number: int) -> None:
        """Nobody asks for the records; that the log takes writes, and that its end is sound, is all."""
        snapshot = self._log.partition_log(number, topic=HISTORY_TOPIC).snapshots.newest()
        start, anchor = (snapshot.offset, snapshot.anchor.position) if snapshot is not None else (_NO_RECORD, None)
        for _ in self._log.recover(number, topic=HISTORY_TOPIC, start_offset=start, anchor=anchor):
            if self._stopped():
                return


_NO_RECORD: Final = 2**63 - 1
