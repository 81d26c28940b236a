"""What a broker would serve from the folders of `__consumer_offsets` that it left behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from protocol.errors import DecodeError
from protocol.offsets_log import NO_TIMESTAMP, OffsetCommitKey, OffsetCommitValue, UnknownKey, decode_key, decode_value
from protocol.partition import partition_for
from protocol.records.batches import NO_PRODUCER_ID, Record
from shim.admin.progress import Advancing, Progress
from shim.admin.transfer.broker_files import (
    Batch,
    IgnoredTail,
    TransactionEnd,
    is_swap,
    offsets_folders,
    read_partition,
    segments_of,
)
from shim.admin.transfer.group_offsets import GroupOffsets
from shim.coordinator.state.offsets import committed_offset
from shim.log import CorruptLog, LogError
from shim.log.disk.files import Files

Newest = dict[OffsetCommitKey, tuple[int, OffsetCommitValue]]
"""With the offset of the record: a transaction's offset replaces only those that were written before it."""


@dataclass(slots=True)
class Counts:
    """What there was besides the offsets in force.

    ``expired``: offsets in force whose own expire timestamp has passed. ``aborted`` and ``open``: offsets committed in
    a transaction that was aborted, or that had not ended. ``misplaced``: records of groups that belong in another
    partition. ``unknown_keys``: records by the type of their key. ``swaps``: segments that a broker's cleaner had not
    put in the place of others yet, and that were read instead of those.
    """

    partitions: int = 0
    segments: int = 0
    records: int = 0
    tombstones: int = 0
    group_metadata: int = 0
    expired: int = 0
    aborted: int = 0
    open: int = 0
    misplaced: int = 0
    unknown_keys: Counter[int] = field(default_factory=Counter)
    ignored_tails: list[IgnoredTail] = field(default_factory=list)
    swaps: list[Path] = field(default_factory=list)


def read_broker(
    files: Files, log_dirs: Sequence[Path], now_ms: int, progress: Progress, *, num_partitions: int | None = None
) -> tuple[GroupOffsets, Counts]:
    """The offsets that the broker would serve; ``now_ms`` (milliseconds since the epoch) says which have expired.

    ``num_partitions``: how many partitions the topic has, so that a record in the wrong one is left out; without it
    nobody can tell, and a group that is in two of them is an error.

    Raises LogError where there is no partition of the topic, or a group is in two; CorruptLog; OSError.
    """
    try:
        folders = offsets_folders(files, log_dirs)
    except ValueError as error:
        raise LogError(str(error)) from error
    if not folders:
        raise LogError(f"no folder of __consumer_offsets in {', '.join(map(str, log_dirs))}")
    counts = Counts(partitions=len(folders))
    offsets = GroupOffsets()
    homes: dict[str, int] = {}
    segments = {partition: segments_of(files, folder) for partition, folder in folders.items()}
    paths = [path for its_segments in segments.values() for path in its_segments]
    counts.segments = len(paths)
    counts.swaps = [path for path in paths if is_swap(path)]
    with progress("reading", sum(files.size_of(path) for path in paths)) as ongoing:
        for partition, its_segments in segments.items():
            replay = _Replay(counts, partition, num_partitions)
            for key, value in replay.offsets_in(files, its_segments, ongoing):
                if homes.setdefault(key.group, partition) != partition:
                    raise LogError(
                        f"group {key.group!r} has offsets in partitions {homes[key.group]} and {partition}: say with "
                        "--source-partitions how many the topic has, so that those in the wrong one can be left out"
                    )
                # A broker serves it until its next look at what has expired, or for as long as the group is at work.
                counts.expired += value.expire_timestamp != NO_TIMESTAMP and value.expire_timestamp <= now_ms
                offsets.set(key, committed_offset(value))
    return offsets, counts


class _Replay:
    """One partition, as a broker's coordinator loads it (Kafka 4.3)."""

    def __init__(self, counts: Counts, partition: int, num_partitions: int | None) -> None:
        self._counts = counts
        self._partition = partition
        self._num_partitions = num_partitions
        self._newest: Newest = {}
        self._pending: dict[int, Newest] = {}

    def offsets_in(
        self, files: Files, segments: Sequence[Path], ongoing: Advancing
    ) -> Iterator[tuple[OffsetCommitKey, OffsetCommitValue]]:
        for found in read_partition(files, segments):
            if isinstance(found, Batch):
                for record in found.records:
                    try:
                        self._apply(record, found.producer_id)
                    except DecodeError as error:
                        reason = f"the record at offset {record.offset} cannot be decoded: {error}"
                        raise CorruptLog(found.path, found.position, reason) from None
            elif isinstance(found, TransactionEnd):
                self._end(found)
            else:
                self._counts.ignored_tails.append(found)
            ongoing.advance(found.size)
        self._counts.open += sum(map(len, self._pending.values()))
        for key, (_, value) in self._newest.items():
            yield key, value

    def _apply(self, record: Record, producer_id: int) -> None:
        counts = self._counts
        counts.records += 1
        if record.key is None:
            raise DecodeError("it has no key", 0, "key")
        key = decode_key(record.key)
        if isinstance(key, UnknownKey):
            counts.unknown_keys[key.version] += 1
        elif not isinstance(key, OffsetCommitKey):
            counts.group_metadata += 1
        elif self._num_partitions and partition_for(key.group, self._num_partitions) != self._partition:
            counts.misplaced += 1
        elif record.value is None:
            counts.tombstones += 1
            self._newest.pop(key, None)
            for pending in self._pending.values():
                pending.pop(key, None)
        else:
            value = decode_value(key, record.value)
            assert isinstance(value, OffsetCommitValue)
            newest = self._newest if producer_id == NO_PRODUCER_ID else self._pending.setdefault(producer_id, {})
            newest[key] = (record.offset, value)

    def _end(self, end: TransactionEnd) -> None:
        pending = self._pending.pop(end.producer_id, {})
        if not end.committed:
            self._counts.aborted += len(pending)
            return
        for key, (offset, value) in pending.items():
            if key not in self._newest or self._newest[key][0] < offset:
                self._newest[key] = (offset, value)
