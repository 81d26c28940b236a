"""A repair, as planned: a copy of all that is taken away, and a log that is sound whenever a kill comes.

At any kill the partition is either as it was, or damaged at the same place as before: the repair can be begun again,
and comes to the same end. Nothing is changed in place, as a file may be linked into a backup.
"""

from __future__ import annotations

import errno
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from protocol.records.batches import encode_batch, read_header, rewrite_batch
from shim.admin.at_rest.data_dir import DataDir
from shim.admin.at_rest.journal import remove_journal
from shim.admin.at_rest.repair_plan import Kept, PartitionPlan, SegmentPlan
from shim.log.disk.checkpoint import (
    CLEANER_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    read_checkpoint,
    write_checkpoint,
)
from shim.log.disk.files import Files
from shim.log.disk.layout import index_name, segment_base_offsets, segment_name
from shim.log.errors import CorruptLog, LogError
from shim.log.recovery.torn_tail import keep_copy
from shim.log.segments.swap import base_offset_of, finish_swap, is_swap

_LONGEST_SPAN: Final = 2**31 - 1
_COPY_SIZE: Final = 1 << 20


def repair(files: Files, held: DataDir, plans: Sequence[PartitionPlan], now_ms: int) -> list[Path]:
    """Carries out the plans, and takes malformed checkpoints away. Gives where everything is that was taken away.

    Raises OSError.
    """
    # Before the folders go that processes which shared the directory have left theirs in.
    copies = [_put_aside(files, path, held.path) for path in held.malformed]
    remove_journal(files, held.path)
    for plan in plans:
        copies += _repair_partition(files, held, plan, now_ms)
    return copies


def _repair_partition(files: Files, held: DataDir, plan: PartitionPlan, now_ms: int) -> list[Path]:
    copies: list[Path] = []
    if plan.is_missing:
        files.mkdir(plan.folder)
    # First: a recovery point that is too low makes recovery less sure of itself, one that is too high stops it.
    _lower_checkpoints(files, held, plan)
    _finish_swaps(files, plan)
    copies += [_put_aside(files, path) for path in plan.aside if path.suffix != ".log"]
    copies += [_put_aside(files, plan.folder / name) for name in files.names(plan.folder) if name.endswith(".snapshot")]
    for segment in plan.rewritten:
        copies += _copies(files, segment)
        _rewrite(files, segment, _pieces(files, plan, segment, now_ms))
    if plan.is_missing or (plan.rewritten and not plan.fills_gaps):
        _make_active(files, plan)
    # The newest first, so that no segment is ever missing between two others.
    following = [path for path in plan.aside if path.suffix == ".log"]
    copies += [_put_aside(files, path) for path in sorted(following, reverse=True)]
    if plan.is_missing:
        files.sync_directory(held.path)
    return copies


def _finish_swaps(files: Files, plan: PartitionPlan) -> None:
    """Where a compaction broke off, what stands for other segments takes their place, on the disk and in the plan."""
    with suppress(CorruptLog):  # as planned: it is put aside, and what it was made of is kept
        finish_swap(files, plan.folder)
    for segment in plan.rewritten:
        segment.path = segment.path.with_name(segment_name(segment.base_offset))
    plan.aside = [
        path.with_name(segment_name(base_offset_of(path))) if is_swap(path) and not files.exists(path) else path
        for path in plan.aside
    ]


def _lower_checkpoints(files: Files, held: DataDir, plan: PartitionPlan) -> None:
    path = held.path / RECOVERY_POINT_CHECKPOINT
    points = read_checkpoint(files, path)
    if points.get(plan.partition, 0) > plan.end_offset:
        write_checkpoint(files, path, {**points, plan.partition: plan.end_offset})
    # The log may be of another copy than the one that was cleaned up to there. Clean is what is found to be.
    path = held.path / CLEANER_OFFSET_CHECKPOINT
    try:
        first_dirty = read_checkpoint(files, path)
    except LogError:
        return
    if first_dirty.pop(plan.partition, None) is not None:
        write_checkpoint(files, path, first_dirty)


def _copies(files: Files, segment: SegmentPlan) -> Iterator[Path]:
    for start, end in segment.taken:
        fd = files.open(segment.path)
        try:
            yield keep_copy(files, fd, segment.path, start, end)
        finally:
            files.close(fd)


def _rewrite(files: Files, segment: SegmentPlan, pieces: Generator[bytes, None, None]) -> None:
    folder = segment.path.parent
    unfinished = segment.path.with_name(f"{segment.path.name}.repaired")
    if files.exists(unfinished):
        files.unlink(unfinished)
    fd = files.create(unfinished)
    try:
        position = 0
        with closing(pieces):
            for piece in pieces:
                files.write_at(fd, piece, position)
                position += len(piece)
        files.fsync(fd)
    finally:
        files.close(fd)
    index = folder / index_name(segment.base_offset)
    if files.exists(index):
        files.unlink(index)
    files.rename(unfinished, segment.path)
    files.sync_directory(folder)


def _pieces(files: Files, plan: PartitionPlan, segment: SegmentPlan, now_ms: int) -> Generator[bytes, None, None]:
    """What the segment is to hold: what is kept, and, where it has to, batches without records in the gaps."""
    bases = segment_base_offsets(files, plan.folder)
    next_base = min((base for base in bases if base > segment.base_offset), default=None)
    due = segment.base_offset
    fd = -1 if segment.is_new else files.open(segment.path)
    try:
        for kept in segment.kept:
            if plan.fills_gaps and next_base is None:  # in the active segment offsets have no gaps
                yield from fillers(due, kept.offset, now_ms)
            yield from _bytes_of(files, fd, kept)
            due = kept.next_offset
    finally:
        if fd >= 0:
            files.close(fd)
    if plan.fills_gaps and next_base is not None:
        yield from fillers(due, next_base, now_ms)  # a closed segment ends where the next one begins


def fillers(offset: int, next_offset: int, now_ms: int) -> Iterator[bytes]:
    """Batches without records that span these offsets, as compaction leaves them."""
    while offset < next_offset:
        span = min(next_offset - offset, _LONGEST_SPAN)
        header = read_header(encode_batch(offset, [(b"", None)], now_ms))
        yield rewrite_batch(header._replace(last_offset_delta=span - 1), [])
        offset += span


def _bytes_of(files: Files, fd: int, kept: Kept) -> Iterator[bytes]:
    position = kept.position
    while position < kept.end:
        data = files.read_at(fd, min(_COPY_SIZE, kept.end - position), position)
        if not data:
            raise OSError(errno.EIO, f"unreadable from byte {position} on")
        yield data
        position += len(data)


def _make_active(files: Files, plan: PartitionPlan) -> None:
    """An empty last segment where the log ends now: one that was closed may have gaps, and is not written to again."""
    followed = any(path.suffix == ".log" for path in plan.aside)
    is_closed = followed and bool(plan.rewritten[-1].kept)
    path = plan.folder / segment_name(plan.end_offset)
    if (is_closed or plan.is_missing) and not files.exists(path):
        files.close(files.create(path))
        files.sync_directory(plan.folder)


def _put_aside(files: Files, path: Path, folder: Path | None = None) -> Path:
    """Into ``folder``, if not the one that it is in, which is removed then."""
    aside = _unused(files, (folder or path.parent) / path.name)
    files.rename(path, aside)
    if path.suffix == ".log" and files.exists(path.with_suffix(".index")):
        files.unlink(path.with_suffix(".index"))
    files.sync_directory(aside.parent)
    return aside


def _unused(files: Files, path: Path) -> Path:
    # Like the copies of what is cut off; beside the partitions' folders, though, a name must not end as theirs do.
    stem = f"{path.name}.cut-0" if path.suffix in (".log", ".swap", ".snapshot") else f"{path.name}.damaged"
    aside, number = path.with_name(stem), 0
    while files.exists(aside):
        number += 1
        aside = path.with_name(f"{stem}.{number}")
    return aside
