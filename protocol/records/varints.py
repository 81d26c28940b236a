"""Signed varints as record batches have them: zigzag-coded, seven bits a byte, the lowest first."""

from __future__ import annotations

from functools import lru_cache
from typing import Final


@lru_cache(4096)  # lengths come again and again
def _zigzag(n: int) -> bytes:
    n = (n << 1) ^ (n >> 63)
    out = bytearray()
    while n >= 0x80:
        out.append((n & 0x7F) | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


SMALL: Final = 1024
ZIGZAG: Final = tuple(_zigzag(n) for n in range(SMALL))
"""The numbers below SMALL, for those who cannot afford a call."""


def zigzag(n: int) -> bytes:
    """The number, an int64, as a signed varint."""
    return ZIGZAG[n] if 0 <= n < SMALL else _zigzag(n)


ONE_BYTE_BELOW: Final = 1 << 6
"""Varints of numbers from 0 to here take one byte."""

TWO_BYTES_BELOW: Final = 1 << 13
"""And from there to here two."""

_ONE: Final = bytes(range(0, 2 * ONE_BYTE_BELOW, 2))
_LOW: Final = bytes(low | 0x80 for low in _ONE) * (TWO_BYTES_BELOW // ONE_BYTE_BELOW)
_HIGH: Final = b"".join(bytes((high,)) * ONE_BYTE_BELOW for high in range(TWO_BYTES_BELOW // ONE_BYTE_BELOW))
LANES: Final = {1: (_ONE,), 2: (_LOW, _HIGH)}
"""Varints a lane at a time, by their width in bytes: each lane has a byte of the number n at place n, for all of them
that take so many bytes."""
