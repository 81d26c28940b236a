"""What records in a row have in common, so that each is read, and written as a message, by one call.

Most records of a batch have the same fields in the same places: a key as long as that of the one before, numbers of as
many bytes. Such a record is unpacked up to its value at once; numbers of one and two bytes are looked up as they stand
there, in a table that has no others. What a shape does not fit is found by that, and read number by number
(:mod:`protocol.records.record_messages`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from struct import Struct
from typing import Any, Final, NamedTuple

from protocol.records.batch_layout import MAX_INT64

_NULL: Final = -1
_NULL_CODE: Final = 1
_WIDE: Final = 0x80
"""From here on, a byte that is not a number's last one."""
_CODES: Final = {1: "B", 2: "H"}
_OWN: Final = "q"
_KEPT: Final = 1024
"""Shapes: a key of each length below 64 with numbers of each width."""
_CRC_SIZE: Final = 4
_LARGEST: Final = 1 << 13
"""No number of two bytes is further from 0."""

BASE_TIMESTAMPS: Final = range(_LARGEST - MAX_INT64, MAX_INT64 - _LARGEST)
"""From there, no timestamp delta of two bytes leads beyond 64 bits."""


def _coded() -> dict[int, dict[int, int]]:
    """By how many bytes a varint is, the number that it is, by its bytes as an unsigned number, big-endian.

    A table for each: 0 of one byte, read together with a byte behind it, is no number of two.
    """
    wide = {(low | _WIDE) << 8 | high: low | high << 7 for low in range(_WIDE) for high in range(_WIDE)}
    return {
        width: {code: (n >> 1) ^ -(n & 1) for code, n in plain.items()}
        for width, plain in ((1, {code: code for code in range(_WIDE)}), (2, wide))
    }


NUMBERS: Final = _coded()
SIZES: Final = {width: {code: n for code, n in numbers.items() if n >= 0} for width, numbers in NUMBERS.items()}
_NOTHING: Final = {width: dict.fromkeys(numbers, b"") for width, numbers in NUMBERS.items()}
_OF_NULL: Final = {_NULL_CODE: _NULL}


class Times(NamedTuple):
    """Of the messages: what is to be packed is ``base`` and what a record's timestamp delta adds to it, as ``code`` of
    :mod:`struct`. Where they have none, or all the same, these are bytes, to which nothing is added."""

    code: str
    base: Any


def own_times(base_timestamp: int) -> Times:
    """Each its record's."""
    return Times(_OWN, base_timestamp)


def one_time(packed: bytes) -> Times:
    """``packed``: how it stands in a message; nothing in those that have none."""
    return Times(f"{len(packed)}s", packed)


class Shape(NamedTuple):
    """``unpack`` gives a record's length, timestamp delta, offset delta, key length, key, value length, these numbers
    as codes; ``size`` is how many bytes that takes, ``length_width`` how many the length does. The record is of this
    shape if ``key_code`` is its key length, and the tables have the others: ``lengths``, ``times`` (what they add to
    the base of the batch's), ``deltas`` and ``value_sizes``, -1 for null.

    ``pack`` makes what is before the value in its message, of magic, attributes, time, ``key_length``, key and the size
    of the value, which and ``around_value`` are the message's own size.
    """

    unpack: Callable[[bytes, int], tuple[Any, ...]]
    size: int
    length_width: int
    key_code: int
    lengths: Mapping[int, int]
    times: Mapping[int, Any]
    deltas: Mapping[int, int]
    value_sizes: Mapping[int, int]
    pack: Callable[..., bytes]
    key_length: int
    around_value: int


def shape_at(buf: bytes, pos: int, time_code: str) -> Shape | None:
    """What the record at ``pos`` may have for a shape; none if it is cut off, or its key is long."""
    try:
        length_width = 1 if buf[pos] < _WIDE else 2
        at = pos + length_width + 1  # its attributes: unused by every Kafka
        time_width = 1 if buf[at] < _WIDE else 2
        at += time_width
        offset_width = 1 if buf[at] < _WIDE else 2
        at += offset_width
        key_code = buf[at]
        key_width = 1
        if key_code >= _WIDE:
            key_code = key_code << 8 | buf[at + 1]
            key_width = 2
        at += key_width
        if key_code != _NULL_CODE:
            at += SIZES[key_width][key_code]
        value_code = buf[at]
    except (IndexError, KeyError):
        return None
    value_width = 0 if value_code == _NULL_CODE else 1 if value_code < _WIDE else 2
    return _shape(length_width, time_width, offset_width, key_code, value_width, time_code)


@lru_cache(_KEPT)
def _shape(
    length_width: int, time_width: int, offset_width: int, key_code: int, value_width: int, time_code: str
) -> Shape:
    """``value_width``: 0 is that of null."""
    key_width = 1 if key_code < _WIDE else 2
    widths = (length_width, time_width, offset_width, key_width, value_width or 1)
    length, time, offset, key, value = (_CODES[width] for width in widths)
    key_length = NUMBERS[key_width][key_code]
    key_size = max(0, key_length)
    record = Struct(f">{length}x{time}{offset}{key}{key_size}s{value}")
    message = Struct(f">BB{time_code}i{key_size}si")
    around_value = _CRC_SIZE + message.size
    return Shape(
        record.unpack_from,
        record.size,
        length_width,
        key_code,
        SIZES[length_width],
        (NUMBERS if time_code == _OWN else _NOTHING)[time_width],
        NUMBERS[offset_width],
        SIZES[value_width] if value_width else _OF_NULL,
        message.pack,
        key_length,
        around_value if value_width else around_value - _NULL,
    )
