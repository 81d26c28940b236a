"""Behind damage: whether it was a torn write, and where one can read on."""

from __future__ import annotations

import os
from typing import Final

import numpy as np

from pipeline.history.scanning import HEADER
from protocol.records.batches import (
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    MAGIC_POSITION,
    BatchError,
    check_crc,
    read_header,
)
from protocol.records.message_layout import PREFIX_SIZE
from protocol.records.message_sets import read_messages

_WINDOW: Final = 1 << 20
_UNKNOWN_ATTRIBUTES: Final = ~0x7F
_SHORTEST_MESSAGE: Final = 14


def next_sound(fd: int, size: int, position: int) -> int | None:
    """Where the first batch or message begins, from that byte on, that has a right CRC; None where there is none.

    Every byte is tried, as a damaged length says nothing about where the next one starts. Raises OSError.
    """
    while size - position >= PREFIX_SIZE + _SHORTEST_MESSAGE:
        window = os.pread(fd, min(_WINDOW + HEADER_SIZE, size - position), position)
        if len(window) < PREFIX_SIZE + _SHORTEST_MESSAGE:
            return None
        for at in _candidates(window, size - position):
            if _is_sound(fd, position + at, window[at : at + HEADER_SIZE]):
                return position + at
        position += _WINDOW
    return None


def _candidates(window: bytes, left: int) -> list[int]:
    """Where the fields of a header could stand, rising; the window is followed by zeros for what it lacks."""
    bytes_ = np.frombuffer(window + bytes(HEADER_SIZE), np.uint8)
    at = np.arange(min(len(window), _WINDOW))
    offset = np.ndarray((len(at),), ">i8", bytes_.tobytes(), strides=(1,))
    length = np.ndarray((len(at),), ">i4", bytes_.tobytes(), 8, strides=(1,)).astype(np.int64)
    magic = bytes_[at + MAGIC_POSITION]
    fits = (offset >= 0) & (length + LENGTH_OVERHEAD <= left - at) & (magic <= MAGIC)
    fits &= length >= np.where(magic == MAGIC, HEADER_SIZE - LENGTH_OVERHEAD, _SHORTEST_MESSAGE)
    places = at[fits]
    headers = bytes_[places[:, None] + np.arange(HEADER_SIZE)].view(HEADER).ravel()
    delta, count = headers["last_offset_delta"].astype(np.int64), headers["record_count"].astype(np.int64)
    known = (headers["attributes"] & _UNKNOWN_ATTRIBUTES) == 0
    is_batch = known & (delta >= 0) & (count >= 0) & (count - 1 <= delta)
    found: list[int] = places[(headers["magic"] != MAGIC) | is_batch].tolist()
    return found


def _is_sound(fd: int, position: int, head: bytes) -> bool:
    whole = LENGTH_OVERHEAD + int.from_bytes(head[8:12], "big")
    raw = os.pread(fd, whole, position)
    try:
        if raw[MAGIC_POSITION] == MAGIC:
            check_crc(raw, 0, read_header(raw))
            return True
        return len(read_messages(raw).messages) == 1
    except BatchError:
        return False
