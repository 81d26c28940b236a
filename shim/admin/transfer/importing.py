"""Offsets from elsewhere, written into a data directory at rest."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from protocol.offsets_log import OffsetCommitKey, encode_key, encode_value
from protocol.partition import partition_for
from shim.admin.at_rest.data_dir import OTHER_FILES, data_dir_to_read, num_partitions_in
from shim.admin.errors import BrokenOff, NotDone
from shim.admin.files_to_read import FilesToRead
from shim.admin.progress import Progress
from shim.admin.transfer.group_offsets import (
    GroupOffsets,
    differences,
    offset_commit_value,
    read_offsets,
)
from shim.admin.transfer.hands import kept_elsewhere
from shim.counted import some_of
from shim.log import OffsetsLog, PartitionWrite
from shim.log.disk.files import Files
from shim.log.disk.open_files import allow_open_files
from shim.offsets.cluster.groups import Committed
from shim.runtime.replaying import Home, Replay

_WRITE_SIZE: Final = 4 << 20  # bytes of keys and values in one call of the log
_LARGEST_SET: Final = 50_000
"""Offsets in one record set: the whole of a group, as a rule, so that it is there whole or not at all."""

NEW, REPLACED, UNCHANGED = "new", "replaced", "unchanged"

RecordSet = list[tuple[bytes, bytes | None]]


class PlannedGroup(NamedTuple):
    """What is to become of one group. ``stale``: offsets here that are not among the new ones."""

    group: str
    offsets: Committed
    outcome: str
    stale: tuple[OffsetCommitKey, ...] = ()


def plan_import(
    source: GroupOffsets, here: GroupOffsets, groups: Iterable[str], *, replace: bool
) -> list[PlannedGroup]:
    """Raises NotDone when a group that is here would be changed, unless ``replace``."""
    planned: list[PlannedGroup] = []
    refused = []
    # What is written now wins over what is pending, however that ends.
    pending = here.pending()
    for group in groups:
        offsets, present = source.of(group), here.of(group)
        if present == offsets:
            planned.append(PlannedGroup(group, offsets, UNCHANGED))
        elif present or group in here.with_members or group in pending:
            refused.append(group)
            stale = tuple(OffsetCommitKey(group, *at) for at in present.keys() - offsets.keys())
            planned.append(PlannedGroup(group, offsets, REPLACED, stale))
        else:
            planned.append(PlannedGroup(group, offsets, NEW))
    if refused and not replace:
        raise NotDone(
            "nothing was written: there are other offsets, members or transactions that have not ended, of "
            f"{some_of(refused)} here already; --replace puts the new ones in their place, --group "
            "chooses others"
        )
    return planned


def refuse_kept_elsewhere(data_dir: Path, groups: Iterable[str]) -> None:
    """Raises NotDone where the shim would not serve what is imported of these groups; LogError, OSError."""
    if not num_partitions_in(FilesToRead(), data_dir):
        return
    with data_dir_to_read(data_dir) as (files, held):
        elsewhere = kept_elsewhere(files, held)
    if refused := [group for group in groups if group in elsewhere]:
        raise NotDone(
            "nothing was written: the shim would not serve what is imported of "
            f"{some_of(refused, lambda group: f'{group} ({elsewhere[group]})')}; --group chooses others"
        )


def plan_for(
    data_dir: Path, source: GroupOffsets, groups: Sequence[str], progress: Progress, *, replace: bool
) -> list[PlannedGroup]:
    """The plan for a data directory, which need not exist; nothing is changed in it. Raises as
    :func:`import_offsets`."""
    refuse_kept_elsewhere(data_dir, groups)
    here = GroupOffsets()
    if num_partitions_in(FilesToRead(), data_dir):
        with data_dir_to_read(data_dir) as (files, held):
            here = read_offsets(files, held, "reading what is here", progress)
    return plan_import(source, here, groups, replace=replace)


def import_offsets(
    data_dir: Path,
    files: Files,
    source: GroupOffsets,
    groups: Sequence[str],
    progress: Progress,
    *,
    replace: bool,
    num_partitions: int,
    cluster_id: str | None,
) -> list[PlannedGroup]:
    """Writes them. ``num_partitions`` is for a directory that does not exist yet; ``cluster_id``, where it is known, is
    claimed.

    Raises NotDone, nothing having been written; BrokenOff; LogError, OSError.
    """
    refuse_kept_elsewhere(data_dir, groups)
    num_partitions = num_partitions_in(files, data_dir) or num_partitions
    allow_open_files(num_partitions, OTHER_FILES)
    log = OffsetsLog.open(data_dir, num_partitions, files=files)
    try:
        planned = plan_import(source, _recovered(log, progress), groups, replace=replace)
        if cluster_id is not None:
            log.data_dir.claim(cluster_id)
        changing = [each for each in planned if each.outcome != UNCHANGED]
        with progress("writing", sum(len(each.offsets) for each in changing)) as ongoing:
            for writes, count in _writes(changing, num_partitions):
                for partition, error in log.write(writes).items():
                    raise BrokenOff(f"__consumer_offsets-{partition} was not written: {error}")
                ongoing.advance(count)
    finally:
        log.close()
    return planned


def verify_import(data_dir: Path, planned: Sequence[PlannedGroup], progress: Progress) -> list[str]:
    """Reads the directory back; a line for each offset that is not as it was to be."""
    with data_dir_to_read(data_dir) as (files, held):
        found = read_offsets(files, held, "verifying", progress)
    return [
        f"group {each.group} {difference}"
        for each in planned
        for difference in differences(each.offsets, found.of(each.group))
    ]


def _recovered(log: OffsetsLog, progress: Progress) -> GroupOffsets:
    """All partitions, which take writes from then on."""
    here = GroupOffsets()
    with progress("reading what is here", log.num_partitions) as ongoing:
        for partition in range(log.num_partitions):
            home = Home(partition, log.num_partitions, log.partition_log(partition).folder)
            Replay(here, home).apply(log.recover(partition))
            ongoing.advance(1)
    return here


def _writes(planned: Sequence[PlannedGroup], num_partitions: int) -> Iterator[tuple[list[PartitionWrite], int]]:
    """What one call of the log writes, and how many offsets that are."""
    sets: dict[int, list[RecordSet]] = {}
    size = count = 0
    for each in planned:
        for record_set in _record_sets(each):
            sets.setdefault(partition_for(each.group, num_partitions), []).append(record_set)
            size += sum(len(key) + len(value or b"") for key, value in record_set)
            count += len(record_set)
            if size >= _WRITE_SIZE:
                yield _partition_writes(sets), count
                sets, size, count = {}, 0, 0
    if sets:
        yield _partition_writes(sets), count


def _partition_writes(sets: dict[int, list[RecordSet]]) -> list[PartitionWrite]:
    now_ms = time.time_ns() // 1_000_000
    return [PartitionWrite(partition, record_sets, now_ms) for partition, record_sets in sets.items()]


def _record_sets(planned: PlannedGroup) -> Iterator[RecordSet]:
    records: RecordSet = [(encode_key(key), None) for key in planned.stale]
    for (topic, partition), committed in planned.offsets.items():
        key = OffsetCommitKey(planned.group, topic, partition)
        records.append((encode_key(key), encode_value(offset_commit_value(committed))))
    for at in range(0, len(records), _LARGEST_SET):
        yield records[at : at + _LARGEST_SET]
