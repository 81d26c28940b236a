"""Signed varints as record batches have them: zigzag-coded, seven bits a byte, the lowest first."""

from __future__ import annotations

from typing import Final


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
