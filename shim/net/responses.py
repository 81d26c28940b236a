"""A broker's responses, pure: cut out of its bytes, streamed to where they stand in the order or handed over whole."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable

from shim.net.order import ResponseQueue, Slot

_HEAD = struct.Struct(">ii")
_SIZE = struct.Struct(">i")

MAX_TOKEN_BYTES = 1 << 20
"""Of what a broker answers to a SASL token: two times the longest token that it takes."""


class BadResponse(ValueError):
    """The broker's bytes do not answer what was asked; the message says why, in one line."""


class Expected:
    """One response that the broker owes: streamed into a slot, or collected and handed to ``collect``.

    Without a correlation id it is a SASL token, which has no header. ``prompt``: the broker has no reason to be long
    about it. ``handed_over_as``: what is collected has these bytes for its correlation id, if there are any.
    """

    __slots__ = ("collect", "correlation_id", "handed_over_as", "prompt", "slot")

    def __init__(
        self,
        correlation_id: int | None,
        slot: Slot | None,
        collect: Callable[[bytes], None] | None,
        prompt: bool = False,
        handed_over_as: bytes = b"",
    ) -> None:
        self.correlation_id = correlation_id
        self.handed_over_as = handed_over_as
        self.slot = slot
        self.collect = collect
        self.prompt = prompt


class ResponseReader:
    """Cuts the broker's bytes into responses.

    :meth:`feed` returns False when the next response is a stream that must wait for its turn: the caller stops
    reading from the broker and calls :meth:`resume` when the queue says that a stream is ready.
    """

    def __init__(self, queue: ResponseQueue) -> None:
        self._queue = queue
        self._expected: deque[Expected] = deque()
        self._tail = b""
        self._held = b""
        self._missing = 0
        self._collected: list[bytes] = []

    @property
    def owed(self) -> int:
        """Responses that the broker still owes."""
        return len(self._expected)

    @property
    def next(self) -> Expected | None:
        """The response that comes next, or has begun to come."""
        return self._expected[0] if self._expected else None

    def expect_stream(self, correlation_id: int) -> None:
        self._expected.append(Expected(correlation_id, self._queue.reserve(stream=True), None))

    def expect_whole(
        self,
        correlation_id: int,
        collect: Callable[[bytes], None],
        *,
        prompt: bool = False,
        handed_over_as: bytes = b"",
    ) -> None:
        self._expected.append(Expected(correlation_id, None, collect, prompt, handed_over_as))

    def expect_token(self, collect: Callable[[bytes], None]) -> None:
        self._expected.append(Expected(None, None, collect, prompt=True))

    def resume(self) -> bool:
        """Go on with what was held; returns what :meth:`feed` returns."""
        held, self._held = self._held, b""
        return self.feed(held) if held else True

    def feed(self, data: bytes | memoryview) -> bool:
        """Take the next bytes. Raises :class:`BadResponse`; the reader cannot go on then."""
        if self._held:
            self._held += data
            return False
        if self._tail:
            data, self._tail = self._tail + data, b""
        end = len(data)
        position = run = 0  # data[run:position] belongs to streams at the front and is to be written
        while position < end:
            if not self._missing:
                if end - position < _HEAD.size and not (end - position >= _SIZE.size and self._token_is_next):
                    break
                expected = self._begin(data, position)
                if expected.slot is not None and not self._queue.is_front(expected.slot):
                    self._missing = 0
                    if run < position:
                        self._queue.write(data[run:position])
                    self._held = bytes(data[position:])
                    return False
            expected = self._expected[0]
            stop = min(position + self._missing, end)
            self._missing -= stop - position
            if expected.collect is not None:
                if run < position:
                    self._queue.write(data[run:position])
                if not self._collected and expected.handed_over_as:
                    # All of the head is there. Put in here, the id takes no further copy of what may be many MB.
                    self._collected += (bytes(data[position : position + _SIZE.size]), expected.handed_over_as)
                    position += _HEAD.size
                self._collected.append(bytes(data[position:stop]))
                run = stop
            position = stop
            if self._missing:
                break
            self._expected.popleft()
            if expected.collect is not None:
                frame = b"".join(self._collected)
                self._collected.clear()
                expected.collect(frame)
            else:
                if not self._queue.streams_next():
                    self._queue.write(data if position - run == end else data[run:position])
                    run = position
                self._queue.stream_ended()
        if run < position:
            self._queue.write(data if position - run == end else data[run:position])
        if position < end:
            self._tail = bytes(data[position:])
        return True

    @property
    def _token_is_next(self) -> bool:
        return bool(self._expected) and self._expected[0].correlation_id is None

    def _begin(self, data: bytes | memoryview, position: int) -> Expected:
        expected = self._expected[0] if self._expected else None
        if expected is not None and expected.correlation_id is None:
            (size,) = _SIZE.unpack_from(data, position)
            if not 0 <= size <= MAX_TOKEN_BYTES:
                raise BadResponse(f"a token of {size} bytes")
            self._missing = _SIZE.size + size
            return expected
        size, correlation_id = _HEAD.unpack_from(data, position)
        if size < 4:
            raise BadResponse(f"a response of {size} bytes")
        if expected is None:
            raise BadResponse(f"a response (correlation id {correlation_id}) that nobody asked for")
        if correlation_id != expected.correlation_id:
            raise BadResponse(f"correlation id {correlation_id} where {expected.correlation_id} was due")
        self._missing = size + 4
        return expected
