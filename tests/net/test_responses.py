"""Responses leave in the order of their requests, whatever order they are made in and however they arrive."""

from __future__ import annotations

import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.net.order import ResponseQueue, Slot
from shim.net.responses import MAX_TOKEN_BYTES, BadResponse, ResponseReader
from tests.net.reused_memory import in_reused_memory


def response(correlation_id: int, size: int = 10) -> bytes:
    return struct.pack(">ii", 4 + size, correlation_id) + bytes([correlation_id % 251]) * size


class Wire:
    """A connection with its broker side: the held bytes wait as the session makes them wait."""

    def __init__(self) -> None:
        self.written = b""
        self.writes = 0
        self.ready = False
        self.held = False
        self.queue = ResponseQueue(self._write, self._stream_ready)
        self.reader = ResponseReader(self.queue)

    def _write(self, data: bytes | memoryview) -> None:
        assert data
        self.written += data
        self.writes += 1

    def _stream_ready(self) -> None:
        self.ready = True

    def receive(self, data: bytes) -> None:
        if not in_reused_memory(self.reader.feed, data):
            self.held = True
        self.settle()

    def settle(self) -> None:
        while self.held and self.ready:
            self.ready = False
            self.held = not self.reader.resume()


@given(
    kinds=st.lists(st.sampled_from(["stream", "rewritten", "served"]), min_size=1, max_size=12),
    seed=st.integers(0, 2**32),
    sizes=st.lists(st.integers(0, 400), min_size=12, max_size=12),
)
def test_order_holds_for_every_mixture_and_timing(kinds: list[str], seed: int, sizes: list[int]) -> None:
    rng = random.Random(seed)
    wire = Wire()
    upstream = b""
    served: list[tuple[Slot, bytes]] = []
    expected = b""
    for number, kind in enumerate(kinds):
        frame = response(number, sizes[number])
        expected += frame
        if kind == "served":
            served.append((wire.queue.reserve(), frame))
            continue
        upstream += frame
        if kind == "stream":
            wire.reader.expect_stream(number)
        else:
            slot = wire.queue.reserve()
            wire.reader.expect_whole(number, lambda got, slot=slot: wire.queue.fill(slot, got))  # type: ignore[misc]
    rng.shuffle(served)
    position = 0
    while position < len(upstream) or served:
        if served and (position == len(upstream) or rng.random() < 0.3):
            wire.queue.fill(*served.pop())
            wire.settle()
        else:
            step = rng.randint(1, 60)
            wire.receive(upstream[position : position + step])
            position += step
    assert wire.written == expected
    assert wire.queue.pending == 0
    assert wire.reader.owed == 0


def test_a_stream_behind_an_unanswered_request_waits() -> None:
    wire = Wire()
    slot = wire.queue.reserve()
    wire.reader.expect_stream(2)
    wire.receive(response(2, 1000))
    assert wire.held
    assert wire.written == b""
    wire.queue.fill(slot, response(1))
    wire.settle()
    assert wire.written == response(1) + response(2, 1000)


def test_a_stream_at_the_front_passes_piece_by_piece() -> None:
    wire = Wire()
    wire.reader.expect_stream(5)
    whole = response(5, 5000)
    wire.receive(whole[:1000])
    assert wire.written == whole[:1000]


def test_a_response_for_somebody_else_is_refused() -> None:
    wire = Wire()
    wire.reader.expect_stream(5)
    with pytest.raises(BadResponse, match="correlation id 6 where 5 was due"):
        wire.reader.feed(response(6))


def test_a_response_nobody_asked_for_is_refused() -> None:
    with pytest.raises(BadResponse, match="nobody asked for"):
        Wire().reader.feed(response(1))


def test_a_response_too_short_for_its_header_is_refused() -> None:
    wire = Wire()
    wire.reader.expect_stream(0)
    with pytest.raises(BadResponse, match="a response of 3 bytes"):
        wire.reader.feed(struct.pack(">ii", 3, 0))


@pytest.mark.parametrize("step", [1, 3, 5, 11, 100])
@pytest.mark.parametrize("size", [0, 1, 50])
def test_a_response_may_be_handed_over_under_another_correlation_id(size: int, step: int) -> None:
    wire = Wire()
    first, second = wire.queue.reserve(), wire.queue.reserve()
    wire.reader.expect_whole(7, lambda got: wire.queue.fill(first, got), handed_over_as=struct.pack(">i", -3))
    wire.reader.expect_whole(8, lambda got: wire.queue.fill(second, got))
    wire.reader.expect_stream(9)
    sent = response(7, size) + response(8, size) + response(9, size)
    for position in range(0, len(sent), step):
        wire.receive(sent[position : position + step])
    whole = response(7, size)
    assert wire.written == whole[:4] + struct.pack(">i", -3) + whole[8:] + sent[len(whole) :]
    assert wire.reader.owed == 0


@pytest.mark.parametrize("step", [1, 3, 5, 100])
def test_tokens_without_a_header_come_between_responses(step: int) -> None:
    wire = Wire()
    first, empty, token, last = (wire.queue.reserve() for _ in range(4))
    wire.reader.expect_whole(1, lambda got: wire.queue.fill(first, got))
    wire.reader.expect_token(lambda got: wire.queue.fill(empty, got))
    wire.reader.expect_token(lambda got: wire.queue.fill(token, got))
    wire.reader.expect_whole(2, lambda got: wire.queue.fill(last, got))
    sent = response(1) + struct.pack(">i", 0) + struct.pack(">i", 3) + b"abc" + response(2)
    for position in range(0, len(sent), step):
        wire.receive(sent[position : position + step])
    assert wire.written == sent
    assert wire.reader.owed == 0


@pytest.mark.parametrize("size", [-1, MAX_TOKEN_BYTES + 1])
def test_a_token_of_a_size_that_cannot_be_is_refused(size: int) -> None:
    wire = Wire()
    wire.reader.expect_token(lambda _: None)
    with pytest.raises(BadResponse, match=f"a token of {size} bytes"):
        wire.receive(struct.pack(">i", size))


def test_streams_that_came_together_leave_together() -> None:
    wire = Wire()
    for number in range(3):
        wire.reader.expect_stream(number)
    wire.receive(response(0) + response(1) + response(2))
    assert (wire.written, wire.writes) == (response(0) + response(1) + response(2), 1)


def test_an_answer_of_the_shims_between_two_streams_keeps_its_place() -> None:
    wire = Wire()
    wire.reader.expect_stream(0)
    wire.queue.fill(wire.queue.reserve(), response(1))
    wire.reader.expect_stream(2)
    wire.receive(response(0) + response(2))
    assert wire.written == response(0) + response(1) + response(2)
