"""The broker's half of the stream, pure: responses put back into the order of their requests.

A client connection has one :class:`ResponseQueue`. Each request that will be answered reserves a :class:`Slot` in it,
in order of arrival. A slot is filled with a whole frame (the shim's own answer, or a broker's response that was
rewritten) or it is a stream: the broker's bytes go through as they come, once the slot has reached the front.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable

_HEAD = struct.Struct(">ii")


class BadResponse(ValueError):
    """The broker's bytes do not answer what was asked; the message says why, in one line."""


class Slot:
    """The place in the order of one response, or of several that are filled at once."""

    __slots__ = ("count", "frame", "stream")

    def __init__(self, count: int, stream: bool) -> None:
        self.count = count
        self.frame: bytes | None = None
        self.stream = stream


class ResponseQueue:
    """``write`` gets bytes in the order of the requests; ``stream_ready`` is called when a stream reaches the front."""

    def __init__(self, write: Callable[[bytes], None], stream_ready: Callable[[], None]) -> None:
        self.write = write
        self.pending = 0
        """Responses that have not left."""
        self._stream_ready = stream_ready
        self._slots: deque[Slot] = deque()

    def reserve(self, count: int = 1, *, stream: bool = False) -> Slot:
        slot = Slot(count, stream)
        self._slots.append(slot)
        self.pending += count
        return slot

    def fill(self, slot: Slot, frame: bytes) -> None:
        slots = self._slots
        if slots[0] is not slot:
            slot.frame = frame
        elif len(slots) == 1:
            slots.popleft()
            self.pending -= slot.count
            self.write(frame)
        else:
            slot.frame = frame
            self._release()

    def is_front(self, slot: Slot) -> bool:
        return self._slots[0] is slot

    def streams_next(self) -> bool:
        """Whether the slot behind the front is a stream too: nothing of the shim's own goes out between the two."""
        return len(self._slots) > 1 and self._slots[1].stream

    def stream_ended(self) -> None:
        """The front slot's stream is complete."""
        self._slots.popleft()
        self.pending -= 1
        if self._slots and self._slots[0].frame is not None:
            self._release()

    def _release(self) -> None:
        slots, frames = self._slots, []
        while slots and (frame := slots[0].frame) is not None:
            frames.append(frame)
            self.pending -= slots.popleft().count
        self.write(frames[0] if len(frames) == 1 else b"".join(frames))
        if slots and slots[0].stream:
            self._stream_ready()


class Expected:
    """One response that the broker owes: streamed into a slot, or collected and handed to ``collect``."""

    __slots__ = ("collect", "correlation_id", "slot")

    def __init__(self, correlation_id: int, slot: Slot | None, collect: Callable[[bytes], None] | None) -> None:
        self.correlation_id = correlation_id
        self.slot = slot
        self.collect = collect


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

    def expect_stream(self, correlation_id: int) -> None:
        self._expected.append(Expected(correlation_id, self._queue.reserve(stream=True), None))

    def expect_whole(self, correlation_id: int, collect: Callable[[bytes], None]) -> None:
        self._expected.append(Expected(correlation_id, None, collect))

    def resume(self) -> bool:
        """Go on with what was held; returns what :meth:`feed` returns."""
        held, self._held = self._held, b""
        return self.feed(held) if held else True

    def feed(self, data: bytes) -> bool:
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
                if end - position < _HEAD.size:
                    break
                expected = self._begin(data, position)
                if expected.slot is not None and not self._queue.is_front(expected.slot):
                    self._missing = 0
                    if run < position:
                        self._queue.write(data[run:position])
                    self._held = data[position:]
                    return False
            expected = self._expected[0]
            stop = min(position + self._missing, end)
            self._missing -= stop - position
            if expected.collect is not None:
                if run < position:
                    self._queue.write(data[run:position])
                self._collected.append(data[position:stop])
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
            self._tail = data[position:]
        return True

    def _begin(self, data: bytes, position: int) -> Expected:
        size, correlation_id = _HEAD.unpack_from(data, position)
        if size < 4:
            raise BadResponse(f"a response of {size} bytes")
        if not self._expected:
            raise BadResponse(f"a response (correlation id {correlation_id}) that nobody asked for")
        expected = self._expected[0]
        if correlation_id != expected.correlation_id:
            raise BadResponse(f"correlation id {correlation_id} where {expected.correlation_id} was due")
        self._missing = size + 4
        return expected
