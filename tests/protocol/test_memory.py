"""What is refused takes no more memory than twice the frame and a constant, however it was made up.

Frames are as bad as they can be: valid to almost the end, of the tiniest elements there are, so that decoding them
would make the most objects out of the fewest bytes. For what is compressed, the size allowed once decompressed comes on
top. Measured is what Python allocates; what the codecs' own libraries take is in `tests.protocol.bomb`.
"""

from __future__ import annotations

import random
import struct
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import pytest

from protocol import reference
from protocol.codec import SKIM_ABOVE, codec
from protocol.errors import DecodeError
from protocol.frames import BadFrame, FrameParser
from protocol.records import batch_reading, message_sets
from protocol.records import batches as batches_module
from protocol.records.batch_errors import BatchError
from protocol.records.batches import (
    MIN_OBJECT_SIZE,
    Record,
    batches,
    decode_records,
    encode_batch,
    encode_records,
)
from protocol.records.compression import Compression, compress
from protocol.records.message_sets import decode_message_set, encode_message_set, read_messages
from protocol.schema import ArrayOf, Field, Kind, StructOf, Table, smallest, table
from protocol.wire import Blob, Fixed, Text
from tests.protocol import fuzz
from tests.protocol.parts import joined, parts_of
from tests.protocol.schemas import CASES, DECODERS, Case, distinct, each_version
from tests.protocol.strategies import sample
from tests.protocol.test_hostile import ANOTHER_ELEMENT, Share, every, some, surely_refused

MIB = 1 << 20
SLACK = 2 * MIB
# Of messages there are hundreds to try: smaller ones, still large enough to be skimmed, and a smaller constant.
FRAME = SKIM_ABOVE * 5 // 4
SMALL_SLACK = 64 << 10


def peak_of_refusing(decode: Callable[[], Any], *expected: type[Exception]) -> int:
    """Bytes that were allocated at once while `decode` ran, and raised one of these."""
    tracemalloc.start()
    try:
        with pytest.raises(expected):
            decode()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# --- messages --------------------------------------------------------------------------------------------------------


class Route(NamedTuple):
    """The way from a message to one of its arrays, by field names, and how many bytes an element takes at least."""

    names: tuple[str, ...]
    size: int


def routes(here: Table, before: tuple[str, ...] = ()) -> Iterator[Route]:
    """The ways to all arrays."""
    for field in [*here.present, *here.tagged.values()]:
        names = (*before, field.name)
        kind = field.kind
        if isinstance(kind, ArrayOf):
            yield Route(names, smallest(kind.element, here.version, here.flexible))
            kind = kind.element
        if isinstance(kind, StructOf):
            yield from routes(table(kind.cls, here.version, here.flexible), names)


def minimal(here: Table, route: tuple[str, ...] = (), count: int = 0) -> Any:
    """The smallest message, but for the array at the end of the route: `count` of its smallest elements."""
    values = dict(here.absent)
    if here.unknown is not None:
        values[here.unknown] = ()
    for field in here.tagged.values():
        values[field.name] = field.default
    for field in here.present:
        values[field.name] = _least(field.kind, here)
    if route:
        values[route[0]] = _on_the_way(_field(here, route[0]).kind, here, route[1:], count)
    return here.cls(**values)


def _field(here: Table, name: str) -> Field:
    return next(field for field in (*here.present, *here.tagged.values()) if field.name == name)


def _on_the_way(kind: Kind, here: Table, route: tuple[str, ...], count: int) -> Any:
    if isinstance(kind, ArrayOf):
        if not route:
            return (_least(kind.element, here),) * count
        return (_on_the_way(kind.element, here, route, count),)
    assert isinstance(kind, StructOf)
    return minimal(table(kind.cls, here.version, here.flexible), route, count)


def _least(kind: Kind, here: Table) -> Any:
    match kind:
        case Fixed(code="16s"):
            return bytes(16)
        case Fixed(code=code):
            # What is no small number is an object when it is decoded.
            return {"?": True, "d": 0.5, "b": 127}.get(code, 12_345)
        case Text():
            return ""
        case Blob():
            return b""
        case ArrayOf():
            return ()
        case StructOf(cls=cls):
            return minimal(table(cls, here.version, here.flexible))


Damage = Callable[[bytes], bytes]


def damages() -> Iterator[Damage]:
    """Ways to break a message in its last bytes, or to cut them off."""
    for size in range(1, 41):
        yield lambda raw, size=size: raw[:-size]  # type: ignore[misc]
        yield lambda raw, size=size: raw[:-size] + b"\xff" * size  # type: ignore[misc]
        yield lambda raw, size=size: raw[:-size] + b"\xff" + raw[len(raw) - size + 1 :]  # type: ignore[misc]


def latest(case: Case, raw: bytes) -> Damage:
    """The damage that is found last."""
    found: list[tuple[int, int]] = []
    ways = list(damages())
    for number, damage in enumerate(ways):
        try:
            codec(*case).decode(damage(raw))
        except DecodeError as error:
            found.append((error.position, -number))
    return ways[-max(found)[1]]


def excess_of_refusing(case: Case, make: Callable[[int], Any], count: int) -> float:
    """What refusing a large message takes beyond the constant, as a share of the frame's size."""
    encode, decode = codec(*case).encode, codec(*case).decode
    damage = latest(case, encode(make(8)))
    whole = encode(make(count))
    assert len(whole) > 1.1 * SKIM_ABOVE
    decode(whole)  # so that all functions are compiled
    raw = damage(whole)
    return (peak_of_refusing(lambda: decode(raw), DecodeError) - SMALL_SLACK) / len(raw)


@pytest.fixture
def unexplained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refusals are not explained: the reference codec's walk, the same code for all, takes long where memory is traced.

    Those tests have it that say so.
    """

    def check(here: Table, buf: bytes, pos: int, sound_elements: reference.SoundElements) -> int:
        raise DecodeError("refused", pos, here.cls.__name__)

    monkeypatch.setattr(reference, "check", check)


def smallest_route(case: Case) -> Route | None:
    return min(routes(table(*case)), key=lambda route: route.size, default=None)


WITH_ARRAYS = [case for case in CASES if smallest_route(case)]


def _of_each_kind() -> list[Case]:
    """Cases whose smallest elements differ in size, in encoding or in how deep they lie."""
    found = {}
    for case in WITH_ARRAYS:
        route = smallest_route(case)
        assert route is not None
        found[case.flexible, route.size, len(route.names)] = case
    return list(found.values())


OF_EACH_KIND = _of_each_kind()
"""`test_every_array_in_larger_frames` has them all."""


@pytest.mark.usefixtures("unexplained")
@pytest.mark.parametrize("case", OF_EACH_KIND, ids=str)
def test_arrays_of_tiny_elements(case: Case) -> None:
    route = smallest_route(case)
    assert route is not None
    assert excess_of_refusing(case, partial(minimal, table(*case), route.names), FRAME // route.size) <= 2


@pytest.mark.soak
@pytest.mark.usefixtures("unexplained")
@pytest.mark.parametrize("shard", range(10))
def test_every_array_in_larger_frames(shard: int) -> None:
    for case in WITH_ARRAYS[shard::10]:
        for route in routes(table(*case)):
            make = partial(minimal, table(*case), route.names)
            assert excess_of_refusing(case, make, 16 * FRAME // route.size) <= 2, (case, route)


@pytest.mark.parametrize(
    "case",
    [case if not at % 8 else pytest.param(case, marks=pytest.mark.soak) for at, case in enumerate(OF_EACH_KIND)],
    ids=str,
)
def test_explaining_takes_no_memory(case: Case) -> None:
    """The same code explains all, by their tables."""
    route = smallest_route(case)
    assert route is not None
    assert excess_of_refusing(case, partial(minimal, table(*case), route.names), FRAME // route.size) <= 2


FLEXIBLE = [case for case in CASES if case.flexible]
# One decoder for tagged fields none of which is declared, and one for each struct that declares some.
WITH_TAGS = distinct([case for case in FLEXIBLE if table(*case).tagged]) + FLEXIBLE[:1]


def excess_of_refusing_tags(case: Case) -> float:
    """Of those that nobody declared."""
    least = minimal(table(*case))

    def make(count: int) -> Any:
        return least._replace(tagged=tuple((number, b"") for number in range(1_000, 1_000 + count)))

    return excess_of_refusing(case, make, FRAME // 3)


@pytest.mark.usefixtures("unexplained")
@pytest.mark.parametrize("case", WITH_TAGS, ids=str)
def test_tagged_fields_that_nobody_declared(case: Case) -> None:
    assert excess_of_refusing_tags(case) <= 2


@pytest.mark.parametrize("case", [FLEXIBLE[0], WITH_TAGS[0]], ids=str)
def test_explaining_tagged_fields_takes_no_memory(case: Case) -> None:
    assert excess_of_refusing_tags(case) <= 2


def put_gigabytes(case: Case, share: Share[int]) -> None:
    """In the place of counts and lengths. What is in the first elements of arrays is tried whole."""
    parts = parts_of(case, sample(random.Random(str(case)), *case))
    announcing = [number for number, part in enumerate(parts) if part.role in ("count", "length", "tags", "size")]
    others = [number for number in announcing if ANOTHER_ELEMENT.search(parts[number].path)]
    decode = codec(*case).decode
    numbers = (*sorted({*announcing} - {*others}), *share(f"{case} gigabytes", others))
    raws = [joined(parts, number, surely_refused(parts[number])[-1]) + bytes(10_000) for number in numbers]
    for raw in raws:
        with suppress(DecodeError):
            decode(raw)  # so that all functions are compiled: not traced, which takes three times as long
    tracemalloc.start()
    try:
        for raw in raws:
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            with pytest.raises(DecodeError):
                decode(raw)
            assert tracemalloc.get_traced_memory()[1] - before < 2 * len(raw) + 100_000
    finally:
        tracemalloc.stop()


@each_version(DECODERS)
def test_counts_and_lengths_of_gigabytes_in_small_frames(case: Case) -> None:
    put_gigabytes(case, some)


@pytest.mark.soak
def test_every_count_and_length_of_gigabytes() -> None:
    for case in DECODERS:
        put_gigabytes(case, every)


# --- record batches --------------------------------------------------------------------------------------------------

NOW = 1_767_225_600_000


class Scale(NamedTuple):
    counts: tuple[int, int]
    """Made before anything is skimmed, all but one of them; and skimmed, many of them before they would be made."""
    slack: int


@pytest.fixture(params=[pytest.param(1, marks=pytest.mark.soak), 8], ids="one in {}".format)
def scale(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Scale:
    """Fewer things are made before any is skimmed, and the constant is as much smaller: to trace them takes long."""
    skim_above = batches_module.SKIM_ABOVE // request.param
    for reading in (batch_reading, message_sets):
        monkeypatch.setattr(reading, "SKIM_ABOVE", skim_above)
    return Scale((skim_above - 1, 2 * skim_above), SLACK // request.param)


def _tiny_records(count: int) -> bytes:
    return encode_batch(0, [(None, None)] * count, 0)


def _records(count: int) -> bytes:
    """Everything in them is an object of its own."""
    return encode_records([Record(b"kk", b"vv", (), NOW + n, 1000 + n) for n in range(count)])


def _tiny_headers(count: int) -> bytes:
    return encode_records([Record(None, None, (("", None),) * (count - 1), 0, 0)])


def _headers(count: int) -> bytes:
    """A record has one header."""
    records = [Record(None, None, (("hh", b"vv"),), NOW + n, 1000 + n) for n in range(count // 2)]
    return encode_records([*records, Record(None, None, (), NOW, 1_000_000)])


def _last_byte(raw: bytes) -> bytes:
    return raw[:-1] + b"\x7f"


def _one_more(raw: bytes) -> bytes:
    return raw + b"\0"


def _one_less(raw: bytes) -> bytes:
    return raw[:-1]


BATCHES = [_tiny_records, _records, _tiny_headers, _headers]
BATCH_DAMAGES = {"a number at the end": _last_byte, "a byte too many": _one_more, "a byte too few": _one_less}


def _fits(raw: bytes) -> bytes:
    return fuzz.fitting_batch(fuzz.Careful(0), bytearray(raw))


@pytest.mark.parametrize("damage", BATCH_DAMAGES)
@pytest.mark.parametrize("make", BATCHES)
def test_batches_of_tiny_things(make: Callable[[int], bytes], damage: str, scale: Scale) -> None:
    for count in scale.counts:
        raw = _fits(BATCH_DAMAGES[damage](make(count)))
        peak = peak_of_refusing(lambda raw=raw: decode_records(raw), BatchError)  # type: ignore[misc]
        assert peak <= 2 * len(raw) + scale.slack


@pytest.mark.parametrize("make", BATCHES)
@pytest.mark.parametrize("codec_number", [codec_number for codec_number in Compression if codec_number])
def test_compressed_batches_of_tiny_things(
    codec_number: Compression, make: Callable[[int], bytes], scale: Scale
) -> None:
    for count in scale.counts:
        raw = fuzz.compressed_batch(codec_number, fuzz.Careful(0), bytearray(_last_byte(make(count))))
        # Just so much that the limit does not refuse it first, and so little that it does.
        for max_size in (count * MIN_OBJECT_SIZE, count * MIN_OBJECT_SIZE // 2):
            peak = peak_of_refusing(lambda raw=raw, size=max_size: decode_records(raw, 0, size), BatchError)  # type: ignore[misc]
            assert peak <= max_size + 2 * len(raw) + scale.slack


def test_many_batches_in_a_row() -> None:
    good = encode_batch(0, [(None, None)], 0)
    raw = good * (MIB // len(good)) + good[:-1] + b"?"
    peak = peak_of_refusing(lambda: [None for _ in batches(raw)], BatchError)
    assert peak <= 2 * len(raw) + SLACK


# --- message sets ----------------------------------------------------------------------------------------------------


def _messages(magic: int, count: int) -> bytes:
    time = NOW if magic else -1
    return encode_message_set([Record(b"kk", b"vv", (), time + n * magic, 1000 + n) for n in range(count)], magic)


def _wrapper(codec_number: Compression, magic: int, inner: bytes) -> bytes:
    value = compress(codec_number, inner)
    body = struct.pack(">BB", magic, codec_number) + bytes(8 * magic) + struct.pack(">ii", -1, len(value)) + value
    return struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body


SET_CODECS = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4]


@pytest.mark.parametrize("magic", [0, 1])
def test_message_sets_of_tiny_messages(magic: int, scale: Scale) -> None:
    one = _messages(magic, 1)
    other_codec = bytes((magic, 4)) + bytes(8 * magic) + b"\xff" * 8
    broken = {
        "CRC": one[:-1] + b"?",
        "magic": one[:16] + b"\3" + one[17:],
        "a wrapper of what is broken": _wrapper(Compression.GZIP, magic, one[:-1]),
        "a wrapper of another codec": struct.pack(">qiI", 0, len(other_codec) + 4, zlib.crc32(other_codec))
        + other_codec,
    }
    few, many = (_messages(magic, count) for count in scale.counts)
    for name, raw in {"few": few + broken["CRC"], **{name: many + end for name, end in broken.items()}}.items():
        peak = peak_of_refusing(lambda raw=raw: decode_message_set(raw), BatchError)  # type: ignore[misc]
        assert peak <= 2 * len(raw) + scale.slack, name
    raw = many + broken["CRC"]
    assert peak_of_refusing(lambda: read_messages(raw), BatchError) <= 2 * len(raw) + scale.slack


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec_number", SET_CODECS)
def test_wrappers_of_tiny_messages(codec_number: Compression, magic: int, scale: Scale) -> None:
    one = _messages(magic, 1)
    nested = _wrapper(codec_number, magic, one)
    bad = _wrapper(codec_number, magic, one[:-1] + b"?")
    for count in scale.counts:
        inner = _messages(magic, count)
        allowed = max(len(inner), count * MIN_OBJECT_SIZE) + 200
        # The last message in the wrapper is bad, or what comes after the wrapper.
        for raw in (
            _wrapper(codec_number, magic, inner + one[:-1] + b"?"),
            _wrapper(codec_number, magic, inner + nested),
            _wrapper(codec_number, magic, inner) + bad,
        ):
            peak = peak_of_refusing(lambda raw=raw, size=allowed: decode_message_set(raw, 0, size), BatchError)  # type: ignore[misc]
            assert peak <= allowed + 2 * len(raw) + scale.slack
        peak = peak_of_refusing(lambda raw=raw, size=allowed // 2: decode_message_set(raw, 0, size), BatchError)  # type: ignore[misc]
        assert peak <= allowed // 2 + 2 * len(raw) + scale.slack


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec_number", SET_CODECS)
def test_many_wrappers_and_then_a_bad_one(codec_number: Compression, magic: int, scale: Scale) -> None:
    one = _messages(magic, 1)
    bad = _wrapper(codec_number, magic, one[:-1] + b"?")
    for each, count in zip((4, 300), scale.counts, strict=True):
        raw = _wrapper(codec_number, magic, _messages(magic, each)) * (count // each) + bad
        max_size = count * MIN_OBJECT_SIZE + 200
        peak = peak_of_refusing(lambda raw=raw, max_size=max_size: decode_message_set(raw, 0, max_size), BatchError)  # type: ignore[misc]
        assert peak <= max_size + 2 * len(raw) + scale.slack


# --- frames ----------------------------------------------------------------------------------------------------------


def test_a_huge_frame_that_is_announced() -> None:
    parser = FrameParser(100 * MIB)

    def feed() -> None:
        parser.feed(struct.pack(">i", 100 * MIB))
        for _ in range(64):
            parser.feed(bytes(1024))
        raise BadFrame("the connection ends", 0, [])

    assert peak_of_refusing(feed, BadFrame) <= 2 * 64 * 1024 + SLACK


def test_many_tiny_frames_and_then_a_bad_one() -> None:
    raw = struct.pack(">ii", 4, 1) * (MIB // 8) + b"\xff\xff\xff\xff"
    parser = FrameParser(MIB)
    peak = peak_of_refusing(lambda: parser.feed(raw), BadFrame)
    # The frames before it are given out with the exception, so they are there, 37 bytes each and a place in a list.
    assert peak <= len(raw) // 8 * 60 + SLACK
