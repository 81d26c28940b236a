"""The reference codec: it walks a table field by field, checks everything at once, and knows where it is.

It is slow on purpose. The compiled codec is tested against `decode` and `encode`, and asks what is wrong with bytes or
messages that it refused itself. For bytes it asks `check`, which it helps past what is sound: that one is no oracle.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias

from protocol.errors import DecodeError, EncodeError
from protocol.schema import ArrayOf, Field, Kind, StructOf, Table, smallest, table
from protocol.wire import MAX_STRING, MAX_UINT32, Blob, Fixed, Text

_MAX_INT32 = 2**31 - 1

SoundElements: TypeAlias = Callable[[Kind, Table, bytes, int, int], tuple[int, int]]
"""Of (kind, table, buf, pos, count): how many of the elements from `pos` on are sound, and the position after those."""


def decode(here: Table, buf: bytes, pos: int = 0) -> tuple[Any, int]:
    """The struct at `pos` and the position after it. Raises DecodeError."""
    reader = _Reader(buf, pos, None)
    return reader.struct(here, here.cls.__name__), reader.pos


def check(here: Table, buf: bytes, pos: int, sound_elements: SoundElements) -> int:
    """The position after the struct at `pos`. Raises DecodeError.

    Keeps nothing of what is in arrays, and has `sound_elements` go past those elements that are as they should be.
    """
    reader = _Reader(buf, pos, sound_elements)
    reader.struct(here, here.cls.__name__)
    return reader.pos


def encode(here: Table, msg: Any) -> bytes:
    """The struct's bytes. Raises EncodeError."""
    out = bytearray()
    _write_struct(out, here, msg, here.cls.__name__)
    return bytes(out)


class _Reader:
    def __init__(self, buf: bytes, pos: int, sound_elements: SoundElements | None) -> None:
        self.sound_elements = sound_elements
        self.buf = buf
        self.pos = pos

    def fail(self, reason: str, position: int, path: str) -> NoReturn:
        raise DecodeError(reason, position, path)

    def take(self, size: int, path: str) -> bytes:
        left = len(self.buf) - self.pos
        if size > left:
            self.fail(f"{size} bytes wanted, {max(left, 0)} left", self.pos, path)
        start = self.pos
        self.pos += size
        return self.buf[start : self.pos]

    def fixed(self, code: str, size: int, path: str) -> Any:
        return struct.unpack(f">{code}", self.take(size, path))[0]

    def varint(self, path: str) -> int:
        start = self.pos
        value = 0
        for shift in range(0, 35, 7):
            byte = self.take(1, path)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
        if byte >= 0x80 or value > MAX_UINT32:
            self.fail("a varint of more than 32 bits", start, path)
        return value

    def length(self, compact: bool, code: str, nullable: bool, path: str) -> int | None:
        """A length or count; None for null."""
        start = self.pos
        size = self.varint(path) - 1 if compact else int(self.fixed(code, struct.calcsize(code), path))
        if compact and size == -1 and self.pos > start + 1:
            self.fail("a null padded to several bytes", start, path)
        if size == -1 and nullable:
            return None
        if size < 0:
            self.fail("null is not allowed here" if size == -1 else f"length {size}", start, path)
        return size

    def value(self, kind: Kind, nullable: bool, compact: bool, here: Table, path: str) -> Any:
        start = self.pos
        match kind:
            case Fixed(code=code, size=size):
                return self.fixed(code, size, path)
            case Text(errors=errors):
                length = self.length(compact, "h", nullable, path)
                if length is None:
                    return None
                if length > MAX_STRING:
                    self.fail(f"a string of {length} bytes", start, path)
                try:
                    return self.take(length, path).decode("utf-8", errors)
                except UnicodeDecodeError as error:
                    self.fail(f"not UTF-8 ({error.reason})", self.pos - length + error.start, path)
            case Blob():
                length = self.length(compact, "i", nullable, path)
                return None if length is None else self.take(length, path)
            case ArrayOf(element=element):
                count = self.length(compact, "i", nullable, path)
                if count is None:
                    return None
                least = count * smallest(element, here.version, here.flexible)
                left = len(self.buf) - self.pos
                if least > left:
                    self.fail(f"{count} elements take {least} bytes at least, {left} left", start, path)
                sound = 0
                if self.sound_elements is not None:
                    sound, self.pos = self.sound_elements(element, here, self.buf, self.pos, count)
                return tuple(
                    self.value(element, False, here.flexible, here, f"{path}[{number}]")
                    for number in range(sound, count)
                )
            case StructOf(cls=cls):
                if nullable:
                    flag = self.fixed("b", 1, path)
                    if flag == -1:
                        return None
                    if flag != 1:
                        self.fail(f"{flag} is neither 1 (a struct) nor -1 (null)", start, path)
                return self.struct(table(cls, here.version, here.flexible), path)

    def struct(self, here: Table, path: str) -> Any:
        values = dict(here.absent)
        for field in here.present:
            values[field.name] = self.value(field.kind, field.nullable, field.compact, here, f"{path}.{field.name}")
        if here.unknown is not None:
            values[here.unknown] = ()
        if here.flexible:
            self.tags(here, values, path)
        return here.cls(**values)

    def tags(self, here: Table, values: dict[str, Any], path: str) -> None:
        values.update((field.name, field.default) for field in here.tagged.values())
        unknown = []
        start = self.pos
        count = self.varint(f"{path}.tagged")
        if count * 2 > len(self.buf) - self.pos:
            self.fail(f"{count} tagged fields, {len(self.buf) - self.pos} bytes left", start, f"{path}.tagged")
        last = -1
        for _ in range(count):
            start = self.pos
            number = self.varint(f"{path}.tagged")
            if number <= last:
                self.fail(f"tag {number} after tag {last}", start, f"{path}.tagged")
            last = number
            size = self.varint(f"{path}.tagged")
            stop = self.pos + size
            field = here.tagged.get(number)
            if stop > len(self.buf):
                self.take(size, f"{path}.tagged" if field is None else f"{path}.{field.name}")
            if field is None:
                value = self.take(size, f"{path}.tagged")
                if self.sound_elements is None:
                    unknown.append((number, value))
                continue
            where = f"{path}.{field.name}"
            values[field.name] = self.value(field.kind, field.nullable, field.compact, here, where)
            if self.pos != stop:
                self.fail(f"a tagged field of {size} bytes whose value ends {self.pos - stop:+d} off", self.pos, where)
        if here.unknown is not None:
            values[here.unknown] = tuple(unknown)


def _write_struct(out: bytearray, here: Table, msg: Any, path: str) -> None:
    if not isinstance(msg, tuple) or len(msg) != len(here.names):
        raise EncodeError(f"{type(msg).__name__} is not a {here.cls.__name__}", path)
    values = dict(zip(here.names, msg, strict=True))
    for name in here.names:
        if name in here.strict and _differs(values[name], here.absent[name]):
            raise EncodeError(f"version {here.version} cannot carry it", f"{path}.{name}")
    for field in here.present:
        _write_field(out, field, values[field.name], here, f"{path}.{field.name}")
    unknown = values[here.unknown] if here.unknown is not None else ()
    if not isinstance(unknown, tuple | list):
        raise EncodeError(f"{type(unknown).__name__} is not an array", f"{path}.{here.unknown}")
    if not here.flexible:
        if unknown:
            raise EncodeError(f"version {here.version} has no tagged fields", f"{path}.{here.unknown}")
        return
    raw = {}
    for number, field in here.tagged.items():
        if _differs(values[field.name], field.default):
            inner = bytearray()
            _write_field(inner, field, values[field.name], here, f"{path}.{field.name}")
            raw[number] = bytes(inner)
    for entry in unknown:
        where = f"{path}.{here.unknown}"
        if not isinstance(entry, tuple | list) or len(entry) != 2:
            raise EncodeError(f"{entry!r} is not a tag and its bytes", where)
        number, value = entry
        if number in here.tagged:
            raise EncodeError(f"tag {number} belongs to {here.tagged[number].name}", where)
        if number in raw:
            raise EncodeError(f"tag {number} twice", where)
        if not isinstance(number, int) or not 0 <= number <= MAX_UINT32:
            raise EncodeError(f"{number!r} is not a tag", where)
        raw[number] = _bytes(value, where)
    _write_varint(out, len(raw), path)
    for number, value in sorted(raw.items()):
        _write_varint(out, number, path)
        _write_varint(out, len(value), path)
        out += value


def _differs(value: Any, default: Any) -> bool:
    return bool(value != default) and not (default == () and value == [])


def _write_field(out: bytearray, field: Field, value: Any, here: Table, path: str) -> None:
    _write_value(out, field.kind, value, field.nullable, field.compact, here, path)


def _write_value(out: bytearray, kind: Kind, value: Any, nullable: bool, compact: bool, here: Table, path: str) -> None:
    if value is None and not nullable:
        raise EncodeError(f"version {here.version} does not allow null", path)
    match kind:
        case Fixed():
            _write_fixed(out, kind, value, path)
        case Text(errors=errors):
            if value is None:
                _write_length(out, None, compact, "h", path)
                return
            if not isinstance(value, str):
                raise EncodeError(f"{type(value).__name__} is not text", path)
            try:
                raw = value.encode("utf-8", errors)
            except UnicodeEncodeError as error:
                raise EncodeError(f"not Unicode text ({error.reason})", path) from None
            if len(raw) > MAX_STRING:
                raise EncodeError(f"a string of {len(raw)} bytes", path)
            _write_length(out, len(raw), compact, "h", path)
            out += raw
        case Blob():
            if value is None:
                _write_length(out, None, compact, "i", path)
                return
            raw = _bytes(value, path)
            _write_length(out, len(raw), compact, "i", path)
            out += raw
        case ArrayOf(element=element):
            if value is None:
                _write_length(out, None, compact, "i", path)
                return
            if not isinstance(value, tuple | list):
                raise EncodeError(f"{type(value).__name__} is not an array", path)
            _write_length(out, len(value), compact, "i", path)
            for number, item in enumerate(value):
                _write_value(out, element, item, False, here.flexible, here, f"{path}[{number}]")
        case StructOf(cls=cls):
            if nullable:
                out += b"\xff" if value is None else b"\x01"
            if value is not None:
                _write_struct(out, table(cls, here.version, here.flexible), value, path)


def _write_fixed(out: bytearray, kind: Fixed, value: Any, path: str) -> None:
    if kind.code == "16s":
        raw = _bytes(value, path)
        if len(raw) != kind.size:
            raise EncodeError(f"a uuid of {len(raw)} bytes", path)
        out += raw
        return
    if kind.code == "?" and not isinstance(value, bool):
        raise EncodeError(f"{value!r} is neither true nor false", path)
    try:
        out += struct.pack(f">{kind.code}", value)
    except (struct.error, OverflowError):
        raise EncodeError(f"{value!r} does not fit", path) from None


def _bytes(value: Any, path: str) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise EncodeError(f"{type(value).__name__} is not bytes", path)
    return bytes(value)


def _write_length(out: bytearray, length: int | None, compact: bool, code: str, path: str) -> None:
    size = -1 if length is None else length
    if size > _MAX_INT32:
        raise EncodeError(f"length {size}", path)
    if compact:
        _write_varint(out, size + 1, path)
    else:
        out += struct.pack(f">{code}", size)


def _write_varint(out: bytearray, value: int, path: str) -> None:
    if value > MAX_UINT32:
        raise EncodeError(f"{value} does not fit into a varint", path)
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
