"""What the reader says of a Produce request is what the broker will find, or the request goes nowhere."""

from __future__ import annotations

import struct
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import DecodeError
from protocol.messages.produce import MAX_HEADER_TAGS, produce_acks
from shim.api import ROUTES, Route
from shim.net.requests import MAX_BEGINNING, BadRequest, Head, RequestReader
from tests.net.reused_memory import in_reused_memory

MAX_BYTES = 1_000_000
NULL = b"\xff\xff"


class Sink:
    """Writes down what begins, and what is passed on."""

    stopped = False

    def __init__(self) -> None:
        self.begun: list[bool] = []
        self.passed_on = b""

    def admit(self, size: int) -> bool:
        return True

    def passing_begins(self, head: Head, route: Route, *, answered: bool) -> None:
        self.begun.append(answered)

    def pass_on(self, data: bytes | memoryview) -> None:
        self.passed_on += data

    def request(self, head: Head, route: Route, frame: bytes) -> None:
        raise AssertionError("all are passed on")

    def several(self, route: Route, data: bytes, position: int) -> int:
        raise AssertionError("all are passed on")

    def token(self, frame: bytes) -> None:
        raise AssertionError("all are passed on")


def reader_and_sink() -> tuple[RequestReader[Route], Sink]:
    sink = Sink()
    return RequestReader(ROUTES, MAX_BYTES), sink


def frame(version: int, beginning: bytes, *, acks: int = 0, size: int | None = None) -> bytes:
    """A Produce request of no topics, whose client id and what follows, up to `acks`, is `beginning`."""
    body = struct.pack(">hhi", 0, version, 1) + beginning + struct.pack(">hi", acks, 1_000)
    body += b"\x01\x00" if version >= 9 else bytes(4)
    return struct.pack(">i", len(body) if size is None else size) + body


BAD = {
    "a null that wraps round": (9, NULL + b"\x00" + b"\xff\xff\xff\xff\x0f"),
    "a null with bits to drop": (9, NULL + b"\x00" + b"\x80\x80\x80\x80\x10"),
    "a length of 2 ** 31": (9, NULL + b"\x00" + b"\x80\x80\x80\x80\x08"),
    "a length of six bytes": (9, NULL + b"\x00" + b"\x80\x80\x80\x80\x80\x00"),
    "a longer string than there is": (9, NULL + b"\x00" + b"\x81\x80\x02" + bytes(32_768)),
    "a negative count": (9, NULL + b"\xff\xff\xff\xff\x0f" + b"\x00"),
    "a count with bits to drop": (9, NULL + b"\x80\x80\x80\x80\x70" + b"\x00"),
    "a count of six bytes": (9, NULL + b"\x80\x80\x80\x80\x80\x00" + b"\x00"),
    "too many tags": (9, NULL + bytes([MAX_HEADER_TAGS + 1]) + b"\x00\x00" * (MAX_HEADER_TAGS + 1) + b"\x00"),
    "a tag of a negative size": (9, NULL + b"\x01\x00" + b"\xff\xff\xff\xff\x0f" + b"\x00"),
    "a tag that wraps round": (9, NULL + b"\x01" + b"\x80\x80\x80\x80\x10" + b"\x00\x00"),
    "a client id below null": (3, b"\xff\xfe" + NULL),
    "the same, flexible": (9, b"\x80\x00" + b"\x00\x00"),
    "a transactional id below null": (3, NULL + b"\xff\xfe"),
}


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "begun"])
@pytest.mark.parametrize(("version", "beginning"), BAD.values(), ids=BAD)
def test_what_a_broker_might_read_otherwise_is_not_passed_on(version: int, beginning: bytes, whole: bool) -> None:
    reader, sink = reader_and_sink()
    data = frame(version, beginning) if whole else frame(version, beginning, size=MAX_BYTES)
    with pytest.raises(BadRequest, match=f"api key 0 version {version}: (client_id|tagged|transactional_id): "):
        reader.feed(data, sink)
    assert (sink.begun, sink.passed_on) == ([], b"")


GOOD = {
    "both null": (3, NULL + NULL),
    "empty ones": (8, b"\x00\x00\x00\x00"),
    "both": (3, b"\x00\x03app\x00\x01t"),
    "flexible": (9, b"\x00\x03app\x00\x00"),
    "an empty transactional id": (12, NULL + b"\x00\x01"),
    "varints longer than they need be": (13, NULL + b"\x80\x80\x80\x80\x00" + b"\x82\x80\x80\x00t"),
    "tags": (9, NULL + b"\x02\x05\x03abc\xff\xff\xff\xff\x07\x00" + b"\x02t"),
    "as many as may be": (9, NULL + bytes([MAX_HEADER_TAGS]) + b"\x01\x01x" * MAX_HEADER_TAGS + b"\x00"),
    "the longest strings": (9, b"\x7f\xff" + b"c" * 32_767 + b"\x00\x80\x80\x02" + b"t" * 32_767),
    "the longest, long ago": (3, b"\x7f\xff" + b"c" * 32_767 + b"\x7f\xff" + b"t" * 32_767),
}


@pytest.mark.parametrize("acks", [0, 1, -1, 256])
@pytest.mark.parametrize(("version", "beginning"), GOOD.values(), ids=GOOD)
def test_acks_are_found(version: int, beginning: bytes, acks: int) -> None:
    data = frame(version, beginning, acks=acks)
    assert produce_acks(data, 0, len(data), version) == (acks, 14 - 2 + len(beginning) + 2)
    reader, sink = reader_and_sink()
    reader.feed(data, sink)
    assert (sink.begun, sink.passed_on) == ([acks != 0], data)


@pytest.mark.parametrize(("version", "beginning"), GOOD.values(), ids=GOOD)
def test_no_request_ends_within_its_beginning(version: int, beginning: bytes) -> None:
    """A broker finds nothing behind the end. What stands there here is another request, and must not be looked at."""
    for ends in range(12, 14 + len(beginning), max(1, len(beginning) // 50)):
        reader, sink = reader_and_sink()
        with pytest.raises(BadRequest, match="ends within its beginning"):
            reader.feed(frame(version, beginning, size=ends - 4), sink)
        assert (sink.begun, sink.passed_on) == ([], b"")


@given(st.sampled_from(sorted(GOOD)), st.lists(st.integers(0, 70_000), max_size=12), st.sampled_from([0, 1]))
def test_any_split_says_the_same(name: str, cuts: list[int], acks: int) -> None:
    version, beginning = GOOD[name]
    whole = frame(version, beginning, acks=acks) + frame(version, beginning, acks=1 - acks)
    places = sorted(cut % (len(whole) + 1) for cut in cuts)
    reader, sink = reader_and_sink()
    for start, stop in zip([0, *places], [*places, len(whole)], strict=True):
        in_reused_memory(partial(reader.feed, sink=sink), whole[start:stop])
    assert (sink.begun, sink.passed_on) == ([acks != 0, acks == 0], whole)
    assert reader.unfinished is None


@given(st.sampled_from(sorted(BAD)), st.lists(st.integers(0, 33_000), max_size=12))
def test_any_split_is_as_bad(name: str, cuts: list[int]) -> None:
    whole = frame(*BAD[name])
    places = sorted(cut % (len(whole) + 1) for cut in cuts)
    reader, sink = reader_and_sink()

    def feed_all() -> None:
        for start, stop in zip([0, *places], [*places, len(whole)], strict=True):
            reader.feed(whole[start:stop], sink)

    with pytest.raises(BadRequest, match=r"client_id|tagged|transactional_id"):
        feed_all()
    assert (sink.begun, sink.passed_on) == ([], b"")


@pytest.mark.parametrize(("version", "beginning"), GOOD.values(), ids=GOOD)
def test_what_is_missing_is_said(version: int, beginning: bytes) -> None:
    """Never more than it takes, and always more than there is."""
    data = frame(version, beginning)
    said = 12 + len(beginning) + 2
    for end in range(12, said, max(1, len(beginning) // 50)):
        acks, wanted = produce_acks(data, 0, end, version)
        assert acks is None
        assert end < wanted <= said


def test_a_beginning_that_drips_is_read_again_only_when_there_is_more_to_say() -> None:
    """A client that sends a byte at a time has the shim do so much for each byte, whatever came before."""
    version, beginning = GOOD["the longest strings"]
    data = frame(version, beginning)
    looks = 0

    def counted(*request: object) -> tuple[bool | None, int]:
        nonlocal looks
        looks += 1
        acks, said = produce_acks(*request)  # type: ignore[arg-type]
        return None if acks is None else acks != 0, said

    sink = Sink()
    route = replace(ROUTES[version], answered=counted)
    reader = RequestReader({version: route}, MAX_BYTES)
    for byte in data:
        reader.feed(bytes([byte]), sink)
    assert (sink.begun, sink.passed_on) == ([False], data)
    assert looks < 12


def test_a_large_tag_is_refused_when_its_size_is_there() -> None:
    reader, sink = reader_and_sink()
    start = struct.pack(">ihhi", MAX_BYTES, 0, 9, 1) + NULL + b"\x01\x00"
    reader.feed(start, sink)
    with pytest.raises(BadRequest, match=f"api key 0 version 9: a beginning of more than {MAX_BEGINNING} bytes"):
        reader.feed(b"\xa0\x8d\x06", sink)
    assert sink.begun == []


def test_a_negative_size_is_no_way_back() -> None:
    """A tag of -10 bytes would have what was read before read again."""
    with pytest.raises(DecodeError, match="more than 31 bits"):
        produce_acks(frame(9, NULL + b"\x01\x00\xf6\xff\xff\xff\x0f\x00"), 0, 40, 9)


BEGINNINGS = st.tuples(st.sampled_from(sorted(GOOD)), st.sampled_from([0, 1]))


@given(st.lists(BEGINNINGS, min_size=1, max_size=12), st.data())
def test_what_the_last_one_said_is_said_of_the_same_beginning_only(
    beginnings: list[tuple[str, int]], data: st.DataObject
) -> None:
    """Among them the same in other versions, and at the end one that ends within a beginning that was just believed."""
    reader, sink = reader_and_sink()
    for name, acks in beginnings:
        reader.feed(frame(*GOOD[name], acks=acks), sink)
    assert sink.begun == [acks != 0 for _, acks in beginnings]
    name, acks = beginnings[-1]
    version, beginning = GOOD[name]
    ends = data.draw(st.integers(12, 13 + len(beginning)))
    with pytest.raises(BadRequest, match="ends within its beginning"):
        reader.feed(frame(version, beginning, acks=acks, size=ends - 4), sink)


def test_a_beginning_that_comes_again_is_not_looked_into_again() -> None:
    """Nor one that is too long to be kept, or another API's, taken for it."""
    looked: list[int] = []

    def answered(data: bytes | memoryview, start: int, end: int, version: int) -> tuple[bool | None, int]:
        looked.append(version)
        acks, said = produce_acks(data, start, end, version)
        return None if acks is None else acks != 0, said

    produce = ROUTES[0 << 16 | 9]
    others = replace(produce, answered=lambda data, start, end, version: answered(data, start, end, version))
    routes = {version: replace(produce, answered=answered) for version in (3, 9)} | {1 << 16 | 9: others}
    sink = Sink()
    reader = RequestReader(routes, MAX_BYTES)
    usual = b"\x00\x03app\x00\x00"
    for _ in range(3):
        reader.feed(frame(9, usual, acks=1), sink)
    assert looked == [9]
    reader.feed(frame(9, usual, acks=0), sink)
    assert looked == [9] * 2
    of_another = bytearray(frame(9, usual, acks=0))
    of_another[4:6] = b"\x00\x01"
    reader.feed(bytes(of_another), sink)
    assert looked == [9] * 3
    reader.feed(frame(3, b"\x00\x03app" + NULL, acks=1), sink)
    longest = b"\x7f\xff" + b"c" * 32_767 + NULL
    for _ in range(2):
        reader.feed(frame(3, longest, acks=1), sink)
    assert looked == [9, 9, 9, 3, 3, 3]
    assert sink.begun == [True] * 3 + [False] * 2 + [True] * 3


def test_what_was_said_of_one_version_is_not_said_of_another() -> None:
    """The same bytes: a transactional id and `acks` of 0 there are an empty one and other `acks` here."""
    reader, sink = reader_and_sink()
    beginning = NULL + b"\x00\x01t"
    reader.feed(frame(3, beginning, acks=0), sink)
    reader.feed(frame(9, beginning, acks=0), sink)
    assert [produce_acks(frame(version, beginning), 0, 21, version)[0] for version in (3, 9)] == [0, ord("t") << 8]
    assert sink.begun == [False, True]


def test_what_was_said_is_of_the_bytes_that_were_there_then() -> None:
    """Where the next request is, as each of a connection's, read into the same place."""
    reader, sink = reader_and_sink()
    memory = bytearray(100)
    for acks in (1, 0, 0, 1):
        data = frame(9, b"\x00\x03app\x00\x00", acks=acks)
        memory[: len(data)] = data
        reader.feed(memoryview(memory)[: len(data)], sink)
    assert sink.begun == [True, False, False, True]


def test_what_is_kept_is_forgotten_when_other_requests_are_served() -> None:
    """It waits for no more bytes to be refused than any other request."""
    reader, sink = reader_and_sink()
    reader.feed(frame(3, b"\x40\x00" + bytes(20), size=50_000)[:30], sink)
    reader.serve({}, MAX_BYTES, unserved="too late")
    with pytest.raises(BadRequest, match="api key 0 version 3 too late"):
        reader.feed(b"x", sink)
    assert sink.begun == []
