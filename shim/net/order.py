"""The order of responses, pure: that of their requests, whoever answers.

A client connection has one :class:`ResponseQueue`. Each request that will be answered reserves a :class:`Slot` in it,
in order of arrival. A slot is filled with a whole frame (the shim's own answer, or a broker's response that was
rewritten) or it is a stream: the broker's bytes go through as they come, once the slot has reached the front.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from shim.metrics import Histogram


class Slot:
    """The place in the order of one response, or of several that are filled at once."""

    __slots__ = ("begun", "count", "filled", "frame", "held", "latency", "stream")

    def __init__(self, count: int, stream: bool) -> None:
        self.count = count
        # Bytes of the request that count until it is answered.
        self.held = 0
        self.filled = False
        # Until it leaves.
        self.frame: bytes | None = None
        self.stream = stream
        # Of requests that the shim answers itself: since when, in seconds of a monotonic clock, and where that counts.
        self.begun = 0.0
        self.latency: Histogram | None = None


class ResponseQueue:
    """``write`` gets bytes in the order of the requests; ``stream_ready`` is called when a stream reaches the front."""

    def __init__(self, write: Callable[[bytes | memoryview], None], stream_ready: Callable[[], None]) -> None:
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
        slot.filled = True
        if slots[0] is not slot:
            slot.frame = frame
        elif len(slots) == 1:
            slots.popleft()
            self.pending -= slot.count
            self.write(frame)
        else:
            slot.frame = frame
            self._release()

    def close(self) -> None:
        """``stream_ready`` is not called any more, nor kept."""
        self._stream_ready = lambda: None

    @property
    def owes(self) -> bool:
        """Whether a response is missing that is not one of the broker's streams."""
        return any(not slot.stream and slot.frame is None for slot in self._slots)

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
            slot = slots.popleft()
            slot.frame = None
            self.pending -= slot.count
        self.write(frames[0] if len(frames) == 1 else b"".join(frames))
        if slots and slots[0].stream:
            self._stream_ready()
