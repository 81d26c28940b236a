"""Messages and records written part by part, so that a test can damage one part and leave the rest as it was.

Written from the protocol guide's words alone, apart from both codecs: what the parts join to is compared with them.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from protocol.records.batches import Record
from protocol.schema import ArrayOf, Field, Kind, StructOf, Table, table
from protocol.wire import Blob, Fixed, Text
from tests.protocol.schemas import Case


class Part(NamedTuple):
    """Some bytes of a message and what they are.

    `role`: `fixed`, `flag` (of a nullable struct), `length` (of text or bytes), `count` (of an array), `text`, `bytes`,
    `tags` (how many tagged fields), `tag`, `size` (of a tagged field), `tagged` (the value of an undeclared one).
    `code` is the `struct` letter of a number, `varint` for a compact one. `strict`: text that has to be UTF-8.
    """

    role: str
    path: str
    raw: bytes
    code: str = ""
    value: int = 0
    nullable: bool = False
    strict: bool = True


def joined(parts: Sequence[Part], number: int = -1, raw: bytes = b"") -> bytes:
    """The bytes of the parts, with `raw` in the place of part `number`."""
    return b"".join(raw if at == number else part.raw for at, part in enumerate(parts))


def varint(value: int, groups: int = 1) -> bytes:
    """An unsigned varint, padded to so many bytes at least."""
    out = bytearray()
    while value > 0x7F or len(out) < groups - 1:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def zigzag(value: int) -> bytes:
    return varint(value << 1 if value >= 0 else (-value << 1) - 1)


# --- messages --------------------------------------------------------------------------------------------------------


def parts_of(case: Case, msg: Any, texts: Mapping[int, bytes] | None = None) -> list[Part]:
    """The message's parts. `texts` gives other bytes for its texts, by their number; lengths around them fit."""
    writer = _Writer(texts or {})
    writer.struct(table(*case), msg, case.cls.__name__)
    return writer.parts


class _Writer:
    def __init__(self, texts: Mapping[int, bytes]) -> None:
        self.parts: list[Part] = []
        self._texts = texts
        self._text_number = 0

    def struct(self, here: Table, msg: Any, path: str) -> None:
        values = dict(zip(here.names, msg, strict=True))
        for field in here.present:
            self.field(field, values[field.name], here, f"{path}.{field.name}")
        if not here.flexible:
            return
        tagged: dict[int, list[Part]] = {}
        around = self.parts
        for number, field in here.tagged.items():
            if values[field.name] != field.default:
                self.parts = tagged[number] = []
                self.field(field, values[field.name], here, f"{path}.{field.name}")
        self.parts = around
        names = {number: f"{path}.{field.name}" for number, field in here.tagged.items()}
        for number, raw in values[here.unknown]:  # type: ignore[index]  # a flexible table has one
            tagged[number] = [Part("tagged", f"{path}.tagged", raw)]
        self.number("tags", f"{path}.tagged", "varint", len(tagged))
        for number, parts in sorted(tagged.items()):
            where = names.get(number, f"{path}.tagged")
            self.number("tag", f"{path}.tagged", "varint", number)
            self.number("size", where, "varint", sum(len(part.raw) for part in parts))
            self.parts += parts

    def field(self, field: Field, value: Any, here: Table, path: str) -> None:
        self.value(field.kind, value, here, path, field.nullable, field.compact)

    def value(self, kind: Kind, value: Any, here: Table, path: str, nullable: bool, compact: bool) -> None:
        match kind:
            case Fixed(code=code):
                self.parts.append(Part("fixed", path, struct.pack(f">{code}", value), code))
            case Text(errors=errors):
                raw = None if value is None else value.encode("utf-8", errors)
                if raw is not None:
                    raw = self._texts.get(self._text_number, raw)
                    self._text_number += 1
                self.sized("text", raw, path, nullable, "varint" if compact else "h", errors == "strict")
            case Blob():
                self.sized("bytes", value, path, nullable, "varint" if compact else "i", True)
            case ArrayOf(element=element):
                self.length("count", value, path, nullable, "varint" if compact else "i")
                for number, item in enumerate(value or ()):
                    self.value(element, item, here, f"{path}[{number}]", False, here.flexible)
            case StructOf(cls=cls):
                if nullable:
                    self.number("flag", path, "b", -1 if value is None else 1, nullable)
                if value is not None:
                    self.struct(table(cls, here.version, here.flexible), value, path)

    def sized(self, role: str, raw: bytes | None, path: str, nullable: bool, code: str, strict: bool) -> None:
        self.length("length", raw, path, nullable, code)
        if raw:
            self.parts.append(Part(role, path, raw, strict=strict))

    def length(self, role: str, value: Any, path: str, nullable: bool, code: str) -> None:
        size = -1 if value is None else len(value)
        self.number(role, path, code, size + 1 if code == "varint" else size, nullable)

    def number(self, role: str, path: str, code: str, value: int, nullable: bool = False) -> None:
        raw = varint(value) if code == "varint" else struct.pack(f">{code}", value)
        self.parts.append(Part(role, path, raw, code, value, nullable))


# --- records ---------------------------------------------------------------------------------------------------------


def parts_of_records(records: Sequence[Record]) -> list[Part]:
    """The parts of what stands after a batch's header, offsets and timestamps relative to the first record's."""
    parts: list[Part] = []
    first = records[0]
    for number, record in enumerate(records):
        path = f"records[{number}]"
        body = [
            Part("fixed", f"{path}.attributes", b"\0", "b"),
            _zigzag("fixed", f"{path}.timestamp_delta", record.timestamp - first.timestamp),
            _zigzag("fixed", f"{path}.offset_delta", record.offset - first.offset),
            *_sized(f"{path}.key", record.key),
            *_sized(f"{path}.value", record.value),
            _zigzag("count", f"{path}.headers", len(record.headers)),
        ]
        for at, (name, content) in enumerate(record.headers):
            body += _sized(f"{path}.headers[{at}].key", name.encode(), "text")
            body += _sized(f"{path}.headers[{at}].value", content)
        parts.append(_zigzag("length", path, sum(len(part.raw) for part in body)))
        parts += body
    return parts


def _zigzag(role: str, path: str, value: int) -> Part:
    return Part(role, path, zigzag(value), "zigzag", value)


def _sized(path: str, raw: bytes | None, role: str = "bytes") -> list[Part]:
    length = _zigzag("length", path, -1 if raw is None else len(raw))
    return [length, Part(role, path, raw)] if raw else [length]
