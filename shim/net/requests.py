"""The client's half of the stream, pure: bytes in, requests out.

A request that is forwarded is never held: its bytes go on as they come, whatever its size. A request that the shim
answers is handed over whole. Where one ends and the next begins is all that is read of a forwarded request, unless its
route has to look into its beginning to know whether a response will come.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

_HEAD = struct.Struct(">ihhi")
# api key, api version and correlation id: what every request header begins with
_SMALLEST_REQUEST = _HEAD.size - 4
# Bytes within which a forwarded request must say whether it will be answered. Two strings of 32,767 bytes, the longest
# that Kafka's old headers can carry, come before that.
MAX_BEGINNING = 1 << 17

_new: Final[Any] = tuple.__new__  # it skips the constructors of named tuples


class BadRequest(ValueError):
    """The stream cannot be followed any further; the message says why, in one line."""


class Head(NamedTuple):
    """What every request begins with."""

    size: int
    api_key: int
    api_version: int
    correlation_id: int


class Route(Protocol):
    """What the reader needs to know of a row of the API table."""

    @property
    def forwarded(self) -> bool: ...

    @property
    def answered(self) -> Callable[[bytes, int, int, int], bool | None] | None:
        """Whether a response will come, from (data, start, end, version): the request begins at ``start`` with its size
        and is there up to ``end``; None when that is too little to say. No function when one always comes.
        """

    @property
    def several(self) -> object | None:
        """Not None where several requests that have come together may be taken at once."""


RouteT = TypeVar("RouteT", bound=Route)
RouteIn = TypeVar("RouteIn", bound=Route, contravariant=True)


class RequestSink(Protocol[RouteIn]):
    """Told what is in the stream, in its order."""

    @property
    def stopped(self) -> bool:
        """Whether to take no further request now. One that has begun goes on; what is behind it is kept."""

    def forward_begins(self, head: Head, route: RouteIn, *, answered: bool) -> None:
        """A request that is passed on begins; ``answered`` is False when no response will come."""

    def forward(self, data: bytes) -> None:
        """Bytes of requests that have begun, to be passed on as they are."""

    def request(self, head: Head, route: RouteIn, frame: bytes) -> None:
        """One whole request, length field included, for the shim to answer."""

    def several(self, route: RouteIn, data: bytes, position: int) -> int:
        """At ``position`` begins such a request, and more follows. Gives where those end that were taken at once, or
        ``position``: then it is to be taken by itself.
        """


class RequestReader(Generic[RouteT]):
    """Cuts one connection's bytes into requests.

    ``routes`` maps ``api_key << 16 | api_version`` to what is done with such a request.
    """

    def __init__(self, routes: Mapping[int, RouteT], max_bytes: int, sink: RequestSink[RouteT]) -> None:
        self._routes = routes
        self._max_bytes = max_bytes
        self._sink = sink
        self._tail = b""
        self._forwarding = 0
        self._collecting = 0
        self._collected: list[bytes] = []
        self._pending: tuple[Head, RouteT] | None = None

    @property
    def mid_request(self) -> bool:
        """Whether a request has begun, its head read, and not ended."""
        return bool(self._forwarding or self._collecting)

    @property
    def mid_forward(self) -> bool:
        """Whether the beginning of a request has been passed on, and its end has not."""
        return bool(self._forwarding)

    def feed(self, data: bytes) -> None:
        """Take the next bytes; none to go on after a stop. Raises :class:`BadRequest`; the reader cannot go on then."""
        if self._tail:
            data, self._tail = self._tail + data, b""
        end = len(data)
        position = run = 0  # data[run:position] is to be passed on
        if self._forwarding:
            position = min(self._forwarding, end)
            self._forwarding -= position
        elif self._collecting:
            position = run = self._collect(data, 0)
        sink, unpack_head = self._sink, _HEAD.unpack_from
        while end - position >= _HEAD.size and not sink.stopped:
            head: Head = _new(Head, unpack_head(data, position))
            size, api_key, api_version, _ = head
            route = self._routes.get((api_key & 0xFFFF) << 16 | (api_version & 0xFFFF))
            if route is None or not _SMALLEST_REQUEST <= size <= self._max_bytes:
                self._check_size(size)
                raise BadRequest(f"api key {api_key} version {api_version} is not served")
            frame_end = position + 4 + size
            if route.forwarded:
                answered = True
                if route.answered is not None:
                    says = route.answered(data, position, min(end, frame_end), api_version)
                    if says is None and frame_end > end:
                        if end - position > MAX_BEGINNING:
                            raise BadRequest(f"api key {api_key}: a header of more than {MAX_BEGINNING} bytes")
                        break
                    # All there and still unsaid: the broker, which gets it as it is, will find it malformed.
                    answered = says is not False
                sink.forward_begins(head, route, answered=answered)
                if frame_end > end:
                    self._forwarding = frame_end - end
                    position = end
                    break
                position = frame_end
                continue
            if run < position:
                sink.forward(data[run:position])
            if frame_end <= end:
                if route.several is not None and frame_end < end:
                    run = sink.several(route, data, position)
                    if run > position:
                        position = run
                        continue
                sink.request(head, route, data[position:frame_end])
                position = run = frame_end
            else:
                self._pending, self._collecting = (head, route), size + 4
                position = run = self._collect(data, position)
        if run < position:
            sink.forward(data if position - run == end else data[run:position])
        if position < end:
            self._tail = data[position:]
            if len(self._tail) >= 4:
                self._check_size(int.from_bytes(self._tail[:4], "big", signed=True))

    def _collect(self, data: bytes, position: int) -> int:
        """Take bytes of the request that is being collected; returns where they end."""
        stop = min(position + self._collecting, len(data))
        self._collected.append(data[position:stop])
        self._collecting -= stop - position
        if not self._collecting and self._pending is not None:
            frame = b"".join(self._collected)
            self._collected.clear()
            self._sink.request(*self._pending, frame)
        return stop

    def _check_size(self, size: int) -> None:
        if _SMALLEST_REQUEST <= size <= self._max_bytes:
            return
        first = size.to_bytes(4, "big", signed=True)
        if first[:2] == b"\x16\x03":
            raise BadRequest("a TLS hello on a plaintext port")
        if first in (b"GET ", b"POST", b"HEAD", b"PUT "):
            raise BadRequest("an HTTP request on a Kafka port")
        if size < _SMALLEST_REQUEST:
            raise BadRequest(f"a request of {size} bytes")
        raise BadRequest(f"a request of {size} bytes is larger than socket.request.max.bytes ({self._max_bytes})")
