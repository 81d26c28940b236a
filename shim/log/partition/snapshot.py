"""Snapshots: what the records of a partition up to an offset have made, kept so that they need not all be read again.

::

    DIR/<topic>-<p>/<offset, 20 digits>.snapshot     of the records below that offset

    magic "OSSN", version int16, CRC-32C uint32 of all that follows
    offset int64; the anchor: its segment's base offset int64, position int64, size int64, base offset int64, CRC uint32
    the payload, of which nothing is known here

All big-endian. A snapshot is believed only while its anchor, the batch that ends at the offset, stands in the log just
where it was: a log that was restored from an older copy, cut, or written on differently has another one there.

That alone is not enough: compaction may take a tombstone from behind a snapshot, of a key that is in the snapshot. The
anchor stands where it stood, and what was deleted would rise again. So before anything that compaction has written
takes the place of what was there, every snapshot goes, durably, whose anchor is in the segments that are written anew;
and none of these may come any more, even one in the making. That is more than has to go where a round of compaction
ends inside a segment: what is behind that end stays as it was, but not where it was.

Of a log that is elsewhere, on a topic, only the file is as above: of the anchor what is said of a segment is 0, and
whether the log is still the one that it is of others find out, by what they have put into the payload.

Whatever is wrong with a snapshot is no error, as the log holds all that it does.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from struct import Struct
from threading import Lock
from typing import Final, NamedTuple

import google_crc32c

from protocol.records.batches import CorruptBatch, check_crc, read_header
from shim.log.disk.checkpoint import replace_file
from shim.log.disk.files import Files
from shim.log.disk.layout import segment_name
from shim.log.disk.names import STAND_IN, take_away
from shim.log.segments.active import LastBatch

_PREFIX: Final = Struct(">4shI")
_HEAD: Final = Struct(">qqqqqI")
_HEAD_END: Final = _PREFIX.size + _HEAD.size
_MAGIC: Final = b"OSSN"
_VERSION: Final = 1
_NAME: Final = re.compile(r"(\d{20})\.snapshot")
_OUTDATED: Final = ".outdated"
_UNFINISHED: Final = re.compile(r"\d{20}\.snapshot\.tmp")
_CHUNK_SIZE: Final = 1 << 20
_SYNC_EVERY: Final = 4 << 20

_logger = logging.getLogger(__name__)


class Snapshot(NamedTuple):
    """``payload`` is what the records up to the end of the batch ``anchor`` have made."""

    path: Path
    anchor: LastBatch
    payload: memoryview

    @property
    def offset(self) -> int:
        return self.anchor.next_offset


def snapshot_name(offset: int) -> str:
    return f"{offset:020d}.snapshot"


class _Unsound(Exception):
    """The file is no snapshot that can be used. The message says why."""


class _Outdated(Exception):
    """The log was compacted beyond the offset of a snapshot in the making."""


class SnapshotFolder:
    """Of one partition."""

    def __init__(self, files: Files, folder: Path) -> None:
        self._files = files
        self._folder = folder

    def __str__(self) -> str:
        return str(self._folder)

    def take(self, anchor: LastBatch, payload: Iterable[bytes]) -> Path | None:
        """A snapshot of the log up to this batch; durable when this returns, and the other ones are gone then.

        ``payload``: in pieces. None when the log was compacted up to there meanwhile: the snapshot was not kept then.
        Other threads have their turn meanwhile, however long the payload.

        Raises OSError, and what ``payload`` raises: the snapshots that there were remain, or the new one is there. It
        comes soon to its end then, and nothing is left of what was begun.
        """
        self.tidy()
        path = self._folder / snapshot_name(anchor.next_offset)
        head = _HEAD.pack(*anchor)

        def write(fd: int) -> None:
            crc, position = google_crc32c.value(head), _HEAD_END
            synced = 0
            for chunk in _chunks(payload):
                crc = google_crc32c.extend(crc, chunk)
                self._files.write_at(fd, chunk, position)
                position += len(chunk)
                if position - synced >= _SYNC_EVERY:
                    # So that no sync takes long, which nobody could break off, and the log's own might have to wait.
                    self._files.fdatasync(fd)
                    synced = position
            self._files.write_at(fd, _PREFIX.pack(_MAGIC, _VERSION, crc) + head, 0)

        try:
            replace_file(self._files, path, write, self._admitting(anchor.next_offset))
        except _Outdated:
            return None
        for name in self._files.names(self._folder):
            if _NAME.fullmatch(name) and name != path.name:
                self._remove(self._folder / name)
        return path

    def tidy(self) -> None:
        """Remove what a process that was killed has begun, and nobody is making any more. Raises OSError."""
        for name in self._files.names(self._folder):
            if _UNFINISHED.fullmatch(name):
                self._remove(self._folder / name)

    def newest(self, check: Callable[[], None] = lambda: None) -> Snapshot | None:
        """The newest one that is sound and stands. Those that are of no use are removed; one in the making, whoever
        makes it, is left alone.

        ``check`` is called now and then while one is read; what it raises ends that. Raises OSError where the log
        cannot be read.
        """
        found = None
        for name in reversed(self._files.names(self._folder)):
            path = self._folder / name
            if _NAME.fullmatch(name) and found is not None:
                self._remove(path)
            elif _NAME.fullmatch(name):
                try:
                    read = _snapshot(path, self._content(path, check))
                except _Unsound as error:
                    self.refuse(path, error)
                    continue
                except OSError as error:  # it may be read another time
                    _logger.warning("%s is not used: %s", path, error)
                    continue
                if self.stands(read):
                    found = read
                else:
                    self.refuse(path, "the log has something else before that offset by now")
        return found

    def _content(self, path: Path, check: Callable[[], None]) -> bytearray:
        fd = self._files.open(path)
        try:
            content = bytearray(self._files.size(fd))
            for start in range(0, len(content), _CHUNK_SIZE):
                check()
                chunk = self._files.read_at(fd, min(_CHUNK_SIZE, len(content) - start), start)
                content[start : start + len(chunk)] = chunk
            return content
        finally:
            self._files.close(fd)

    def stands(self, snapshot: Snapshot) -> bool:  # whoever has the log knows
        """Whether it goes with the log as it is, as far as that is known here. Raises OSError."""
        return True

    def refuse(self, path: Path, reason: object) -> None:
        """It is of no use: that is logged, and it is removed."""
        _logger.warning("%s is not used: %s", path, reason)
        self._remove(path)

    def _remove(self, path: Path) -> None:
        """Not durably, and never fails: one that comes back, or stays, is looked at again before it is believed."""
        try:
            self._files.unlink(path)
        except FileNotFoundError:
            return
        except OSError as error:
            _logger.warning("%s: not removed: %s", path, error)

    @contextmanager
    def _admitting(self, offset: int) -> Iterator[None]:
        """While a snapshot of this offset is given its name. Raises _Outdated."""
        yield


class PartitionSnapshots(SnapshotFolder):
    """Of one partition of a log on the disk, whose segments are in the same folder. The cleaner calls :meth:`outdate`,
    whatever others do meanwhile."""

    def __init__(self, files: Files, folder: Path) -> None:
        super().__init__(files, folder)
        self._outdated = 0
        self._naming = Lock()

    def stands(self, snapshot: Snapshot) -> bool:
        """Whether it goes with the log as it is: no compaction has reached its anchor, which is there. Raises OSError.

        Where the records behind a snapshot have been read and it stands, nothing was compacted under them.
        """
        anchor = snapshot.anchor
        if self.is_outdated(anchor.next_offset):
            return False
        try:
            fd = self._files.open(self._folder / segment_name(anchor.segment))
        except FileNotFoundError:
            return False
        try:
            there = anchor.position + anchor.size <= self._files.size(fd)
            batch = self._files.read_at(fd, anchor.size, anchor.position) if there else b""
        finally:
            self._files.close(fd)
        try:
            header = read_header(batch)
            check_crc(batch, 0, header)
        except CorruptBatch:
            return False
        return LastBatch.of(anchor.segment, anchor.position, header) == anchor

    def _remove(self, path: Path) -> None:
        """Likewise. But what it says does not come back: nobody could outdate it, as its name is gone, and where the
        sync of that fails it stays on the disk. One that cannot be spoiled stays, and :meth:`outdate` knows of it."""
        try:
            if _NAME.fullmatch(path.name):
                self._spoil(path)
        except FileNotFoundError:
            return
        except OSError as error:
            _logger.warning("%s: not removed: %s", path, error)
        else:
            super()._remove(path)

    def _spoil(self, path: Path) -> None:
        fd = self._files.open(path)
        try:
            self._files.write_at(fd, STAND_IN, 0)
            self._files.fdatasync(fd)
        finally:
            self._files.close(fd)

    def is_outdated(self, offset: int) -> bool:
        """Whether this process has compacted the log up to there; what others have compacted, they have removed."""
        return offset <= self._outdated

    def outdate(self, offset: int) -> None:
        """Removes the snapshots of ``offset`` and less, durably, as all segments up to there are about to be written
        anew. Raises OSError: one of them may be there.
        """
        with self._naming:
            self._outdated = max(self._outdated, offset)
            names = (name.removesuffix(_OUTDATED) for name in self._files.names(self._folder))
            outdated = sorted(
                {self._folder / name for name in names if (match := _NAME.fullmatch(name)) and int(match[1]) <= offset}
            )
            for path in outdated:
                with suppress(FileNotFoundError):  # others remove snapshots, too
                    take_away(self._files, path, path.with_name(path.name + _OUTDATED))
            # Also when there was none: who removed them did not sync it.
            self._files.sync_directory(self._folder)
            for path in outdated:
                with suppress(FileNotFoundError):
                    self._files.unlink(path.with_name(path.name + _OUTDATED))

    @contextmanager
    def _admitting(self, offset: int) -> Iterator[None]:
        """While a snapshot of this offset is given its name."""
        with self._naming:
            if self.is_outdated(offset):
                raise _Outdated
            yield


def _snapshot(path: Path, content: bytearray) -> Snapshot:
    raw = memoryview(content)
    if len(raw) < _HEAD_END:
        raise _Unsound("it is too short")
    magic, version, crc = _PREFIX.unpack_from(raw)
    if (magic, version) != (_MAGIC, _VERSION):
        raise _Unsound(f"it is no snapshot of version {_VERSION}")
    if _crc_of(raw[_PREFIX.size :]) != crc:
        raise _Unsound("its checksum is wrong")
    anchor = LastBatch(*_HEAD.unpack_from(raw, _PREFIX.size))
    if path.name != snapshot_name(anchor.next_offset) or min(anchor) < 0:
        raise _Unsound(f"it is of offset {anchor.next_offset}")
    return Snapshot(path, anchor, raw[_HEAD_END:])


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


def _crc_of(raw: memoryview) -> int:
    crc = 0
    for start in range(0, len(raw), _CHUNK_SIZE):
        crc = google_crc32c.extend(crc, bytes(raw[start : start + _CHUNK_SIZE]))
    return crc
