"""The client's half of the stream, pure: bytes in, requests out.

A request that is passed on is never held: its bytes go on as they come, whatever its size. A request that the shim
answers is handed over whole. Where one ends and the next begins is all that is read of what is passed on, unless its
route has to look into its beginning to know whether a response will come.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from protocol.errors import DecodeError

_HEAD = struct.Struct(">ihhi")
# api key, api version and correlation id: what every request header begins with
_SMALLEST_REQUEST = _HEAD.size - 4
_SIZE = 4
# Size, api key, api version and correlation id: what stands before that which is the same in each request of a client.
_BEFORE_BEGINNING = _HEAD.size
# Bytes of a beginning that are kept, to know the next one like it again.
_KEPT_BEGINNING = 512
# Bytes within which a request that is passed on must say whether it will be answered. Two strings of 32,767 bytes, the
# longest that there are, may come before that, and a little.
MAX_BEGINNING = 2 * 32_767 + 1_024

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
    def is_passed_on(self) -> bool: ...

    @property
    def answered(self) -> Callable[[bytes | memoryview, int, int, int], tuple[bool | None, int]] | None:
        """Whether a response will come, from (data, start, end, version): the request begins at ``start`` with its size
        and is there up to ``end``. When that is too little to say: None, and up to where it has to be there. Raises
        DecodeError when it cannot be said. No function when one always comes.

        It says the same of the same bytes between the correlation id and where it has read to.
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

    def admit(self, size: int) -> bool:
        """Whether there is room for a request of so many bytes; if not, the sink is stopped until there is."""

    def passing_begins(self, head: Head, route: RouteIn, *, answered: bool) -> None:
        """A request that is passed on begins; ``answered`` is False when no response will come."""

    def pass_on(self, data: bytes | memoryview) -> None:
        """Bytes of requests that have begun, to be passed on as they are."""

    def request(self, head: Head, route: RouteIn, frame: bytes) -> None:
        """One whole request, length field included, for the shim to answer."""

    def several(self, route: RouteIn, data: bytes, position: int) -> int:
        """At ``position`` begins such a request, and more follows. Gives where those end that were taken at once, or
        ``position``: then it is to be taken by itself.
        """

    def token(self, frame: bytes) -> None:
        """A SASL token without a header, size included."""


class RequestReader(Generic[RouteT]):
    """Cuts one connection's bytes into requests.

    ``routes`` maps ``api_key << 16 | api_version`` to what is done with such a request. What is served, and how large a
    request may be, can change between two requests: that is what :meth:`serve` is for.
    """

    def __init__(self, routes: Mapping[int, RouteT], max_bytes: int, *, small: int = sys.maxsize) -> None:
        """``small``: bytes of a request to be answered for which the sink is not asked whether there is room."""
        self._small = small
        self._partial: object | None = None
        self._routes = routes
        self._max_bytes = max_bytes
        self._limit = "socket.request.max.bytes"
        self._unserved = "is not served"
        self._tokens = False
        self._tail = bytearray()
        # Bytes that the tail must have for more to be said of it.
        self._wanted = 0
        self._left_to_pass = 0
        self._collecting = 0
        self._collected: list[bytes] = []
        self._pending: tuple[Head, RouteT] | None = None
        # Of the last beginning that was looked into: by whom, in which version, its bytes, and what was said.
        self._last: tuple[object, int, bytes, bool] | None = None

    @property
    def mid_request(self) -> bool:
        """Whether a request has begun, its head read, and not ended."""
        return bool(self._left_to_pass or self._collecting)

    @property
    def unfinished(self) -> object | None:
        """Stands for the request of which a part is kept: the same until that one is whole; None: there is none."""
        if self._collecting and not self._tokens:
            return self._pending
        return self._partial if self._collecting or self._tail else None

    @property
    def left_to_pass(self) -> int:
        """Bytes that are to come of the request that is passed on."""
        return self._left_to_pass

    @property
    def mid_passing(self) -> bool:
        """Whether the beginning of a request has been passed on, and its end has not."""
        return bool(self._left_to_pass)

    def serve(
        self,
        routes: Mapping[int, RouteT],
        max_bytes: int,
        *,
        limit: str = "socket.request.max.bytes",
        unserved: str = "is not served",
        tokens: bool = False,
    ) -> None:
        """From the next request on. ``limit`` and ``unserved`` are for messages: the setting that ``max_bytes`` is, and
        what is to be said of a request that is not in ``routes``.

        ``tokens``: no requests come but SASL tokens without a header.
        """
        self._routes, self._max_bytes, self._limit, self._unserved = routes, max_bytes, limit, unserved
        self._tokens = tokens
        self._wanted = 0

    def feed(self, data: bytes | memoryview, sink: RequestSink[RouteT]) -> None:
        """Take the next bytes; none to go on after a stop. Raises :class:`BadRequest`; the reader cannot go on then."""
        had_tail = bool(self._tail)
        if had_tail:
            if len(self._tail) + len(data) < self._wanted:
                self._tail += data
                return
            data, self._tail = b"".join((self._tail, data)), bytearray()
        self._wanted = 0
        if self._tokens:
            self._keep(data, self._take_tokens(data, sink), had_tail=had_tail)
            return
        end = len(data)
        position = run = 0  # data[run:position] is to be passed on
        if self._left_to_pass:
            position = min(self._left_to_pass, end)
            self._left_to_pass -= position
        elif self._collecting:
            position = run = self._collect(data, 0, sink)
        unpack_head = _HEAD.unpack_from
        while end - position >= _HEAD.size and not sink.stopped:
            head: Head = _new(Head, unpack_head(data, position))
            size, api_key, api_version, _ = head
            route = self._routes.get((api_key & 0xFFFF) << 16 | (api_version & 0xFFFF))
            if route is None or not _SMALLEST_REQUEST <= size <= self._max_bytes:
                self._check_size(size)
                raise BadRequest(f"api key {api_key} version {api_version} {self._unserved}")
            frame_end = position + 4 + size
            if route.is_passed_on:
                answered = True
                if route.answered is not None:
                    says, wanted = self._says(route.answered, head, data, position, min(end, frame_end))
                    if says is None:
                        self._wanted = wanted
                        break
                    answered = says
                sink.passing_begins(head, route, answered=answered)
                if frame_end > end:
                    self._left_to_pass = frame_end - end
                    position = end
                    break
                position = frame_end
                continue
            if run < position:
                sink.pass_on(data[run:position])
                run = position
            if size > self._small and not sink.admit(size):
                break
            data = bytes(data)  # what the shim answers outlives the read
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
                position = run = self._collect(data, position, sink)
        if run < position:
            sink.pass_on(data if position - run == end else data[run:position])
        if position < end:
            self._keep(data, position, had_tail=had_tail)
        if len(self._tail) >= _SIZE and not sink.stopped:  # what comes after a stop may be no request
            self._check_size(int.from_bytes(self._tail[:_SIZE], "big", signed=True))

    def _says(
        self,
        answered: Callable[[bytes | memoryview, int, int, int], tuple[bool | None, int]],
        head: Head,
        data: bytes | memoryview,
        position: int,
        end: int,
    ) -> tuple[bool | None, int]:
        """Whether the request at ``position`` will be answered, and, where that is unsaid, how many bytes it takes.

        The broker has to read the same, or each response from then on would be taken for another request's: what leaves
        a doubt is not passed on.
        """
        begins = position + _BEFORE_BEGINNING
        if self._last is not None:  # clients say the same in each request
            by, version, beginning, says = self._last
            ends = begins + len(beginning)
            if by is answered and version == head.api_version and ends <= end and data[begins:ends] == beginning:
                return says, ends - position
        named = f"api key {head.api_key} version {head.api_version}"
        try:
            told, ends = answered(data, position, end, head.api_version)
        except DecodeError as error:
            raise BadRequest(f"{named}: {error.path}: {error.reason}") from error
        if told is None:
            if ends - position > _SIZE + head.size:
                raise BadRequest(f"{named}: a request of {head.size} bytes that ends within its beginning")
            if ends - position > MAX_BEGINNING:
                raise BadRequest(f"{named}: a beginning of more than {MAX_BEGINNING} bytes")
        elif ends - begins <= _KEPT_BEGINNING:
            self._last = answered, head.api_version, bytes(data[begins:ends]), told
        return told, ends - position

    def _keep(self, data: bytes | memoryview, position: int, *, had_tail: bool) -> None:
        """What is behind ``position``, for when more comes."""
        if position < len(data):
            self._tail += data[position:]
            if position or not had_tail:
                self._partial = object()

    def _take_tokens(self, data: bytes | memoryview, sink: RequestSink[RouteT]) -> int:
        """Take tokens; returns where they end."""
        position = 0
        while True:
            if not self._collecting:
                if len(data) - position < _SIZE or sink.stopped:
                    return position
                size = int.from_bytes(data[position : position + _SIZE], "big", signed=True)
                if not 0 <= size <= self._max_bytes:
                    raise BadRequest(f"a token of {size} bytes; {self._limit} is {self._max_bytes}")
                if size > self._small and not sink.admit(size):
                    return position
                self._collecting, self._partial = _SIZE + size, object()
            position = self._collect(data, position, sink)
            if self._collecting:
                return position

    def _collect(self, data: bytes | memoryview, position: int, sink: RequestSink[RouteT]) -> int:
        """Take bytes of the request that is being collected; returns where they end."""
        stop = min(position + self._collecting, len(data))
        self._collected.append(bytes(data[position:stop]))
        self._collecting -= stop - position
        if not self._collecting:
            frame = b"".join(self._collected)
            self._collected.clear()
            if self._tokens:
                sink.token(frame)
                return stop
            assert self._pending is not None
            head, route = self._pending
            # It may have been long in coming.
            if self._routes.get((head.api_key & 0xFFFF) << 16 | (head.api_version & 0xFFFF)) is not route:
                raise BadRequest(f"api key {head.api_key} version {head.api_version} {self._unserved}")
            sink.request(head, route, frame)
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
        raise BadRequest(f"a request of {size} bytes is larger than {self._limit} ({self._max_bytes})")
