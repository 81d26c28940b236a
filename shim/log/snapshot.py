"""Snapshots: what the records of a partition up to an offset have made, kept so that they need not all be read again.

::

    DIR/<topic>-<p>/<offset, 20 digits>.snapshot     of the records below that offset

    magic "OSSN", version int16, CRC-32C uint32 of all that follows
    offset int64; the anchor: its segment's base offset int64, position int64, size int64, base offset int64, CRC uint32
    the payload, of which nothing is known here

All big-endian. A snapshot is believed only while its anchor, the batch that ends at the offset, stands in the log just
where it was: a log that was restored from an older copy, cut, or written on differently has another one there. That
alone is not enough: compaction removes the snapshots that it makes wrong before it does so (snapshot_floor.py), and a
new one has to be made then. Whatever is wrong with a snapshot is no error, as the log holds all that it does.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

import google_crc32c

from protocol.batches import HEADER_SIZE, LENGTH_OVERHEAD, MAGIC, BatchHeader, CorruptBatch, check_crc, read_header
from shim.log.checkpoint import replace_file
from shim.log.data_dir import segment_name
from shim.log.files import Files
from shim.log.partition import PartitionLog
from shim.log.snapshot_floor import SNAPSHOT_NAME, SnapshotFloor, SnapshotOutdated

_PREFIX: Final = Struct(">4shI")
_HEAD: Final = Struct(">qqqqqI")
_MAGIC: Final = b"OSSN"
_VERSION: Final = 1
_UNFINISHED: Final = re.compile(r"\d{20}\.snapshot\.tmp")
_MAGIC_POSITION: Final = 16
_MAGIC_BYTE: Final = bytes((MAGIC,))
_LENGTH: Final = Struct(">i")
_LENGTH_POSITION: Final = 8
_CHUNK_SIZE: Final = 1 << 20
_FIRST_WINDOW: Final = 8192
_WINDOW_GROWTH: Final = 16

_logger = logging.getLogger(__name__)


class Anchor(NamedTuple):
    """A batch, and where it stands: in the segment of that base offset, at that byte."""

    segment: int
    position: int
    size: int
    base_offset: int
    crc: int


class Snapshot(NamedTuple):
    """``payload`` is what the records below ``offset`` have made."""

    path: Path
    offset: int
    anchor: Anchor
    payload: memoryview


def snapshot_name(offset: int) -> str:
    return f"{offset:020d}.snapshot"


def last_batch(files: Files, log: PartitionLog) -> Anchor | None:
    """The batch that the partition's log ends with: what a snapshot of all of it is anchored to.

    None for a log without a batch in its active segment. To be called by the thread that writes, between writes.
    Raises LogError before the first recovery, OSError.
    """
    closed = log.closed_segments()
    base_offset, next_offset = closed[-1].next_offset if closed else 0, log.log_end_offset
    fd = files.open(log.folder / segment_name(base_offset))
    try:
        end = files.size(fd)
        window_size = _FIRST_WINDOW
        while True:
            start = max(0, end - window_size)
            found = _last_batch(files.read_at(fd, end - start, start), next_offset)
            if found is not None:
                at, header = found
                return Anchor(base_offset, start + at, header.size, header.base_offset, header.crc)
            if not start:
                return None
            window_size *= _WINDOW_GROWTH
    finally:
        files.close(fd)


def _last_batch(window: bytes, next_offset: int) -> tuple[int, BatchHeader] | None:
    """The batch that ends at the window's end, and its place; found from behind, by its length and its CRC."""
    at = len(window) - HEADER_SIZE
    while at >= 0:
        at = window.rfind(_MAGIC_BYTE, 0, at + _MAGIC_POSITION + 1) - _MAGIC_POSITION
        if at < 0:
            break
        if _LENGTH.unpack_from(window, at + _LENGTH_POSITION)[0] == len(window) - at - LENGTH_OVERHEAD:
            header = _sound_header(window, at)
            if header is not None and header.next_offset == next_offset:
                return at, header
        at -= 1
    return None


def _sound_header(window: bytes, at: int) -> BatchHeader | None:
    try:
        header = read_header(window, at)
        check_crc(window, at, header)
    except CorruptBatch:
        return None
    return header


def write_snapshot(
    files: Files,
    folder: Path,
    offset: int,
    anchor: Anchor,
    payload: Iterable[bytes],
    *,
    floor: SnapshotFloor | None = None,
) -> Path | None:
    """Durable when this returns; the partition's other snapshots are gone then. ``payload``: in pieces.

    ``floor``: the partition's, where it may be compacted meanwhile. None when it was, beyond the offset: the snapshot
    was not kept then. Other threads have their turn meanwhile, however long the payload.

    Raises OSError: the snapshots that there were remain, or the new one is there.
    """
    for name in files.names(folder):
        if _UNFINISHED.fullmatch(name):
            remove_snapshot(files, folder / name)
    path = folder / snapshot_name(offset)
    head = _HEAD.pack(offset, *anchor)

    def write(fd: int) -> None:
        crc, position = google_crc32c.value(head), _PREFIX.size + len(head)
        for chunk in _chunks(payload):
            crc = google_crc32c.extend(crc, chunk)
            files.write_at(fd, chunk, position)
            position += len(chunk)
        files.write_at(fd, _PREFIX.pack(_MAGIC, _VERSION, crc) + head, 0)

    try:
        replace_file(files, path, write, floor.admitting(offset) if floor is not None else None)
    except SnapshotOutdated:
        return None
    for name in files.names(folder):
        if SNAPSHOT_NAME.fullmatch(name) and name != path.name:
            remove_snapshot(files, folder / name)
    return path


def _chunks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes, in chunks of which each is dealt with before the others would miss the interpreter's lock."""
    gathered: list[bytes] = []
    size = 0
    for piece in pieces:
        for start in range(0, len(piece), _CHUNK_SIZE):
            part = piece[start : start + _CHUNK_SIZE]
            if size + len(part) > _CHUNK_SIZE:
                yield b"".join(gathered)
                gathered, size = [], 0
            gathered.append(part)
            size += len(part)
    if size:
        yield b"".join(gathered)


def newest_snapshot(files: Files, folder: Path) -> Snapshot | None:
    """The newest snapshot that is sound and whose anchor stands in the log. Those that are of no use are removed.

    Nobody else may be writing a snapshot of the partition. Raises OSError where the log cannot be read.
    """
    found = None
    for name in reversed(files.names(folder)):
        path = folder / name
        if _UNFINISHED.fullmatch(name) or (SNAPSHOT_NAME.fullmatch(name) and found is not None):
            remove_snapshot(files, path)
        elif SNAPSHOT_NAME.fullmatch(name):
            found = _read(files, path)
            if found is not None and not is_anchored(files, folder, found):
                _logger.warning("%s is not used: the log has something else before that offset by now", path)
                found = None
            if found is None:
                remove_snapshot(files, path)
    return found


def is_anchored(files: Files, folder: Path, snapshot: Snapshot) -> bool:
    """Whether the batch that the snapshot was taken at stands where it stood. Raises OSError."""
    anchor = snapshot.anchor
    try:
        fd = files.open(folder / segment_name(anchor.segment))
    except FileNotFoundError:
        return False
    try:
        there = anchor.position + anchor.size <= files.size(fd)
        batch = files.read_at(fd, anchor.size, anchor.position) if there else b""
    finally:
        files.close(fd)
    header = _sound_header(batch, 0)
    return header is not None and (header.size, header.base_offset, header.crc, header.next_offset) == (
        anchor.size,
        anchor.base_offset,
        anchor.crc,
        snapshot.offset,
    )


def remove_snapshot(files: Files, path: Path) -> None:
    """Not durably, and never fails: one that comes back, or stays, is looked at again before it is believed.

    Not for one that compaction makes wrong: see :class:`~shim.log.snapshot_floor.SnapshotFloor`.
    """
    try:
        files.unlink(path)
    except FileNotFoundError:
        return
    except OSError as error:
        _logger.warning("%s: not removed: %s", path, error)


def _read(files: Files, path: Path) -> Snapshot | None:
    try:
        raw = memoryview(files.read_file(path))
    except OSError as error:
        _logger.warning("%s is not used: %s", path, error)
        return None
    head_end = _PREFIX.size + _HEAD.size
    reason = ""
    if len(raw) < head_end:
        reason = "it is too short"
    else:
        magic, version, crc = _PREFIX.unpack_from(raw)
        if (magic, version) != (_MAGIC, _VERSION):
            reason = f"it is no snapshot of version {_VERSION}"
        elif _crc_of(raw[_PREFIX.size :]) != crc:
            reason = "its checksum is wrong"
    if reason:
        _logger.warning("%s is not used: %s", path, reason)
        return None
    offset, *anchor = _HEAD.unpack_from(raw, _PREFIX.size)
    found = Snapshot(path, offset, Anchor(*anchor), raw[head_end:])
    if path.name != snapshot_name(offset) or min(anchor) < 0:
        _logger.warning("%s is not used: it is of offset %d", path, offset)
        return None
    return found


def _crc_of(raw: memoryview) -> int:
    crc = 0
    for start in range(0, len(raw), _CHUNK_SIZE):
        crc = google_crc32c.extend(crc, bytes(raw[start : start + _CHUNK_SIZE]))
    return crc
