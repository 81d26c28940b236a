"""What generated codecs call in the rare cases: for a long number, tagged fields, a value of not quite the right type.

Nothing here says what is wrong; `Malformed` is what makes `protocol.codec` ask the reference codec.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from protocol.wire import MAX_STRING, MAX_UINT32


class Malformed(ValueError):
    """Raised and caught by generated code only; what the caller sees is DecodeError or EncodeError."""


# A message makes other exceptions only by a mistake in this package, which should show itself as what it is.
DECODE_FAILURES = (IndexError, struct.error, ValueError)  # UnicodeDecodeError is a ValueError
ENCODE_FAILURES = (AttributeError, OverflowError, TypeError, ValueError, struct.error)


def long_varint(buf: bytes, pos: int, low: int) -> tuple[int, int]:
    """The rest of an unsigned varint whose first byte is `low`, above 127: the value and the position after it."""
    value = low & 0x7F
    for shift in (7, 14, 21, 28):
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > MAX_UINT32:
                break
            return value, pos
    raise Malformed


def long_length(buf: bytes, pos: int, low: int) -> tuple[int, int]:
    """Likewise for a length or count + 1, for which a null that is padded to several bytes is refused."""
    n, pos = long_varint(buf, pos, low)
    if n == 0:
        raise Malformed
    return n, pos


def long_text(buf: bytes, pos: int, low: int) -> tuple[int, int]:
    """Likewise for the length + 1 of a string."""
    n, pos = long_length(buf, pos, low)
    if n > MAX_STRING + 1:
        raise Malformed
    return n, pos


def varint(value: int) -> bytes:
    out = bytearray()
    if not 0 <= value <= MAX_UINT32:
        raise Malformed
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def unknown_tags(buf: bytes, pos: int, count: int) -> tuple[tuple[tuple[int, bytes], ...], int]:
    """A section of tagged fields none of which is declared."""
    count, pos = tag_count(buf, pos, count)
    found = []
    last = -1
    for _ in range(count):
        last, pos, stop = tag_head(buf, pos, last)
        found.append((last, buf[pos:stop]))
        pos = stop
    return tuple(found), pos


def skim_tags(buf: bytes, pos: int, count: int) -> tuple[tuple[()], int]:
    """Likewise, kept nowhere."""
    count, pos = tag_count(buf, pos, count)
    last = -1
    for _ in range(count):
        last, _, pos = tag_head(buf, pos, last)
    return (), pos


def tag_count(buf: bytes, pos: int, count: int) -> tuple[int, int]:
    """How many tagged fields there are; `count` is the first byte of that, before `pos`."""
    if count > 127:
        count, pos = long_varint(buf, pos, count)
    if count * 2 > len(buf) - pos:
        raise Malformed
    return count, pos


def tag_head(buf: bytes, pos: int, last: int) -> tuple[int, int, int]:
    """The head of one tagged field: its tag, and where its value starts and stops. Tags must ascend (KIP-482)."""
    number = buf[pos]
    pos += 1
    if number > 127:
        number, pos = long_varint(buf, pos, number)
    size = buf[pos]
    pos += 1
    if size > 127:
        size, pos = long_varint(buf, pos, size)
    stop = pos + size
    if number <= last or stop > len(buf):
        raise Malformed
    return number, pos, stop


def write_tags(out: bytearray, known: dict[int, bytes], unknown: Sequence[tuple[int, bytes]]) -> None:
    """The section of tagged fields; `known` are those that differ from their defaults."""
    array(unknown)
    fields = [*known.items(), *((number, raw(value)) for number, value in unknown)]
    fields.sort(key=lambda field: field[0])
    out += varint(len(fields))
    last = -1
    for number, value in fields:
        if number <= last:
            raise Malformed
        last = number
        out += varint(number)
        out += varint(len(value))
        out += value


def undeclared(unknown: Sequence[tuple[int, bytes]], declared: frozenset[int]) -> None:
    """Raises if a tag among the unknown ones is a declared one."""
    for number, _ in unknown:
        if number in declared:
            raise Malformed


def raw(value: Any) -> bytes:
    """What may stand in for bytes, as bytes."""
    if not isinstance(value, bytes | bytearray | memoryview):
        raise Malformed
    return bytes(value)


def array(value: Any) -> None:
    """Raises for what is no array, though it might be gone through like one: text, a set."""
    if not isinstance(value, tuple | list):
        raise Malformed


def struct_(value: Any) -> None:
    """Likewise for what is no struct."""
    if not isinstance(value, tuple):
        raise Malformed


def untagged(unknown: Any) -> None:
    """Raises if there are tagged fields, in a version that has none."""
    array(unknown)
    if unknown:
        raise Malformed


def array_struct(code: str) -> Callable[[int], struct.Struct]:
    """Gives the Struct for arrays of n numbers; short ones are kept."""
    kept = [struct.Struct(f">{n}{code}") for n in range(33)]

    def of(n: int) -> struct.Struct:
        return kept[n] if n < 33 else struct.Struct(f">{n}{code}")

    return of


NAMES: Final[dict[str, Any]] = {
    "DECODE_FAILURES": DECODE_FAILURES,
    "EMPTY": (),
    "ENCODE_FAILURES": ENCODE_FAILURES,
    "Malformed": Malformed,
    "array": array,
    "long_length": long_length,
    "long_text": long_text,
    "long_varint": long_varint,
    "new": tuple.__new__,
    "raw": raw,
    "skim_tags": skim_tags,
    "struct": struct_,
    "tag_count": tag_count,
    "tag_head": tag_head,
    "undeclared": undeclared,
    "unknown_tags": unknown_tags,
    "untagged": untagged,
    "varint": varint,
    "write_tags": write_tags,
}
"""What generated code calls these."""
