"""Compaction's last step: a cleaned segment takes the place of those that it was made of, at one stroke.

::

    <base>.log.cleaned      being written; worth nothing
    <base>.log.swap         whole and durable: it stands for every segment from its base to its end
    <base>.log.deleted      replaced, and about to be removed

The names are Kafka's, and so is the order, with syncs where Kafka has none. Whatever of the renames between two syncs
survives a crash, in whatever order:

- before the sync that makes ``.swap`` durable nothing that it replaces is touched;
- while it is there, it says what is replaced: the segments that begin between its base and its end (the last batch of
  a segment is always kept, so that its end is certain, see cleaner/compaction.py);
- it becomes the segment only when the other replaced segments are durably gone: beside the new one, an old one would
  be taken for the next segment, and nothing would say that it is not.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from shim.log.data_dir import index_name, segment_base_offsets, segment_name
from shim.log.errors import CorruptLog
from shim.log.files import Files
from shim.log.segment import BadBytes, sound_batches

_ALL: Final = 2**63 - 1
_CLEANED: Final = ".cleaned"
_SWAP: Final = ".swap"
_DELETED: Final = ".deleted"
_SWAP_NAME: Final = re.compile(r"(\d{20})\.log" + re.escape(_SWAP))
_LEFT_OVER: Final = re.compile(r"\d{20}\.log(" + re.escape(_CLEANED) + "|" + re.escape(_DELETED) + ")")


def cleaned_path(folder: Path, base_offset: int) -> Path:
    """Where a segment is written that :func:`swap` then puts in its place."""
    return folder / f"{segment_name(base_offset)}{_CLEANED}"


def swap(files: Files, folder: Path, replaced: Sequence[int]) -> None:
    """Puts the cleaned segment in the place of these, by base offset, rising; it has the base offset of the first.

    Its bytes are durable already. Raises OSError: :func:`finish_swap` must then be called before the folder's segments
    are listed again. The replaced files remain until :func:`remove_left_overs`; their indexes are gone.
    """
    base_offset = replaced[0]
    files.rename(cleaned_path(folder, base_offset), _swap_path(folder, base_offset))
    _complete(files, folder, replaced)


def finish_swap(files: Files, folder: Path) -> None:
    """Completes a swap that broke off, by a crash or an error, and removes what else a compaction left behind.

    Nothing else may use the folder's closed segments meanwhile. It can be called again after any crash or error of its
    own. Raises CorruptLog for a swap file that is damaged, nothing that it replaces having been touched; OSError.
    """
    if (damaged := standing_segments(files, folder).damaged) is not None:
        raise damaged  # before anything is removed: a replaced segment may be all that is left
    for name in files.names(folder):
        if match := _SWAP_NAME.fullmatch(name):
            bases = segment_base_offsets(files, folder)
            _complete(files, folder, _replaced_by(files, folder, int(match[1]), bases))
    remove_left_overs(files, folder)


class Standing(NamedTuple):
    """The segments of a folder as :func:`finish_swap` would leave them, by base offset, rising: where a swap broke off,
    its file stands for those that it replaces. ``damaged``: what it would raise."""

    segments: dict[int, Path]
    damaged: CorruptLog | None


def standing_segments(files: Files, folder: Path) -> Standing:
    """Changes nothing. Raises OSError."""
    segments = {base: folder / segment_name(base) for base in segment_base_offsets(files, folder)}
    for name in files.names(folder):
        if match := _SWAP_NAME.fullmatch(name):
            base_offset = int(match[1])
            try:
                replaced = _replaced_by(files, folder, base_offset, segments)
            except CorruptLog as damaged:
                return Standing(segments, damaged)
            kept = {base: path for base, path in segments.items() if base not in replaced}
            segments = dict(sorted({**kept, base_offset: folder / name}.items()))
    return Standing(segments, None)


def is_swap(segment: Path) -> bool:
    return segment.suffix == _SWAP


def base_offset_of(segment: Path) -> int:
    """Also of a swap file that stands for segments."""
    return int(segment.name.partition(".")[0])


def remove_left_overs(files: Files, folder: Path) -> None:
    """Removes replaced segments, and unfinished cleaned ones. Raises OSError."""
    for name in files.names(folder):
        if _LEFT_OVER.fullmatch(name):
            with suppress(FileNotFoundError):  # a recovery and the cleaner may both be at it
                files.unlink(folder / name)


def _swap_path(folder: Path, base_offset: int) -> Path:
    return folder / f"{segment_name(base_offset)}{_SWAP}"


def _complete(files: Files, folder: Path, replaced: Sequence[int]) -> None:
    # After a crash, too: a name that is there need not be durable, if the machine did not go down with the process.
    files.sync_directory(folder)
    base_offset = replaced[0]
    for other in replaced[1:]:
        files.rename(folder / segment_name(other), folder / f"{segment_name(other)}{_DELETED}")
    for each in replaced:
        if files.exists(folder / index_name(each)):
            files.unlink(folder / index_name(each))
    files.sync_directory(folder)
    # This one is durable whenever: until it is, the swap file is there, and says what there is to do.
    files.rename(_swap_path(folder, base_offset), folder / segment_name(base_offset))


def _replaced_by(files: Files, folder: Path, base_offset: int, bases: Collection[int]) -> list[int]:
    """The base offset, and of the segments at ``bases`` all others that begin before the end of the swap file."""
    path = _swap_path(folder, base_offset)
    end, position = _end_of(files, path, base_offset)
    # The base offset of the last batch, and so the end, is not covered by a CRC: what it says must fit.
    if end not in bases or end <= base_offset:
        raise CorruptLog(path, position, f"it ends at offset {end}, where no segment begins")
    return [base_offset, *(other for other in bases if base_offset < other < end)]


def _end_of(files: Files, path: Path, base_offset: int) -> tuple[int, int]:
    """The offset after the last batch of a whole segment, and the last batch's position."""
    end, position = base_offset, 0
    fd = files.open(path)
    try:
        for batch in sound_batches(files, fd, files.size(fd), base_offset, gaps=True, unread_below=_ALL):
            end, position = batch.header.next_offset, batch.position
    except BadBytes as bad:
        raise CorruptLog(path, bad.position, bad.reason) from None
    finally:
        files.close(fd)
    return end, position
