"""Offsets as a broker keeps them: folders of `__consumer_offsets` that any broker since Kafka 2.1 reads."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from protocol.offsets_log import NO_TIMESTAMP, OffsetCommitKey, encode_key, encode_value
from protocol.partition import OFFSETS_TOPIC, partition_for
from protocol.records.batches import Record, encode_records
from shim.admin.at_rest.data_dir import refuse_existing
from shim.admin.progress import Advancing, Progress
from shim.admin.transfer.broker_offsets import read_broker
from shim.admin.transfer.group_offsets import GroupOffsets, differences, offset_commit_value
from shim.log.disk.files import Files
from shim.log.disk.layout import make_data_dir, segment_name
from shim.offsets.cluster.groups import Committed

_BATCH_SIZE: Final = 512 << 10  # bytes of keys and values; brokers take batches of 1 MiB (`message.max.bytes`)
_SEGMENT_SIZE: Final = 1 << 30  # positions in an index are int32
_UNFINISHED: Final = ".unfinished"
_NEVER_MS: Final = -(2**63)

BROKERS_RETENTION_MINUTES: Final = 7 * 24 * 60
"""Kafka's default of ``offsets.retention.minutes``."""


class Expiring(NamedTuple):
    """How many offsets a broker drops soon after its start: ``old`` ones by the time of their commit and its default of
    ``offsets.retention.minutes``, ``expired`` ones by an expire timestamp of their own."""

    old: int
    expired: int


def expiring(offsets: GroupOffsets, groups: Iterable[str], now_ms: int) -> Expiring:
    """As a broker (Kafka 4.3) judges groups that have offsets and no more, which is all that comes along."""
    old = expired = 0
    for group in groups:
        for committed in offsets.of(group).values():
            if committed.expire_timestamp != NO_TIMESTAMP:
                expired += committed.expire_timestamp <= now_ms
            else:
                old += committed.commit_timestamp + BROKERS_RETENTION_MINUTES * 60_000 <= now_ms
    return Expiring(old, expired)


def commit_anew(offsets: GroupOffsets, groups: Iterable[str], now_ms: int) -> None:
    """As if these groups had committed their offsets at ``now_ms``; an expire timestamp of an offset's own stays."""
    for group in groups:
        for (topic, partition), committed in offsets.of(group).items():
            offsets.set(OffsetCommitKey(group, topic, partition), committed._replace(commit_timestamp=now_ms))


def export_to_folders(
    files: Files,
    folder: Path,
    offsets: GroupOffsets,
    groups: Sequence[str],
    num_partitions: int,
    now_ms: int,
    progress: Progress,
) -> None:
    """Makes ``folder``, which must not exist, with a folder for each partition in it, durably; a partition without
    groups has an empty segment. It has its name only when it is whole: half of it looks as all of a smaller one does.

    Records are of ``now_ms``; their values say what was committed when. Keys are of version 1, values of 3, or
    1 where there is an expire timestamp: as brokers write them. Raises NotDone, nothing having been written;
    OSError. A kill leaves ``<folder>.unfinished`` behind.
    """
    unfinished = folder.with_name(folder.name + _UNFINISHED)
    refuse_existing(files, (folder, unfinished))
    homes: dict[int, list[str]] = {partition: [] for partition in range(num_partitions)}
    for group in groups:
        homes[partition_for(group, num_partitions)].append(group)
    make_data_dir(files, unfinished)
    try:
        with progress("writing", len(groups)) as ongoing:
            for partition, its_groups in homes.items():
                target = unfinished / f"{OFFSETS_TOPIC}-{partition}"
                files.mkdir(target)
                _Segments(files, target).write(_records(offsets, its_groups, now_ms, ongoing))
                files.sync_directory(target)
            files.sync_directory(unfinished)
    except BaseException:
        shutil.rmtree(unfinished)
        raise
    files.rename(unfinished, folder)
    files.sync_directory(folder.parent)


def verify_export(
    files: Files, folder: Path, offsets: GroupOffsets, groups: Iterable[str], num_partitions: int, progress: Progress
) -> dict[str, list[str]]:
    """Reads them back as a broker would; by group, a line for each offset that is not as it was to be."""
    # At the beginning of time nothing has expired.
    found, _ = read_broker(files, [folder], _NEVER_MS, progress, num_partitions=num_partitions)
    return {group: differences(as_exported(offsets.of(group)), found.of(group)) for group in groups}


def as_exported(offsets: Committed) -> Committed:
    """What of the offsets the format has room for: no leader epoch beside an expire timestamp."""
    return {
        at: committed if committed.expire_timestamp == -1 else committed._replace(leader_epoch=-1)
        for at, committed in offsets.items()
    }


def _records(offsets: GroupOffsets, groups: Iterable[str], now_ms: int, ongoing: Advancing) -> Iterator[Record]:
    offset = 0
    for group in groups:
        for (topic, partition), committed in offsets.of(group).items():
            key = encode_key(OffsetCommitKey(group, topic, partition))
            yield Record(key, encode_value(offset_commit_value(committed)), (), now_ms, offset)
            offset += 1
        ongoing.advance(1)


class _Segments:
    """One partition's, each with whole batches."""

    def __init__(self, files: Files, folder: Path) -> None:
        self._files = files
        self._folder = folder

    def write(self, records: Iterable[Record]) -> None:
        fd = self._files.create(self._folder / segment_name(0))
        try:
            position = 0
            for base_offset, batch in _batches(records):
                if position + len(batch) > _SEGMENT_SIZE:
                    self._files.fsync(fd)
                    self._files.close(fd)
                    fd = self._files.create(self._folder / segment_name(base_offset))
                    position = 0
                self._files.write_at(fd, batch, position)
                position += len(batch)
            self._files.fsync(fd)
        finally:
            self._files.close(fd)


def _batches(records: Iterable[Record]) -> Iterator[tuple[int, bytes]]:
    share: list[Record] = []
    size = 0
    for record in records:
        share.append(record)
        size += len(record.key or b"") + len(record.value or b"")
        if size >= _BATCH_SIZE:
            yield share[0].offset, encode_records(share)
            share, size = [], 0
    if share:
        yield share[0].offset, encode_records(share)
