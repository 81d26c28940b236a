"""Numbers and strings at many places of one buffer at once: columns out of records, without an object for each.

Nothing here raises for what the bytes say. A place beyond the buffer is read as zeros, and whether a place was right is
for the caller to judge: he knows where a field has to end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]

_PADDING: Final = 16
"""Zeros behind the bytes: the longest varint, and the widest number, may begin at the last of them."""

_LONGEST_VARINT: Final = 10


class Strings(NamedTuple):
    """Where strings are: byte positions and sizes, -1 for null."""

    at: Ints
    size: Ints

    def chosen(self, rows: Ints | Bools) -> Strings:
        return Strings(self.at[rows], self.size[rows])


class Buffer:
    """Bytes to read columns of. ``size``: without the padding."""

    def __init__(self, parts: Sequence[bytes]) -> None:
        raw = b"".join((*parts, bytes(_PADDING)))
        self.raw: Final = raw
        self.size: Final = len(raw) - _PADDING
        self._bytes = np.frombuffer(raw, np.uint8)
        self._views = {kind: self._view(kind) for kind in (">i2", ">i4", ">i8")}

    def _view(self, kind: str) -> npt.NDArray[Any]:
        """A number that begins at each byte."""
        return np.ndarray((len(self.raw) - np.dtype(kind).itemsize + 1,), kind, self.raw, strides=(1,))

    def _inside(self, at: Ints) -> Ints:
        return np.clip(at, 0, self.size)

    def byte(self, at: Ints) -> Ints:
        return self._bytes[self._inside(at)].astype(np.int64)

    def int16(self, at: Ints) -> Ints:
        return self._number(">i2", at)

    def uint16(self, at: Ints) -> Ints:
        return self.int16(at) & 0xFFFF

    def int32(self, at: Ints) -> Ints:
        return self._number(">i4", at)

    def int64(self, at: Ints) -> Ints:
        return self._number(">i8", at)

    def _number(self, kind: str, at: Ints) -> Ints:
        return self._views[kind][self._inside(at)].astype(np.int64)

    def varint(self, at: Ints) -> tuple[Ints, Ints]:
        """Unsigned varints, and the positions after them. One beyond 64 bits comes out as some number or other."""
        byte = self.byte(at)
        value, after = byte & 0x7F, at + 1
        more = np.flatnonzero(byte >= 0x80)
        for shift in range(7, 7 * _LONGEST_VARINT, 7):
            if not more.size:
                break
            byte = self.byte(after[more])
            value[more] |= (byte & 0x7F) << shift
            after[more] += 1
            more = more[byte >= 0x80]
        return value, after

    def compact(self, at: Ints) -> tuple[Strings, Ints]:
        """Compact strings (KIP-482), and the positions after them."""
        size, start = self.varint(at)
        size -= 1
        return Strings(start, size), start + np.maximum(size, 0)

    def holds(self, strings: Strings, end: Ints) -> Bools:
        """Whether each ends at or before that position, which is in the buffer. Null does."""
        return (strings.size >= -1) & (strings.at >= 0) & (strings.size <= end - strings.at) & (end <= self.size)

    def text(self, strings: Strings) -> pa.StringArray | None:
        """The strings themselves; None when one of them is not UTF-8. All are held by the buffer."""
        null = strings.size < 0
        has_null = bool(null.any())
        size = np.where(null, 0, strings.size) if has_null else strings.size
        ends = np.zeros(len(size) + 1, np.int32)
        np.cumsum(size, out=ends[1:])
        mask = pa.py_buffer(np.packbits(~null, bitorder="little").tobytes()) if has_null else None
        content = self._gathered(strings.at, size, ends)
        array = pa.StringArray.from_buffers(
            len(size), pa.py_buffer(ends), pa.py_buffer(content), mask, int(null.sum()) if has_null else 0
        )
        try:
            array.validate(full=True)
        except pa.ArrowInvalid:
            return None
        return array

    def _gathered(self, at: Ints, size: Ints, ends: npt.NDArray[np.int32]) -> npt.NDArray[np.uint8]:
        if not len(size) or not ends[-1]:
            return np.zeros(0, np.uint8)
        width = int(size[0])
        if (size == width).all():
            places = at[:, None] + np.arange(width)
            return self._bytes.take(places).ravel()
        places = np.arange(int(ends[-1])) + np.repeat(at - ends[:-1], size)
        return self._bytes.take(places)


def zigzag_decoded(value: Ints) -> Ints:
    """Signed numbers out of unsigned varints."""
    return (value >> 1) ^ -(value & 1)
