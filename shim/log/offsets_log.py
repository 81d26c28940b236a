"""The offsets log on the local disk: all partitions of ``__consumer_offsets``, written and flushed together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple, Self

from shim.log.data_dir import DataDirLock, claim, make_data_dir, open_partitions
from shim.log.errors import LogError
from shim.log.files import Files
from shim.log.flush import Flusher
from shim.log.partition import LoggedRecord, PartitionLog, RecordSet

OFFSETS_TOPIC: Final = "__consumer_offsets"


class PartitionWrite(NamedTuple):
    """What one write appends to one partition.

    ``records`` is a list of record sets, each the records of one request: a set is never split between batches, so it
    is recovered whole or not at all. Sets share one batch while that stays within ``partition.MAX_BATCH_BYTES``.
    ``timestamp_ms``: milliseconds since the epoch, of all the records.
    """

    partition: int
    records: Sequence[RecordSet]
    timestamp_ms: int


class OffsetsLog:
    """The partitions of one topic in a data directory. Blocking.

    One thread at a time may :meth:`write`, and one may :meth:`recover`: while one writes, another may read back a
    partition that is not among those written. :meth:`close` comes when both are done.

    A partition takes writes after :meth:`recover` of it has been read to its end; so, too, after a write of it has
    failed.
    """

    def __init__(self, lock: DataDirLock, partitions: Sequence[PartitionLog], *, files: Files, data_dir: Path) -> None:
        self._lock = lock
        self._files = files
        self._data_dir = data_dir
        self._cluster_id: str | None = None
        self._partitions = dict(enumerate(partitions))
        self._flusher = Flusher()
        self._closed = False

    @classmethod
    def open(
        cls, data_dir: Path, num_partitions: int, *, topic: str = OFFSETS_TOPIC, files: Files | None = None
    ) -> Self:
        """Takes the data directory for this process, and makes what is not there yet, durably. Reads no records.

        Raises LogError when another process has the directory, when it holds another number of partitions, or when a
        partition's folder is missing; OSError; ValueError for a number of partitions below 1.
        """
        if num_partitions < 1:
            raise ValueError(f"{num_partitions} partitions")
        files = files or Files()
        data_dir = data_dir.absolute()
        make_data_dir(files, data_dir)
        lock = DataDirLock(data_dir)
        try:
            folders = open_partitions(files, data_dir, topic, num_partitions)
        except BaseException:
            lock.release()
            raise
        return cls(lock, [PartitionLog(files, folder) for folder in folders], files=files, data_dir=data_dir)

    def claim(self, cluster_id: str) -> None:
        """Note durably which cluster the offsets are of. Raises LogError when they are of another; OSError."""
        if cluster_id != self._cluster_id:
            claim(self._files, self._data_dir, cluster_id)
            self._cluster_id = cluster_id

    @property
    def num_partitions(self) -> int:
        return len(self._partitions)

    def recover(self, partition: int) -> Iterator[LoggedRecord]:
        """The partition's records on disk, in order; see :meth:`PartitionLog.recover`, also for what it raises."""
        return self._partition(partition).recover()

    def write(self, writes: Sequence[PartitionWrite]) -> dict[int, OSError]:
        """Appends to each partition and makes it durable. Gives those that failed, with why; all others are durable.

        Of a partition that failed nothing is acknowledged, and anything may be on disk: it refuses writes
        (RecoveryNeeded) until it has been recovered. Only a record set that is too large (EMSGSIZE) and RecoveryNeeded
        itself mean that nothing was written.

        Raises ValueError, nothing having been written, for a partition that is named twice or that there is not, or
        for a timestamp beyond 64 bits.
        """
        failed: dict[int, OSError] = {}
        prepared: dict[int, tuple[PartitionLog, list[tuple[bytes, int]]]] = {}
        for partition, record_sets, timestamp_ms in writes:
            if partition in prepared or partition in failed:
                raise ValueError(f"partition {partition} named twice in one write")
            log = self._partition(partition)
            try:
                prepared[partition] = (log, log.prepare(record_sets, timestamp_ms))
            except OSError as error:
                failed[partition] = error
        written: dict[int, PartitionLog] = {}
        for partition, (log, batches) in prepared.items():
            if not batches:
                continue
            try:
                log.write(batches)
            except OSError as error:
                failed[partition] = error
            else:
                written[partition] = log
        for (partition, log), failure in zip(written.items(), self._flusher.sync(list(written.values())), strict=True):
            if failure is None:
                log.acknowledge()
            else:
                failed[partition] = failure
        return failed

    def log_end_offset(self, partition: int) -> int:
        """The offset after the last durable record. Raises LogError before the partition's first recovery."""
        return self._partition(partition).log_end_offset

    def close(self) -> None:
        """Closes all files and gives the data directory back. Whatever was acknowledged is durable already."""
        self._closed = True
        with ExitStack() as closing:  # each of them, whatever the others raise; the lock last
            closing.callback(self._lock.release)
            for partition in self._partitions.values():
                closing.callback(partition.close)
            closing.callback(self._flusher.close)

    def _partition(self, partition: int) -> PartitionLog:
        if self._closed:  # another process may have the data directory by now
            raise LogError("the log is closed")
        try:
            return self._partitions[partition]
        except KeyError:
            raise ValueError(f"partition {partition}, there are 0 to {len(self._partitions) - 1}") from None
