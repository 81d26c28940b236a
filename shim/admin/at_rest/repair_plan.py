"""What a repair would do to a damaged partition, and which keys it may leave older than what was acknowledged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from protocol.errors import DecodeError
from protocol.offsets_log import UnknownKey, decode_key
from protocol.records.batches import BatchError, Record, check_crc, read_header, records_of
from protocol.topic_partition import TopicPartition
from shim.admin.at_rest.data_dir import DataDir
from shim.admin.at_rest.examine import Examination, Examined
from shim.admin.at_rest.walk import Damage, Located, TornTail, fault_for, walk
from shim.log.disk.files import Files
from shim.log.recovery.torn_tail import Known
from shim.log.segments.swap import base_offset_of, is_swap, standing_segments

_LARGEST_SALVAGED: Final = 16 << 20


class Kept(NamedTuple):
    """A sound batch: its bytes in the segment, its base offset, and the first offset after it."""

    position: int
    end: int
    offset: int
    next_offset: int


@dataclass(slots=True)
class SegmentPlan:
    """A segment that is written anew with what is kept of it. ``taken``: the ranges of bytes that are not.

    ``is_new``: it is missing, and only made so that the offsets before the next one are accounted for.
    """

    path: Path
    base_offset: int
    kept: list[Kept] = field(default_factory=list)
    taken: list[tuple[int, int]] = field(default_factory=list)
    is_new: bool = False


class Doubt(NamedTuple):
    """A key whose newest record is taken away. ``now``: the newest that is left, ``was``: the one that is taken."""

    key: bytes
    now: Record | None
    was: Record


@dataclass(slots=True)
class PartitionPlan:
    """``aside``: files that are taken away whole. ``end_offset``: where the log ends afterwards. ``fills_gaps``: what
    follows the damage is kept. ``is_missing``: there is no folder; an empty one is made.

    ``unknown``: offsets (from, to; None for all that there were) of which nobody can say for certain which keys they
    had: any key of the partition may be among them.
    """

    partition: TopicPartition
    folder: Path
    damages: list[Damage]
    rewritten: list[SegmentPlan] = field(default_factory=list)
    aside: list[Path] = field(default_factory=list)
    fills_gaps: bool = False
    end_offset: int = 0
    unknown: list[tuple[int, int | None]] = field(default_factory=list)
    doubts: list[Doubt] = field(default_factory=list)
    is_missing: bool = False


def plan_repair(files: Files, held: DataDir, examination: Examination, *, skip: bool) -> list[PartitionPlan]:
    """For each partition that is damaged: cut it at the first damage, or, with ``skip``, take out what is damaged and
    keep what follows. Raises OSError."""
    plans = [
        _plan(files, examined, held.known(examined.partition), skip=skip)
        for examined in examination.partitions
        if examined.damages
    ]
    missing = set(held.missing())
    for damage in examination.damages:
        if damage.path in missing:
            topic, _, number = damage.path.name.rpartition("-")
            partition = TopicPartition(topic, int(number))
            plans.append(PartitionPlan(partition, damage.path, [damage], unknown=[(0, None)], is_missing=True))
    return plans


def _plan(files: Files, examined: Examined, known: Known, *, skip: bool) -> PartitionPlan:
    plan = PartitionPlan(examined.partition, examined.folder, examined.damages, fills_gaps=skip)
    found = list(_without_records(files, examined, known, plan, skip=skip))
    segments, damaged_swap = standing_segments(files, examined.folder)
    plan.aside = [] if damaged_swap is None else [damaged_swap.path]
    paths = list(segments.values())
    found = [each for each in found if each.path not in plan.aside]
    if skip:
        _skip(files, plan, paths, found)
    else:
        _cut(files, plan, paths, found)
    return plan


class _Batch(NamedTuple):
    """A sound one, without its records."""

    path: Path
    kept: Kept


def _without_records(
    files: Files, examined: Examined, known: Known, plan: PartitionPlan, *, skip: bool
) -> Iterator[_Batch | Damage | TornTail]:
    """Everything in the partition, while the plan is told of the keys in it."""
    newest: dict[bytes, Record] = {}
    lost: dict[bytes, Record] = {}
    cut_off = False
    for found in walk(files, examined.folder, known, fault_for(examined.partition.topic)):
        if isinstance(found, Located):
            batch = found.batch
            into = lost if cut_off and not skip else newest
            into |= {record.key: record for record in batch.records if record.key is not None}
            header = batch.header
            yield _Batch(found.path, Kept(batch.position, batch.end, header.base_offset, header.next_offset))
            continue
        if isinstance(found, Damage) and not found.is_litter and not _is_damaged_swap(found):
            cut_off = True
            records, are_right = _salvaged(files, found)
            if not are_right:
                plan.unknown.append((found.offset, found.next_offset))
            for record in records:
                if record.key is not None and (record.key not in lost or lost[record.key].offset < record.offset):
                    lost[record.key] = record
        yield found
    plan.doubts = [
        Doubt(key, newest.get(key), was)
        for key, was in lost.items()
        if key not in newest or newest[key].offset < was.offset
    ]


def _is_damaged_swap(damage: Damage) -> bool:
    """One that stands for nothing, as what it was made of is still there: nothing is lost with it."""
    return is_swap(damage.path) and damage.position == damage.end


def _salvaged(files: Files, damage: Damage) -> tuple[list[Record], bool]:
    """The records in damaged bytes as far as they can be told, and whether they are right: all, and as written."""
    size = damage.end - damage.position
    if not 0 < size <= _LARGEST_SALVAGED:
        return [], False
    fd = files.open(damage.path)
    try:
        raw = files.read_at(fd, size, damage.position)
    finally:
        files.close(fd)
    try:
        header = read_header(raw)
        if header.size != size:
            return [], False
        # The base offset may be what is damaged: no CRC covers it.
        records = records_of(raw, 0, header._replace(base_offset=damage.offset))
    except BatchError:
        return [], False
    try:
        check_crc(raw, 0, header)
    except BatchError:
        return [record for record in records if _is_known_key(record)], False
    return records, True


def _is_known_key(record: Record) -> bool:
    try:
        return record.key is not None and not isinstance(decode_key(record.key), UnknownKey)
    except DecodeError:
        return False


# --- cut -------------------------------------------------------------------------------------------------------------


def _cut(files: Files, plan: PartitionPlan, paths: list[Path], found: list[_Batch | Damage | TornTail]) -> None:
    damage = next((each for each in found if isinstance(each, Damage) and not each.is_litter), None)
    before = found if damage is None else found[: found.index(damage)]
    segments = _littered(before)
    if damage is None:
        plan.rewritten = list(segments.values())
        plan.end_offset = max(_end_of(found), base_offset_of(paths[-1]) if paths else 0)
        return
    kept = [each.kept for each in before if isinstance(each, _Batch) and each.path == damage.path]
    if damage.path in paths:
        at = paths.index(damage.path)
        segment = segments.pop(damage.path, None) or SegmentPlan(damage.path, base_offset_of(damage.path))
        segment.kept = kept
        size = files.size_of(damage.path)
        if damage.position < size:
            segment.taken.append((damage.position, size))
        plan.end_offset = kept[-1].next_offset if kept else segment.base_offset
        plan.rewritten = [*segments.values(), segment]
        plan.aside += paths[at + 1 :]
    else:
        plan.end_offset = 0
        plan.rewritten = [SegmentPlan(damage.path, 0, is_new=True)]
        plan.aside += paths


def _littered(found: Sequence[_Batch | Damage | TornTail]) -> dict[Path, SegmentPlan]:
    """The segments with bytes in them that only have to be taken out."""
    segments: dict[Path, SegmentPlan] = {}
    for each in found:
        if isinstance(each, Damage) and each.is_litter:
            segment = segments.setdefault(each.path, SegmentPlan(each.path, base_offset_of(each.path)))
            segment.taken.append((each.position, each.end))
    _keep(segments, found)
    return segments


def _keep(segments: dict[Path, SegmentPlan], found: Sequence[_Batch | Damage | TornTail]) -> None:
    """What is sound of these segments is kept; a torn tail is taken."""
    for each in found:
        if isinstance(each, _Batch) and each.path in segments:
            segments[each.path].kept.append(each.kept)
        elif isinstance(each, TornTail) and each.path in segments:
            segments[each.path].taken.append((each.position, each.end))


def _end_of(found: Iterable[_Batch | Damage | TornTail]) -> int:
    return max((each.kept.next_offset for each in found if isinstance(each, _Batch)), default=0)


# --- skip ------------------------------------------------------------------------------------------------------------


def _skip(files: Files, plan: PartitionPlan, paths: list[Path], found: list[_Batch | Damage | TornTail]) -> None:
    segments: dict[Path, SegmentPlan] = {}
    for each in found:
        if isinstance(each, Damage):
            if each.path not in segments:
                is_new = each.path not in paths
                segments[each.path] = SegmentPlan(each.path, base_offset_of(each.path), is_new=is_new)
            if each.end > each.position:
                segments[each.path].taken.append((each.position, each.end))
    _keep(segments, found)
    plan.rewritten = list(segments.values())
    plan.end_offset = max(_end_of(found), base_offset_of(paths[-1]) if paths else 0)
