"""Splits a stream of bytes into frames: an int32 size, big-endian, and as many bytes.

Source: Kafka protocol guide, "Network".
"""

from struct import Struct
from typing import Final

_SIZE = Struct(">i")

# A response holds its correlation id at least.
SMALLEST_FRAME: Final = 4


class BadFrame(ValueError):
    """A size that no frame can have. `frames` are those complete before it in the same piece of the stream."""

    def __init__(self, reason: str, size: int, frames: list[bytes]) -> None:
        super().__init__(reason)
        self.reason = reason
        self.size = size
        self.frames = frames


class FrameTooLarge(BadFrame):
    """A size above the limit."""


class FrameParser:
    """Fed with a stream in any pieces, gives the frames in it, without their sizes.

    `max_size` and `min_size` bound a frame in bytes, its size field not counted. A size is checked as soon as its
    four bytes are there; never more than one unfinished frame is kept. After an exception the stream is lost, and
    feeding it again raises another one for the same reason, without frames.
    """

    def __init__(self, max_size: int, min_size: int = SMALLEST_FRAME) -> None:
        self._max_size = max_size
        self._min_size = min_size
        self._unfinished = bytearray()
        # Not the exception: its traceback would keep alive whatever the caller had, and grow each time it is raised.
        self._failure: tuple[type[BadFrame], str, int] | None = None

    @property
    def unfinished(self) -> int:
        """The bytes of the frame under way, its size field counted: not 0 when a stream ends inside a frame."""
        return len(self._unfinished)

    def begun(self, count: int) -> bytes:
        """The first so many of these bytes, as far as they are there."""
        return bytes(self._unfinished[:count])

    def give_up(self) -> int:
        """Forget the frame under way, whose size is there; gives how many bytes of it are still to come, which are not
        to be fed."""
        (size,) = _SIZE.unpack_from(self._unfinished)
        missing = int(size) + 4 - len(self._unfinished)
        self._unfinished = bytearray()
        return missing

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that `data` completes. Raises FrameTooLarge, BadFrame."""
        if self._failure is not None:
            kind, reason, size = self._failure
            raise kind(reason, size, [])
        frames: list[bytes] = []
        pos = self._finish(data, frames) if self._unfinished else 0
        end = len(data)
        while end - pos >= 4:
            (size,) = _SIZE.unpack_from(data, pos)
            self._check(size, frames)
            stop = pos + 4 + size
            if stop > end:
                break
            frames.append(data[pos + 4 : stop])
            pos = stop
        if pos < end:
            self._unfinished += data[pos:]
        return frames

    def _finish(self, data: bytes, frames: list[bytes]) -> int:
        """Go on with the unfinished frame; gives how much of `data` belonged to it."""
        unfinished = self._unfinished
        taken = 0
        if len(unfinished) < 4:
            taken = min(4 - len(unfinished), len(data))
            unfinished += data[:taken]
            if len(unfinished) < 4:
                return taken
        (size,) = _SIZE.unpack_from(unfinished)
        self._check(size, frames)
        missing = int(size) + 4 - len(unfinished)
        if missing > len(data) - taken:
            unfinished += data[taken:]
            return len(data)
        unfinished += data[taken : taken + missing]
        frames.append(bytes(memoryview(unfinished)[4:]))
        self._unfinished = bytearray()
        return taken + missing

    def _check(self, size: int, frames: list[bytes]) -> None:
        if self._min_size <= size <= self._max_size:
            return
        self._unfinished = bytearray()
        kind: type[BadFrame] = BadFrame
        reason = f"a frame of {size} bytes, less than {self._min_size}"
        if size > self._max_size:
            kind, reason = FrameTooLarge, f"a frame of {size} bytes, {self._max_size} allowed"
        self._failure = kind, reason, size
        raise kind(reason, size, frames)
