"""A segment file, a window at a time: where its batches are, and where they stop being sound.

Batches of one format are told apart by three fields alone (length, magic, CRC), so that is all that is read of them one
by one; the rest of their headers comes as columns (:class:`Batches`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

import google_crc32c
import numpy as np
import numpy.typing as npt

from protocol.records.batches import HEADER_SIZE, LENGTH_OVERHEAD, MAGIC, MAGIC_POSITION, BatchError, Record
from protocol.records.message_sets import decode_message_set

WINDOW: Final = 4 << 20
"""Bytes that are read at once; a batch that is larger is read whole."""

_HEAD_SIZE: Final = MAGIC_POSITION + 1  # offset, length, and at its end the magic, in all three formats
_LENGTH_AT: Final = 8
_LENGTH: Final = Struct(">i")
_SHORTEST: Final = (14, 14, HEADER_SIZE - LENGTH_OVERHEAD)  # by magic, as the length field counts
_CHECKED_FROM: Final = 21

HEADER: Final = np.dtype(
    [
        *(("base_offset", ">i8"), ("length", ">i4"), ("leader_epoch", ">i4"), ("magic", "i1"), ("crc", ">u4")),
        *(("attributes", ">i2"), ("last_offset_delta", ">i4"), ("base_timestamp", ">i8"), ("max_timestamp", ">i8")),
        *(("producer_id", ">i8"), ("producer_epoch", ">i2"), ("base_sequence", ">i4"), ("record_count", ">i4")),
    ]
)
"""The 61 bytes of :class:`protocol.records.batches.BatchHeader`."""

_crc32c = google_crc32c.value


class Batches(NamedTuple):
    """Sound record batches, one behind the other. ``raw`` begins at byte ``position`` of the file; ``starts`` and
    ``ends`` are positions in it. ``headers``: an array of HEADER, one for each."""

    position: int
    raw: bytes
    starts: list[int]
    ends: list[int]
    headers: npt.NDArray[np.void]


class Messages(NamedTuple):
    """The records of message sets (magic 0 and 1), read already."""

    position: int
    records: list[Record]


class Bad(NamedTuple):
    """The segment cannot be read on from ``position``. ``intact``: the CRC there is right, so it is no torn write."""

    position: int
    reason: str
    intact: bool = False


Found = Batches | Messages | Bad


def scan(fd: int, size: int, position: int = 0, next_offset: int = 0) -> Iterator[Found]:
    """What the first ``size`` bytes hold from ``position`` on, where no offset below ``next_offset`` is due; nothing
    behind the first Bad. Raises OSError."""
    wanted = WINDOW
    while position < size:
        raw = os.pread(fd, min(wanted, size - position), position)
        chain = _chain(raw, size - position)
        found: Batches | Messages | None = None
        bad = None
        if chain.starts:
            read = _batches if chain.magic == MAGIC else _messages
            found, bad, next_offset = read(position, raw, chain, next_offset)
            if found is not None:
                yield found
        if bad is None and chain.reason:
            bad = Bad(position + chain.end, chain.reason)
        if bad is None and len(raw) < min(wanted, size - position):
            bad = Bad(position + len(raw), f"the file ends {size - position - len(raw)} bytes early")
        if bad is not None:
            yield bad
            return
        wanted = max(WINDOW, chain.needed)
        position += chain.end


class _Chain(NamedTuple):
    """``end``: where the next one begins; ``needed``: its size, where it is not whole in the window; ``reason``: why
    there is none."""

    starts: list[int]
    ends: list[int]
    magic: int
    end: int
    needed: int
    reason: str


def _chain(raw: bytes, left: int) -> _Chain:
    """Whole entries from the beginning of ``raw`` on, all batches or all messages. ``left``: bytes to the file's
    end."""
    starts: list[int] = []
    at, needed, reason = 0, 0, ""
    of_all = -1
    while at < left:
        if len(raw) - at < _HEAD_SIZE:
            reason = f"a header of {left - at} bytes" if left - at < _HEAD_SIZE else ""
            break
        magic = raw[at + MAGIC_POSITION]
        if magic > MAGIC:
            reason = f"magic {magic}"
            break
        kind = MAGIC if magic == MAGIC else 0
        if of_all < 0:
            of_all = kind
        elif kind != of_all:
            break
        length: int = _LENGTH.unpack_from(raw, at + _LENGTH_AT)[0]
        if not _SHORTEST[magic] <= length <= left - at - LENGTH_OVERHEAD:
            reason = f"a batch of {length + LENGTH_OVERHEAD} bytes, {left - at} left in the file"
            break
        end = at + LENGTH_OVERHEAD + length
        if end > len(raw):
            needed = end - at
            break
        starts.append(at)
        at = end
    return _Chain(starts, [*starts[1:], at], of_all, at, needed, reason)


def _batches(position: int, raw: bytes, chain: _Chain, next_offset: int) -> tuple[Batches | None, Bad | None, int]:
    starts, ends = chain.starts, chain.ends
    places = np.asarray(starts)[:, None] + np.arange(HEADER_SIZE)
    headers = np.frombuffer(raw, np.uint8)[places].view(HEADER).ravel()
    right = [
        _crc32c(raw[start + _CHECKED_FROM : end]) == crc
        for start, end, crc in zip(starts, ends, headers["crc"].tolist(), strict=True)
    ]
    sound = len(right) if all(right) else right.index(False)
    reason, intact = "CRC mismatch", False
    base = headers["base_offset"].astype(np.int64)
    delta = headers["last_offset_delta"].astype(np.int64)
    count = headers["record_count"].astype(np.int64)
    after = base + delta + 1
    due = np.concatenate(([next_offset], after[:-1]))
    wrong = np.flatnonzero(((delta < 0) | (count < 0) | (count - 1 > delta) | (base < due) | (after <= base))[:sound])
    if wrong.size:
        sound, intact = int(wrong[0]), True
        reason = f"offset {base[sound]} where {due[sound]} is due, {count[sound]} records in {delta[sound] + 1} offsets"
    bad = Bad(position + starts[sound], reason, intact) if sound < len(starts) else None
    if not sound:
        return None, bad, next_offset
    return Batches(position, raw, starts[:sound], ends[:sound], headers[:sound]), bad, int(after[sound - 1])


def _messages(position: int, raw: bytes, chain: _Chain, next_offset: int) -> tuple[Messages | None, Bad | None, int]:
    records: list[Record] = []
    bad = None
    for start, end in zip(chain.starts, chain.ends, strict=True):
        try:
            read = decode_message_set(raw[start:end]).records
        except BatchError as error:
            bad = Bad(position + start, error.reason)
            break
        if read[0].offset < next_offset:
            bad = Bad(position + start, f"offset {read[0].offset} where {next_offset} is due", intact=True)
            break
        next_offset = read[-1].offset + 1
        records += read
    return (Messages(position, records) if records else None), bad, next_offset
