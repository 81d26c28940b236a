"""The memory that sockets are read into: one piece for all of them, as long as nobody keeps any of it."""

from __future__ import annotations

import sys
from typing import Final

READ_BYTES: Final = 1 << 20
"""What one read of a connection brings at most. With a quarter of it a GB costs half as much processor time again, as
every read and every write wakes somebody up (docs/performance.md)."""

COPIED_BELOW: Final = 1 << 16
"""What is smaller is copied: that costs less than a whole piece that is kept for it."""

# Only here does an object that is no longer named let go of the memory at once.
_SHARED: Final = sys.implementation.name == "cpython"


class ReadBuffer:
    """What was read goes on as views of one piece of memory, without a copy.

    A transport may keep them until the other side takes more. So before the next read the piece is asked whether it has
    views: if so, it is theirs alone, and the read gets a new one.
    """

    def __init__(self) -> None:
        self._piece = _new_piece()
        self._lent = False

    def room(self, most: int = READ_BYTES) -> memoryview:
        """Where the next read may write; so many bytes at most."""
        if self._lent:
            self._lent = False
            if not _is_free(self._piece):
                self._piece = _new_piece()
        return memoryview(self._piece)[:most]

    def taken(self, count: int) -> bytes | memoryview:
        """What the read that came after :meth:`room` brought."""
        if _SHARED and count >= COPIED_BELOW:
            self._lent = True
            return memoryview(self._piece)[:count]
        return bytes(memoryview(self._piece)[:count])


def worth_keeping(data: bytes | memoryview) -> bytes | memoryview:
    """``data`` as a transport may keep it.

    No small part of a piece has all of it kept: a transport takes 64 KiB before it says that it is full, and those may
    have come in a thousand reads.
    """
    return data if len(data) >= COPIED_BELOW else bytes(data)


def _new_piece() -> bytearray:
    """With room for one byte more than it has: see :func:`_is_free`."""
    piece = bytearray(READ_BYTES + 1)
    piece.pop()
    return piece


def _is_free(piece: bytearray) -> bool:
    """An array refuses to be resized while there are views of it."""
    try:
        piece.append(0)
    except BufferError:
        return False
    piece.pop()
    return True


READ_BUFFER: Final = ReadBuffer()
"""Of this process: one thread reads."""
