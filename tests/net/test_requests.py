"""The request reader: any split of the stream gives the same requests, and bad streams are named."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.messages.produce import produce_acks
from shim.net.requests import MAX_BEGINNING, BadRequest, Head, RequestReader

MAX_BYTES = 1_000_000
AT_ONCE_BYTES = 100


def answered(data: bytes, start: int, end: int, version: int) -> bool | None:
    acks = produce_acks(data, start, end, version)
    return None if acks is None else acks != 0


class FakeRoute(NamedTuple):
    forwarded: bool
    answered: Callable[[bytes, int, int, int], bool | None] | None = None
    several: object | None = None


FORWARD, PRODUCE, SERVE = FakeRoute(True), FakeRoute(True, answered), FakeRoute(False)
AT_ONCE = FakeRoute(False, several="several")
ROUTES = {
    0 << 16 | 2: PRODUCE,
    0 << 16 | 3: PRODUCE,
    0 << 16 | 9: PRODUCE,
    1 << 16 | 4: FORWARD,
    8 << 16 | 2: SERVE,
    8 << 16 | 8: AT_ONCE,
}


class Sink:
    """Writes down what it is told: forwarded requests by correlation id, forwarded bytes, whole requests.

    It stops the reader when it has been told of ``stop_after`` requests.
    """

    def __init__(self, stop_after: int = 1_000) -> None:
        self.stop_after = stop_after
        self.begun: list[tuple[int, bool]] = []
        self.passed_on = b""
        self.served: list[bytes] = []
        self.order: list[int] = []

    @property
    def stopped(self) -> bool:
        return len(self.order) >= self.stop_after

    def forward_begins(self, head: Head, route: FakeRoute, *, answered: bool) -> None:
        assert route.forwarded
        self.begun.append((head.correlation_id, answered))
        self.order.append(head.correlation_id)

    def forward(self, data: bytes) -> None:
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
    reader = RequestReader(ROUTES, MAX_BYTES, sink)
    for start, stop in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        reader.feed(whole[start:stop])
    assert sink.begun == begun
    assert sink.order == order
    assert sink.served == [frames[1], frames[5]]
    assert sink.passed_on == b"".join(frames[i] for i in (0, 2, 3, 4, 6, 7, 8))
    assert not reader.mid_request


@given(
    st.lists(st.sampled_from(["forwarded", "served", "at once", "at once", "at once", "large"]), max_size=20),
    st.lists(st.integers(0, 2_000), max_size=10),
)
def test_what_is_taken_at_once_is_taken_in_order(kinds: list[str], cuts: list[int]) -> None:
    made = {"forwarded": (1, 4, 20), "served": (8, 2, 20), "at once": (8, 8, 20), "large": (8, 8, AT_ONCE_BYTES)}
    frames = [
        frame(key, version, number, bytes(size))
        for number, kind in enumerate(kinds)
        for key, version, size in (made[kind],)
    ]
    whole = b"".join(frames)
    sink = Sink()
    reader = RequestReader(ROUTES, MAX_BYTES, sink)
    places = sorted(min(cut, len(whole)) for cut in cuts)
    for start, stop in zip([0, *places], [*places, len(whole)], strict=True):
        reader.feed(whole[start:stop])
    assert sink.order == list(range(len(frames)))
    assert sink.served == [each for each, kind in zip(frames, kinds, strict=True) if kind != "forwarded"]
    assert sink.passed_on == b"".join(each for each, kind in zip(frames, kinds, strict=True) if kind == "forwarded")


def test_byte_by_byte() -> None:
    frames, begun, order = stream()
    sink = Sink()
    reader = RequestReader(ROUTES, MAX_BYTES, sink)
    for byte in b"".join(frames):
        reader.feed(bytes([byte]))
    assert (sink.begun, sink.order) == (begun, order)
    assert sink.served == [frames[1], frames[5]]


def test_a_large_forwarded_request_is_never_held() -> None:
    sink = Sink()
    reader = RequestReader(ROUTES, MAX_BYTES, sink)
    big = frame(1, 4, 1, bytes(MAX_BYTES - 8))
    reader.feed(big[:1000])
    assert sink.passed_on == big[:1000]
    assert reader.mid_request
    reader.feed(big[1000:2000])
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
        RequestReader(ROUTES, MAX_BYTES, sink).feed(data)
    assert sink.passed_on == b""


def test_what_came_before_a_bad_request_has_been_handed_on() -> None:
    sink = Sink()
    good = frame(8, 2, 1, b"\x00\x00commit")
    with pytest.raises(BadRequest):
        RequestReader(ROUTES, MAX_BYTES, sink).feed(good + frame(99, 0, 2, b""))
    assert sink.served == [good]


def test_acks_of_a_produce_request_cut_short() -> None:
    """Its length says that nothing more comes: what is there decides, and the broker gets it as it is."""
    whole = produce(9, 1, 0, txn=b"transaction")
    at = produce_acks(whole, 0, len(whole), 9)
    assert at == 0
    for end in range(12, whole.index(b"records")):
        assert produce_acks(whole, 0, end, 9) is None


@given(st.data())
def test_a_stop_takes_effect_between_requests_and_loses_nothing(data: st.DataObject) -> None:
    frames, begun, order = stream()
    sink = Sink(stop_after=data.draw(st.integers(0, 9)))
    reader = RequestReader(ROUTES, MAX_BYTES, sink)
    reader.feed(b"".join(frames))
    while sink.stop_after < len(order):
        assert sink.order == order[: sink.stop_after]
        assert not reader.mid_request
        sink.stop_after += data.draw(st.integers(1, 3))
        reader.feed(b"")
    assert (sink.begun, sink.order, sink.served) == (begun, order, [frames[1], frames[5]])
    assert sink.passed_on == b"".join(frames[i] for i in (0, 2, 3, 4, 6, 7, 8))


@pytest.mark.parametrize("position", [0, 1], ids=["forwarded", "served"])
def test_a_request_that_has_begun_goes_on_after_a_stop(position: int) -> None:
    frames = stream()[0][:2]
    sink = Sink(stop_after=1)
    reader = RequestReader(ROUTES, MAX_BYTES, sink)
    reader.feed(frames[position][:13])
    sink.stop_after = 0
    begun = (reader.mid_request, reader.mid_forward)
    reader.feed(frames[position][13:] + frames[1])
    ended = (reader.mid_request, reader.mid_forward)
    assert (begun, ended) == ((True, position == 0), (False, False))
    assert sink.passed_on + b"".join(sink.served) == frames[position]


def test_a_produce_request_that_hides_its_acks_is_not_collected_without_end() -> None:
    start = struct.pack(">ihhih", MAX_BYTES, 0, 9, 1, -1) + b"\x01\x00\xff\xff\x3f"  # one tag of a megabyte
    reader = RequestReader(ROUTES, MAX_BYTES, Sink())
    reader.feed(start + bytes(MAX_BEGINNING - len(start)))
    with pytest.raises(BadRequest, match="api key 0: a header of more than 131072 bytes"):
        reader.feed(b"x")


def test_the_longest_strings_of_a_produce_header_are_let_through() -> None:
    sink = Sink()
    reader = RequestReader(ROUTES, MAX_BYTES, sink)
    for byte_range in (slice(0, 60_000), slice(60_000, None)):
        reader.feed(produce(3, 1, 0, client_id=b"c" * 32_767, txn=b"t" * 32_767)[byte_range])
    assert sink.begun == [(1, False)]
