"""The request reader: any split of the stream gives the same requests, and bad streams are named."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.messages.produce import produce_acks
from shim.net.requests import BadRequest, Head, RequestReader
from tests.net.reused_memory import in_reused_memory

MAX_BYTES = 1_000_000
AT_ONCE_BYTES = 100


def answered(data: bytes | memoryview, start: int, end: int, version: int) -> tuple[bool | None, int]:
    acks, said = produce_acks(data, start, end, version)
    return None if acks is None else acks != 0, said


class FakeRoute(NamedTuple):
    is_passed_on: bool
    answered: Callable[[bytes | memoryview, int, int, int], tuple[bool | None, int]] | None = None
    several: object | None = None


PASS_ON, PRODUCE, SERVE = FakeRoute(True), FakeRoute(True, answered), FakeRoute(False)
AT_ONCE = FakeRoute(False, several="several")
ROUTES = {
    0 << 16 | 2: PRODUCE,
    0 << 16 | 3: PRODUCE,
    0 << 16 | 9: PRODUCE,
    1 << 16 | 4: PASS_ON,
    8 << 16 | 2: SERVE,
    8 << 16 | 8: AT_ONCE,
}


class Sink:
    """Writes down what it is told: requests that are passed on by correlation id, their bytes, whole requests.

    It stops the reader when it has been told of ``stop_after`` requests.
    """

    def __init__(self, stop_after: int = 1_000) -> None:
        self.stop_after = stop_after
        self.begun: list[tuple[int, bool]] = []
        self.passed_on = b""
        self.served: list[bytes] = []
        self.order: list[int] = []
        self.room = 1 << 31
        self.asked: list[int] = []

    @property
    def stopped(self) -> bool:
        return len(self.order) >= self.stop_after

    def admit(self, size: int) -> bool:
        self.asked.append(size)
        return size <= self.room

    def passing_begins(self, head: Head, route: FakeRoute, *, answered: bool) -> None:
        assert route.is_passed_on
        self.begun.append((head.correlation_id, answered))
        self.order.append(head.correlation_id)

    def pass_on(self, data: bytes | memoryview) -> None:
        self.passed_on += data

    def several(self, route: FakeRoute, data: bytes, position: int) -> int:
        """Takes those that follow one another, are all there and are of at most so many bytes; one alone is none."""
        assert route is AT_ONCE
        frames = []
        end = position
        while data[end + 4 : end + 8] == data[position + 4 : position + 8]:
            size = int.from_bytes(data[end : end + 4], "big") + 4
            if size > AT_ONCE_BYTES or end + size > len(data):
                break
            frames.append(data[end : end + size])
            end += size
        if len(frames) < 2:
            return position
        self.served += frames
        self.order += [int.from_bytes(frame[8:12], "big") for frame in frames]
        return end

    def request(self, head: Head, route: FakeRoute, frame: bytes) -> None:
        assert route in (SERVE, AT_ONCE)
        self.served.append(frame)
        self.order.append(head.correlation_id)

    def token(self, frame: bytes) -> None:
        raise AssertionError("a request")


def frame(api_key: int, version: int, correlation_id: int, body: bytes) -> bytes:
    head = struct.pack(">hhi", api_key, version, correlation_id)
    return struct.pack(">i", len(head) + len(body)) + head + body


def produce(
    version: int, correlation_id: int, acks: int, *, client_id: bytes = b"app", txn: bytes | None = None
) -> bytes:
    body = struct.pack(">h", len(client_id)) + client_id
    if version >= 9:
        body += b"\x01\x05\x03abc"  # one tagged field in the header
        body += b"\x00" if txn is None else bytes([len(txn) + 1]) + txn
    elif version >= 3:
        body += struct.pack(">h", -1) if txn is None else struct.pack(">h", len(txn)) + txn
    return frame(0, version, correlation_id, body + struct.pack(">h", acks) + b"records" * 20)


def stream() -> tuple[list[bytes], list[tuple[int, bool]], list[int]]:
    frames = [
        frame(1, 4, 1, b"\x00\x00" + b"f" * 300),
        frame(8, 2, 2, b"\x00\x00commit"),
        produce(3, 3, 0),
        produce(9, 4, -1, txn=b"t1"),
        produce(9, 5, 0, client_id=b""),
        frame(8, 2, 6, b"\x00\x00" + b"c" * 500),
        frame(1, 4, 7, b""),
        produce(2, 8, 1),
        produce(3, 9, 0, txn=b"t"),
    ]
    begun = [(1, True), (3, False), (4, True), (5, False), (7, True), (8, True), (9, False)]
    return frames, begun, list(range(1, 10))


@given(st.data())
def test_any_split_gives_the_same_requests(data: st.DataObject) -> None:
    frames, begun, order = stream()
    whole = b"".join(frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=40)))
    sink = Sink()
    reader = RequestReader(ROUTES, MAX_BYTES)
    for start, stop in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        in_reused_memory(partial(reader.feed, sink=sink), whole[start:stop])
    assert sink.begun == begun
    assert sink.order == order
    assert sink.served == [frames[1], frames[5]]
    assert sink.passed_on == b"".join(frames[i] for i in (0, 2, 3, 4, 6, 7, 8))
    assert not reader.mid_request


@given(
    st.lists(st.sampled_from(["passed on", "served", "at once", "at once", "at once", "large"]), max_size=20),
    st.lists(st.integers(0, 2_000), max_size=10),
)
def test_what_is_taken_at_once_is_taken_in_order(kinds: list[str], cuts: list[int]) -> None:
    made = {"passed on": (1, 4, 20), "served": (8, 2, 20), "at once": (8, 8, 20), "large": (8, 8, AT_ONCE_BYTES)}
    frames = [
        frame(key, version, number, bytes(size))
        for number, kind in enumerate(kinds)
        for key, version, size in (made[kind],)
    ]
    whole = b"".join(frames)
    sink = Sink()
    reader = RequestReader(ROUTES, MAX_BYTES)
    places = sorted(min(cut, len(whole)) for cut in cuts)
    for start, stop in zip([0, *places], [*places, len(whole)], strict=True):
        in_reused_memory(partial(reader.feed, sink=sink), whole[start:stop])
    assert sink.order == list(range(len(frames)))
    assert sink.served == [each for each, kind in zip(frames, kinds, strict=True) if kind != "passed on"]
    assert sink.passed_on == b"".join(each for each, kind in zip(frames, kinds, strict=True) if kind == "passed on")


def test_byte_by_byte() -> None:
    frames, begun, order = stream()
    sink = Sink()
    reader = RequestReader(ROUTES, MAX_BYTES)
    for byte in b"".join(frames):
        reader.feed(bytes([byte]), sink)
    assert (sink.begun, sink.order) == (begun, order)
    assert sink.served == [frames[1], frames[5]]


def test_a_large_request_that_is_passed_on_is_never_held() -> None:
    sink = Sink()
    reader = RequestReader(ROUTES, MAX_BYTES)
    big = frame(1, 4, 1, bytes(MAX_BYTES - 8))
    reader.feed(big[:1000], sink)
    assert sink.passed_on == big[:1000]
    assert reader.mid_request
    reader.feed(big[1000:2000], sink)
    assert sink.passed_on == big[:2000]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x00", "a TLS hello on a plaintext port"),
        (b"\x16\x03\x01\x02", "a TLS hello on a plaintext port"),
        (b"GET / HTTP/1.1\r\n", "an HTTP request on a Kafka port"),
        (struct.pack(">i", 2**31 - 1), "larger than socket.request.max.bytes"),
        (struct.pack(">i", -1) + bytes(20), "a request of -1 bytes"),
        (struct.pack(">i", 7) + bytes(20), "a request of 7 bytes"),
        (frame(99, 0, 1, b""), "api key 99 version 0 is not served"),
        (frame(1, -1, 1, b""), "api key 1 version -1 is not served"),
        (frame(1, 5, 1, b""), "api key 1 version 5 is not served"),
    ],
)
def test_bad_streams_are_refused_and_named(data: bytes, reason: str) -> None:
    sink = Sink()
    with pytest.raises(BadRequest, match=reason):
        RequestReader(ROUTES, MAX_BYTES).feed(data, sink)
    assert sink.passed_on == b""


def test_what_came_before_a_bad_request_has_been_handed_on() -> None:
    sink = Sink()
    good = frame(8, 2, 1, b"\x00\x00commit")
    with pytest.raises(BadRequest):
        RequestReader(ROUTES, MAX_BYTES).feed(good + frame(99, 0, 2, b""), sink)
    assert sink.served == [good]


def test_what_is_served_can_change_between_two_requests() -> None:
    sink = Sink()
    reader = RequestReader(ROUTES, MAX_BYTES)
    first = frame(8, 2, 1, b"body")
    reader.feed(first, sink)
    reader.serve({8 << 16 | 2: SERVE}, 20, limit="another.max.bytes", unserved="before its time")
    reader.feed(first, sink)
    with pytest.raises(BadRequest, match="api key 1 version 4 before its time"):
        reader.feed(frame(1, 4, 2, b""), sink)
    reader = RequestReader(ROUTES, MAX_BYTES)
    reader.serve({8 << 16 | 2: SERVE}, 20, limit="another.max.bytes", unserved="before its time")
    with pytest.raises(BadRequest, match=r"a request of 28 bytes is larger than another.max.bytes \(20\)"):
        reader.feed(frame(8, 2, 3, bytes(20)), sink)
    assert sink.served == [first, first]


def test_a_request_that_was_long_in_coming_is_not_served_any_more() -> None:
    sink = Sink()
    reader = RequestReader(ROUTES, MAX_BYTES)
    late = frame(8, 2, 1, b"body")
    reader.feed(late[:-1], sink)
    reader.serve({1 << 16 | 4: PASS_ON}, MAX_BYTES, unserved="too late")
    with pytest.raises(BadRequest, match="api key 8 version 2 too late"):
        reader.feed(late[-1:], sink)
    assert sink.served == []


class TokenSink(Sink):
    """Stopped by each token, until the next call of `go_on`."""

    def __init__(self) -> None:
        super().__init__(stop_after=1)
        self.reader = RequestReader(ROUTES, MAX_BYTES, small=10)
        self.tokens: list[bytes] = []

    @property
    def stopped(self) -> bool:
        return bool(self.order)

    def token(self, frame: bytes) -> None:
        self.tokens.append(frame)
        self.order.append(len(self.tokens))

    def go_on(self) -> None:
        """As often as there is a token."""
        while self.order:
            self.order.clear()
            self.reader.feed(b"", self)


@pytest.mark.parametrize("step", [*range(1, 30), 1000])
def test_tokens_without_a_header_are_cut_out_however_they_come(step: int) -> None:
    sink = TokenSink()
    wanted = [b"\0\0\0\x03abc", b"\0\0\0\0", b"\0\0\0\x0a0123456789"]
    request, rest = frame(8, 2, 1, b"body"), b"\0\0\0\x02x"
    data = b"".join(wanted) + rest
    sink.reader.feed(request + data[:3], sink)
    sink.reader.serve({}, 10, limit="token.max", tokens=True)
    sink.go_on()
    for position in range(3, len(data), step):
        sink.reader.feed(data[position : position + step], sink)
        sink.go_on()
    assert (sink.served, sink.tokens) == ([request], wanted)
    assert sink.reader.mid_request
    sink.reader.feed(b"y" + request, sink)
    assert sink.tokens[-1] == rest + b"y"
    sink.reader.serve(ROUTES, MAX_BYTES)
    sink.go_on()
    assert sink.served == [request, request]
    assert not sink.reader.mid_request


@pytest.mark.parametrize("size", [11, -1, 2**31 - 1])
def test_a_token_has_a_size_that_can_be(size: int) -> None:
    sink = TokenSink()
    sink.reader.serve({}, 10, limit="token.max", tokens=True)
    with pytest.raises(BadRequest, match=f"a token of {size} bytes; token.max is 10"):
        sink.reader.feed(struct.pack(">i", size), sink)
    assert (sink.tokens, sink.asked) == ([], [])


def test_a_large_token_is_kept_when_there_is_room_for_it_and_stands_for_itself() -> None:
    sink = TokenSink()
    sink.reader.serve({}, 20, limit="token.max", tokens=True)
    sink.room = 0
    token = struct.pack(">i", 11) + bytes(11)
    sink.reader.feed(token[:4], sink)
    assert (sink.asked, sink.reader.mid_request) == ([11], False)
    sink.room = 11
    sink.reader.feed(token[4:5], sink)
    unfinished = sink.reader.unfinished
    assert sink.reader.mid_request
    sink.reader.feed(token[5:-1], sink)
    assert unfinished is not None
    assert sink.reader.unfinished is unfinished
    sink.reader.feed(token[-1:] + token[:5], sink)
    sink.go_on()
    assert sink.tokens == [token]
    assert sink.reader.unfinished not in (None, unfinished)


@given(st.data())
def test_a_stop_takes_effect_between_requests_and_loses_nothing(data: st.DataObject) -> None:
    frames, begun, order = stream()
    sink = Sink(stop_after=data.draw(st.integers(0, 9)))
    reader = RequestReader(ROUTES, MAX_BYTES)
    reader.feed(b"".join(frames), sink)
    while sink.stop_after < len(order):
        assert sink.order == order[: sink.stop_after]
        assert not reader.mid_request
        sink.stop_after += data.draw(st.integers(1, 3))
        reader.feed(b"", sink)
    assert (sink.begun, sink.order, sink.served) == (begun, order, [frames[1], frames[5]])
    assert sink.passed_on == b"".join(frames[i] for i in (0, 2, 3, 4, 6, 7, 8))


@pytest.mark.parametrize("position", [0, 1], ids=["passed on", "served"])
def test_a_request_that_has_begun_goes_on_after_a_stop(position: int) -> None:
    frames = stream()[0][:2]
    sink = Sink(stop_after=1)
    reader = RequestReader(ROUTES, MAX_BYTES)
    reader.feed(frames[position][:13], sink)
    sink.stop_after = 0
    begun = (reader.mid_request, reader.mid_passing)
    reader.feed(frames[position][13:] + frames[1], sink)
    ended = (reader.mid_request, reader.mid_passing)
    assert (begun, ended) == ((True, position == 0), (False, False))
    assert sink.passed_on + b"".join(sink.served) == frames[position]


# Room for what is collected.


def served(correlation_id: int, size: int) -> bytes:
    return frame(8, 2, correlation_id, bytes(size))


def passed_on(correlation_id: int, size: int) -> bytes:
    return frame(1, 4, correlation_id, bytes(size))


def test_a_large_request_is_not_kept_before_there_is_room_for_it() -> None:
    sink = Sink()
    sink.room = 0
    reader = RequestReader(ROUTES, 1_000_000, small=100)
    small, large = served(1, 50), served(2, 90_000)
    reader.feed(small + large[:30], sink)
    assert (sink.served, sink.asked) == ([small], [len(large) - 4])
    assert not reader.mid_request, "its collection has not begun"
    sink.room = 1 << 20
    reader.feed(b"", sink)
    reader.feed(large[30:], sink)
    assert sink.served == [small, large]


def test_what_is_passed_on_or_small_needs_no_room() -> None:
    sink = Sink()
    reader = RequestReader(ROUTES, 1_000_000, small=100)
    reader.feed(passed_on(1, 90_000) + served(2, 80), sink)
    assert sink.asked == []
    assert len(sink.order) == 2


def test_what_came_before_a_request_without_room_is_passed_on_once() -> None:
    sink = Sink()
    sink.room = 0
    reader = RequestReader(ROUTES, 1_000_000, small=100)
    first, large = passed_on(1, 500), served(2, 900)
    reader.feed(first + large, sink)
    assert sink.passed_on == first
    sink.room = 1 << 20
    reader.feed(b"", sink)
    assert (sink.passed_on, sink.served) == (first, [large])


def test_a_part_that_is_kept_stands_for_itself_until_it_is_whole() -> None:
    reader, sink = RequestReader(ROUTES, 1_000_000), Sink()
    one, other = served(1, 500), served(2, 500)

    def held() -> object:
        return reader.unfinished

    assert held() is None
    seen: list[object] = []
    for at in (3, 7):
        reader.feed(one[at - 4 if at > 3 else 0 : at], sink)
        seen.append(held())
    assert seen[0] is seen[1] is not None, "of a head that drips"
    reader.feed(one[7:100], sink)
    begun = held()
    reader.feed(one[100:200], sink)
    assert begun is held() is not None
    reader.feed(one[200:] + other[:5], sink)
    assert held() is not None
    assert all(held() is not each for each in (*seen, begun))
    reader.feed(other[5:], sink)
    assert held() is None
