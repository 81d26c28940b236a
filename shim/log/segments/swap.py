"""Compaction's last step: a cleaned segment takes the place of those that it was made of, at one stroke.

::

    <base>.log.cleaned      being written; worth nothing
    <base>.log.swap         whole and durable: it stands for every segment from its base to its end
    <base>.log.anew.swap    the same, for a moment
    <base>.log.deleted      replaced, and about to be removed
    <base>.log.swapped      empty; the new segment has its name, and need not have it on the disk

The names are Kafka's, and so is the order, with syncs where Kafka has none. Whatever of the renames between two syncs
survives a crash, in whatever order, also where a sync has failed (one that is repeated proves nothing):

- before the sync that makes ``.swap`` durable nothing that it replaces is touched; where a swap is resumed, the file
  gets that name anew, so that there is something to sync;
- while it is there, it says what is replaced: the segments that begin between its base and its end (the last batch of
  a segment is always kept, so that its end is certain, see cleaner/compaction.py);
- it becomes the segment only when the other replaced segments are durably gone: beside the new one, an old one would
  be taken for the next segment, and nothing would say that it is not. What is ``.deleted`` beside a ``.swap`` need not
  be, and is taken away once more;
- a segment that has a ``.swapped`` beside it is made ``.swap`` again. A later compaction could not know that there may
  be one, and it would stand for what is older by then.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from shim.log.disk.files import Files
from shim.log.disk.layout import index_name, segment_base_offset, segment_base_offsets, segment_name
from shim.log.disk.names import stands_in, take_away
from shim.log.errors import CorruptLog
from shim.log.segments.segment import BadBytes, sound_batches

_ALL: Final = 2**63 - 1
_CLEANED: Final = ".cleaned"
_SWAP: Final = ".swap"
_DELETED: Final = ".deleted"
_SWAPPED: Final = ".swapped"
_ANEW: Final = f".anew{_SWAP}"
_SWAP_NAME: Final = re.compile(r"\d{20}\.log(" + re.escape(_SWAP) + "|" + re.escape(_ANEW) + ")")
_LEFT_OVER: Final = re.compile(r"\d{20}\.log(" + re.escape(_CLEANED) + "|" + re.escape(_DELETED) + ")")


def cleaned_path(folder: Path, base_offset: int) -> Path:
    """Where a segment is written that :func:`swap` then puts in its place."""
    return _beside(folder, base_offset, _CLEANED)


def swap(files: Files, folder: Path, replaced: Sequence[int]) -> None:
    """Puts the cleaned segment in the place of these, by base offset, rising; it has the base offset of the first.

    Its bytes are durable already. Raises OSError: :func:`finish_swap` must then be called before the folder's segments
    are listed again. The replaced files remain until :func:`remove_left_overs`; their indexes are gone.
    """
    files.rename(cleaned_path(folder, replaced[0]), _beside(folder, replaced[0], _SWAP))
    files.sync_directory(folder)
    _complete(files, folder, replaced)


def finish_swap(files: Files, folder: Path) -> None:
    """Completes a swap that broke off, by a crash or an error, and removes what else a compaction left behind.

    Nothing else may use the folder's closed segments meanwhile. It can be called again after any crash or error of its
    own. Raises CorruptLog for a swap file that is damaged, nothing that it replaces having been touched; OSError.
    """
    if (damaged := standing_segments(files, folder).damaged) is not None:
        raise damaged  # before anything is removed: a replaced segment may be all that is left
    for whole in _swaps(files, folder):
        _finish(files, whole)
    for base_offset in _bases_of(files, folder, _SWAPPED):
        bases = segment_base_offsets(files, folder)
        if base_offset in bases[:-1]:
            segment, whole = folder / segment_name(base_offset), _beside(folder, base_offset, _SWAP)
            _replaced_by(files, segment, bases)  # raises CorruptLog
            files.rename(segment, whole)
            _finish(files, whole)
        else:
            files.unlink(_beside(folder, base_offset, _SWAPPED))
    remove_left_overs(files, folder)


class Standing(NamedTuple):
    """The segments of a folder as the next start would leave them, by base offset, rising: where a swap broke off, its
    file stands for those that it replaces, and newest ones that were there for a moment only are left out. ``damaged``:
    what :func:`finish_swap` would raise."""

    segments: dict[int, Path]
    damaged: CorruptLog | None


def standing_segments(files: Files, folder: Path) -> Standing:
    """Changes nothing. Raises OSError."""
    segments = {base: folder / segment_name(base) for base in segment_base_offsets(files, folder)}
    for whole in _swaps(files, folder):
        try:
            replaced = _replaced_by(files, whole, segments)
        except CorruptLog as damaged:
            return Standing(_to_stay(files, segments), damaged)
        kept = {base: path for base, path in segments.items() if base not in replaced}
        segments = dict(sorted({**kept, replaced[0]: whole}.items()))
    return Standing(_to_stay(files, segments), None)


def _to_stay(files: Files, segments: dict[int, Path]) -> dict[int, Path]:
    """Without the newest ones that recovery takes away."""
    bases = list(segments)
    while bases and stands_in(files, segments[bases[-1]]):
        bases.pop()
    return {base: segments[base] for base in bases}


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


def _beside(folder: Path, base_offset: int, suffix: str) -> Path:
    return folder / f"{segment_name(base_offset)}{suffix}"


def _swaps(files: Files, folder: Path) -> list[Path]:
    return [folder / name for name in files.names(folder) if _SWAP_NAME.fullmatch(name)]


def _bases_of(files: Files, folder: Path, suffix: str) -> list[int]:
    names = [name.removesuffix(suffix) for name in files.names(folder) if name.endswith(suffix)]
    return [base for name in names if (base := segment_base_offset(name)) is not None]


def _finish(files: Files, whole: Path) -> None:
    folder, base_offset = whole.parent, base_offset_of(whole)
    named, anew = _beside(folder, base_offset, _SWAP), _beside(folder, base_offset, _ANEW)
    # A name that is there need not be durable: the process may have been killed, or the sync have failed.
    if whole == named:
        files.rename(named, anew)
    files.rename(anew, named)
    files.sync_directory(folder)
    bases = sorted({*segment_base_offsets(files, folder), *_bases_of(files, folder, _DELETED)})
    _complete(files, folder, _replaced_by(files, named, bases))


def _complete(files: Files, folder: Path, replaced: Sequence[int]) -> None:
    base_offset = replaced[0]
    for other in replaced[1:]:
        take_away(files, folder / segment_name(other), _beside(folder, other, _DELETED))
    for each in replaced:
        if files.exists(folder / index_name(each)):
            files.unlink(folder / index_name(each))
    files.sync_directory(folder)
    swapped = _beside(folder, base_offset, _SWAPPED)
    if not files.exists(swapped):
        files.close(files.create(swapped))
    files.rename(_beside(folder, base_offset, _SWAP), folder / segment_name(base_offset))
    files.sync_directory(folder)
    files.unlink(swapped)


def _replaced_by(files: Files, whole: Path, bases: Collection[int]) -> list[int]:
    """The base offset, and of the segments at ``bases`` all others that begin before the end of the swap file."""
    base_offset = base_offset_of(whole)
    end, position = _end_of(files, whole, base_offset)
    # The base offset of the last batch, and so the end, is not covered by a CRC: what it says must fit.
    if end not in bases or end <= base_offset:
        raise CorruptLog(whole, position, f"it ends at offset {end}, where no segment begins")
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
