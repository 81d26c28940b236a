"""What the mechanism carries beyond the messages there are, and how it refuses what it must."""

import gc
import struct
import sys
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol import reference
from protocol.codec import codec
from protocol.errors import DecodeError, EncodeError
from protocol.schema import ArrayOf, Kind, SchemaError, StructOf, smallest, table
from protocol.wire import (
    ZERO_UUID,
    Blob,
    Bool,
    Bytes,
    Fixed,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    NullableBytes,
    NullableString,
    String,
    TaggedFields,
    Text,
    UInt16,
    UInt32,
    Uuid,
    between,
    ignorable,
    nullable_since,
    only,
    since,
    tag,
    until,
)
from tests.examples import examples
from tests.protocol.strategies import messages


class Point(NamedTuple):
    x: Int32
    label: Annotated[NullableString, nullable_since(1)]
    tagged: TaggedFields = ()


class Everything(NamedTuple):
    flag: Bool
    tiny: Int8
    small: Int16
    middle: Int32
    large: Int64
    port: UInt16
    crc: UInt32
    ratio: Float64
    id: Uuid
    text: String
    nullable_text: NullableString
    raw: Bytes
    nullable_raw: NullableBytes
    numbers: tuple[Int64, ...]
    flags: tuple[Bool, ...]
    ids: tuple[Uuid, ...]
    texts: tuple[String, ...]
    blobs: tuple[Bytes, ...]
    points: tuple[Point, ...] | None
    point: Point
    nullable_point: Point | None
    late: Annotated[Int32, since(1)] = 7
    early: Annotated[String, until(0), ignorable] = ""
    window: Annotated[tuple[Int8, ...], between(1, 2)] = ()
    once: Annotated[Uuid, only(1)] = ZERO_UUID
    home: Annotated[Point | None, since(1), tag(0)] = None
    names: Annotated[tuple[String, ...], since(2), tag(1)] = ()
    epoch: Annotated[Int64, since(1), tag(4), ignorable] = -1
    tagged: TaggedFields = ()


VERSIONS = [(0, False), (1, True), (1, False), (2, True), (3, True)]


@pytest.mark.parametrize(("version", "flexible"), VERSIONS)
@settings(max_examples=examples(10), deadline=None, database=None, derandomize=True)
@given(data=st.data())
def test_everything_there_and_back(version: int, flexible: bool, data: st.DataObject) -> None:
    compiled = codec(Everything, version, flexible)
    msg = data.draw(messages(Everything, version, flexible))
    raw = compiled.encode(msg)
    assert raw == reference.encode(table(Everything, version, flexible), msg)
    assert compiled.decode(raw) == (msg, len(raw))
    assert reference.decode(table(Everything, version, flexible), raw) == (msg, len(raw))


class Line(NamedTuple):
    name: String
    tagged: TaggedFields = ()


class Pair(NamedTuple):
    numbers: tuple[Int32, ...]
    lines: Annotated[tuple[Line, ...] | None, nullable_since(1)] = ()
    raw: NullableBytes = None
    epoch: Annotated[Int32, since(1), tag(2)] = -1
    tagged: TaggedFields = ()


V1 = codec(Pair, 1, flexible=True)
V0 = codec(Pair, 0, flexible=False)


def test_bytes_as_they_should_be() -> None:
    msg = Pair((1, -1), (Line("a"), Line("")), b"xy", 5, ((1, b"one"), (9, b"")))
    assert V1.encode(msg) == (
        b"\x03\0\0\0\x01\xff\xff\xff\xff"  # two numbers
        b"\x03\x02a\0\x01\0"  # two lines
        b"\x03xy"
        b"\x03\x01\x03one\x02\x04\0\0\0\x05\x09\0"  # three tagged fields, ascending
    )
    assert V0.encode(Pair((1,), (Line("a"),))) == b"\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\x01a\xff\xff\xff\xff"
    assert V1.encode(Pair((), None)) == b"\x01\0\0\0"


@pytest.mark.parametrize(
    ("raw", "reason", "position", "path"),
    [
        (b"\xff\xff\xff\xff\x0f", "4294967294 elements take 17179869176 bytes at least, 0 left", 0, "Pair.numbers"),
        (b"\xff\xff\xff\xff\x10", "a varint of more than 32 bits", 0, "Pair.numbers"),
        (b"\xff\xff\xff\xff\xff\x01", "a varint of more than 32 bits", 0, "Pair.numbers"),
        (b"\x00", "null is not allowed here", 0, "Pair.numbers"),
        (b"\x80\x00", "a null padded to several bytes", 0, "Pair.numbers"),
        (b"\x01\x02\x00\0\0\0", "null is not allowed here", 2, "Pair.lines[0].name"),
        (b"\x01\x02\x03\xc3\x28\0\0\0", "not UTF-8 (invalid continuation byte)", 3, "Pair.lines[0].name"),
        (b"\x01\x02\x7fabc", "126 bytes wanted, 3 left", 3, "Pair.lines[0].name"),
        (b"\x01\x02\xff\xff\xff\x7f" + b"a" * 9, "a string of 268435454 bytes", 2, "Pair.lines[0].name"),
        (b"\x01\x01\xff\xff\xff\x7fa", "268435454 bytes wanted, 1 left", 6, "Pair.raw"),
        (b"\x01\x01\0\x7f\0\0", "127 tagged fields, 2 bytes left", 3, "Pair.tagged"),
        (b"\x01\x01\0\x02\x07\0\x07\0", "tag 7 after tag 7", 6, "Pair.tagged"),
        (b"\x01\x01\0\x02\x07\0\x05\0", "tag 5 after tag 7", 6, "Pair.tagged"),
        (b"\x01\x01\0\x01\x07\x05abc", "5 bytes wanted, 3 left", 6, "Pair.tagged"),
        (b"\x01\x01\0\x01\x02\x03\0\0\0\0", "a tagged field of 3 bytes whose value ends +1 off", 10, "Pair.epoch"),
        (b"\x01\x01\0\x01\x02\x06\0\0\0\0\0\0", "a tagged field of 6 bytes whose value ends -2 off", 10, "Pair.epoch"),
        (b"\x01\x01\0\x01\x02\x04\0\0\0", "4 bytes wanted, 3 left", 6, "Pair.epoch"),
    ],
)
def test_what_is_wrong_and_where(raw: bytes, reason: str, position: int, path: str) -> None:
    with pytest.raises(DecodeError) as refused:
        V1.decode(raw)
    assert (refused.value.reason, refused.value.position, refused.value.path) == (reason, position, path)
    assert str(refused.value) == f"{path}: {reason} at byte {position}"
    for buf in (bytearray(b"?????" + raw), memoryview(b"?????" + raw), b"?????" + raw):
        with pytest.raises(DecodeError) as shifted:
            V1.decode(buf, 5)
        assert shifted.value.position == position + 5


@pytest.mark.parametrize(
    ("raw", "reason", "path"),
    [
        (b"\xff\xff\xff\xff", "null is not allowed here", "Pair.numbers"),
        (b"\xff\xff\xff\xfe", "length -2", "Pair.numbers"),
        (b"\x80\0\0\0", "length -2147483648", "Pair.numbers"),
        (
            b"\x7f\xff\xff\xff" + bytes(64),
            "2147483647 elements take 8589934588 bytes at least, 64 left",
            "Pair.numbers",
        ),
        (b"\0\0\0\0\0\0\0\x02\0\0", "2 elements take 4 bytes at least, 2 left", "Pair.lines"),
        (b"\0\0\0\0\0\0\0\x01\xff\xfe", "length -2", "Pair.lines[0].name"),
        (b"\0\0\0\0\0\0\0\x00\xff\xff\xff\xfe", "length -2", "Pair.raw"),
    ],
)
def test_what_is_wrong_in_an_old_version(raw: bytes, reason: str, path: str) -> None:
    with pytest.raises(DecodeError) as refused:
        V0.decode(raw)
    assert (refused.value.reason, refused.value.path) == (reason, path)


@pytest.mark.parametrize("flexible", [False, True])
def test_the_longest_string(flexible: bool) -> None:
    compiled, here = codec(Line, 1, flexible), table(Line, 1, flexible)
    longest = compiled.encode(Line("a" * 32767))
    assert compiled.decode(longest) == reference.decode(here, longest) == (Line("a" * 32767), len(longest))
    if flexible:
        longer = b"\x81\x80\x02" + b"a" * 32768 + b"\0"
        for decode in (compiled.decode, partial(reference.decode, here)):
            with pytest.raises(DecodeError, match=r"Line\.name: a string of 32768 bytes at byte 0"):
                decode(longer)


@pytest.mark.parametrize(
    ("kind", "flexible", "size"),
    [
        (Fixed("q", 8), False, 8),
        (Text(), False, 2),
        (Text(), True, 1),
        (Blob(), False, 4),
        (Blob(), True, 1),
        (ArrayOf(Fixed("q", 8)), False, 4),
        (ArrayOf(Fixed("q", 8)), True, 1),
        (StructOf(Line), False, 2),
        (StructOf(Line), True, 2),
        (StructOf(Pair), False, 12),
        (StructOf(Pair), True, 4),
    ],
)
def test_how_few_bytes_a_value_takes(kind: Kind, flexible: bool, size: int) -> None:
    assert smallest(kind, 1, flexible) == size


def test_a_padded_varint_is_read_as_kafka_reads_it() -> None:
    assert V1.decode(b"\x81\x80\x00" + b"\x01\0\0") == (Pair(()), 6)


def test_huge_counts_cost_nothing() -> None:
    """Refused before anything is made for them; a count of 2**31 would show."""
    compiled = codec(Everything, 0, flexible=False)
    raw = bytearray(compiled.encode(Everything(*_plain())))
    for at in range(len(raw) - 3):
        broken = bytearray(raw)
        broken[at : at + 4] = struct.pack(">i", 2**31 - 1)
        try:
            msg, _ = compiled.decode(bytes(broken))
        except DecodeError:
            continue
        assert sys.getsizeof(msg) < 4096


def _plain() -> tuple[Any, ...]:
    return (
        *(True, 1, 2, 3, 4, 5, 6, 0.5, bytes(16), "t", None, b"r", None),
        *((1, 2), (True,), (bytes(16),), ("a", "b"), (b"c",)),
        *((Point(1, "p"),), Point(2, "q"), None),
    )


@pytest.mark.parametrize(
    ("changes", "path", "reason"),
    [
        ({"numbers": (1, 2**31)}, "Pair.numbers[1]", "2147483648 does not fit"),
        ({"numbers": (1, None)}, "Pair.numbers[1]", "version 1 does not allow null"),
        ({"numbers": None}, "Pair.numbers", "version 1 does not allow null"),
        ({"numbers": 3}, "Pair.numbers", "int is not an array"),
        ({"lines": (Line(None),)}, "Pair.lines[0].name", "version 1 does not allow null"),  # type: ignore[arg-type]
        ({"lines": (Line("a" * 32768),)}, "Pair.lines[0].name", "a string of 32768 bytes"),
        ({"lines": (Line("\ud800"),)}, "Pair.lines[0].name", "not Unicode text (surrogates not allowed)"),
        ({"lines": (Line(b"a"),)}, "Pair.lines[0].name", "bytes is not text"),  # type: ignore[arg-type]
        ({"lines": (Line(0),)}, "Pair.lines[0].name", "int is not text"),  # type: ignore[arg-type]
        ({"lines": ("a",)}, "Pair.lines[0]", "str is not a Line"),
        ({"lines": (["a", ()],)}, "Pair.lines[0]", "list is not a Line"),
        ({"lines": {Line("a")}}, "Pair.lines", "set is not an array"),
        ({"numbers": range(3)}, "Pair.numbers", "range is not an array"),
        ({"numbers": "text"}, "Pair.numbers", "str is not an array"),
        ({"raw": [1, 2]}, "Pair.raw", "list is not bytes"),
        ({"raw": "text"}, "Pair.raw", "str is not bytes"),
        ({"epoch": 2**31}, "Pair.epoch", "2147483648 does not fit"),
        ({"tagged": ((2, b""),)}, "Pair.tagged", "tag 2 belongs to epoch"),
        ({"tagged": ((3, b""), (3, b""))}, "Pair.tagged", "tag 3 twice"),
        ({"tagged": ((-1, b""),)}, "Pair.tagged", "-1 is not a tag"),
        ({"tagged": ((2**32, b""),)}, "Pair.tagged", "4294967296 is not a tag"),
        ({"tagged": (("a", b""),)}, "Pair.tagged", "'a' is not a tag"),
        ({"tagged": ((3, "text"),)}, "Pair.tagged", "str is not bytes"),
        ({"tagged": ((3,),)}, "Pair.tagged", "(3,) is not a tag and its bytes"),
        ({"tagged": (3,)}, "Pair.tagged", "3 is not a tag and its bytes"),
        ({"tagged": None}, "Pair.tagged", "NoneType is not an array"),
    ],
)
def test_what_cannot_be_encoded(changes: dict[str, Any], path: str, reason: str) -> None:
    with pytest.raises(EncodeError) as refused:
        V1.encode(Pair((1,))._replace(**changes), b"before")
    assert (refused.value.path, refused.value.reason) == (path, reason)


def test_what_an_old_version_cannot_carry() -> None:
    for msg, path in [
        (Pair((), None), "Pair.lines"),
        (Pair((), epoch=1), "Pair.epoch"),
        (Pair((), tagged=((7, b""),)), "Pair.tagged"),
        (Pair((), (Line("", ((7, b""),)),)), "Pair.lines[0].tagged"),
        (Pair((), (Line("a" * 32768),)), "Pair.lines[0].name"),
    ]:
        with pytest.raises(EncodeError) as refused:
            V0.encode(msg)
        assert refused.value.path == path


@pytest.mark.parametrize("flag", [None, "yes", 1])
def test_a_flag_is_true_or_false(flag: Any) -> None:
    compiled = codec(Everything, 0, flexible=False)
    for changes, path in [({"flag": flag}, "Everything.flag"), ({"flags": (True, flag)}, "Everything.flags[1]")]:
        with pytest.raises(EncodeError) as refused:
            compiled.encode(Everything(*_plain())._replace(**changes))
        assert refused.value.path == path


@pytest.mark.parametrize("flexible", [False, True])
def test_bytes_may_be_any_buffer(flexible: bool) -> None:
    compiled, here = codec(Everything, 1, flexible), table(Everything, 1, flexible)

    def msg(buffer: Any) -> Everything:
        tagged = ((9, buffer),) if flexible else ()
        return Everything(*_plain())._replace(id=buffer, raw=buffer, blobs=(buffer,), tagged=tagged)

    wide = memoryview(struct.pack("=4I", 1, 2, 3, 4)).cast("I")
    raw = compiled.encode(msg(bytes(wide)))
    for buffer in (wide, bytearray(wide)):
        assert compiled.encode(msg(buffer)) == raw
        assert reference.encode(here, msg(buffer)) == raw


def test_arrays_may_be_lists() -> None:
    msg = Pair([1, 2], [Line("a")], tagged=[])  # type: ignore[arg-type]
    assert V1.encode(msg) == V1.encode(Pair((1, 2), (Line("a"),)))
    # In version 0 there is no `window`, and an empty list is as good as its default.
    compiled = codec(Everything, 0, flexible=False)
    plain = Everything(*_plain())
    assert compiled.encode(plain._replace(window=[], tagged=[])) == compiled.encode(plain)  # type: ignore[arg-type]
    assert V1.encode(Pair((), tagged=[(9, b"x")])) == V1.encode(Pair((), tagged=((9, b"x"),)))  # type: ignore[arg-type]


def test_a_uuid_of_another_length_is_not_cut_or_padded() -> None:
    for size in (0, 15, 17):
        with pytest.raises(EncodeError, match=f"a uuid of {size} bytes"):
            codec(Everything, 0, flexible=False).encode(Everything(*_plain())._replace(id=bytes(size)))


def test_faulty_declarations() -> None:
    class NoDefault(NamedTuple):
        a: Annotated[Int32, since(1)]

    class NoTagged(NamedTuple):
        a: Int32

    class NoWireType(NamedTuple):
        a: int

    class SameTag(NamedTuple):
        a: Annotated[Int32, tag(0)] = 0
        b: Annotated[Int32, tag(0)] = 0
        tagged: TaggedFields = ()

    class NotNullable(NamedTuple):
        a: Annotated[Int32, nullable_since(1)]

    class TagWithoutDefault(NamedTuple):
        a: Annotated[Int32, tag(0)]
        tagged: TaggedFields = ()

    class NoWord(NamedTuple):
        a: Annotated[Int32, "since 1"]

    for cls, flexible in [
        (NoDefault, False),
        (NoTagged, True),
        (NoWireType, False),
        (SameTag, True),
        (NotNullable, False),
        (TagWithoutDefault, True),
        (NoWord, False),
    ]:
        with pytest.raises(SchemaError, match=cls.__name__):
            codec(cls, 0, flexible)


class Shelf(NamedTuple):
    lines: tuple[Line, ...]


class Library(NamedTuple):
    shelves: tuple[Shelf, ...]
    names: tuple[String, ...] = ()


def test_only_what_is_wrong_is_walked_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refusing what is large and wrong at its end takes about as long as accepting it, not many times as long."""
    library = codec(Library, 0, flexible=False)
    raw = library.encode(Library((Shelf((Line("a"),) * 1000),) * 100, ("n",) * 1000))
    walked = []
    slowly = reference._Reader.value

    def value(self: reference._Reader, *what: Any) -> Any:
        walked.append(what)
        return slowly(self, *what)

    monkeypatch.setattr(reference._Reader, "value", value)
    library.decode(raw)
    assert not walked
    for size, path in [
        (1, "Library.names[999]"),
        (len(("n",) * 1000) * 3 + 4 + 1, "Library.shelves[99].lines[999].name"),
    ]:
        broken = raw[:-size] + b"\xff" + raw[len(raw) - size + 1 :]
        walked.clear()
        with pytest.raises(DecodeError) as refused:
            library.decode(broken)
        assert refused.value.path == path
        assert 0 < len(walked) < 10
        with pytest.raises(DecodeError) as slow:
            reference.decode(table(Library, 0, False), broken)
        assert slow.value.args == refused.value.args


def test_what_was_refused_is_not_held_until_the_next_garbage_collection() -> None:
    gc.collect()
    gc.disable()
    try:
        for _ in range(10):
            with suppress(DecodeError):
                V1.decode(b"\x02")
            with suppress(EncodeError):
                V1.encode(Pair((), epoch=2**31))
        assert gc.collect() == 0
    finally:
        gc.enable()
