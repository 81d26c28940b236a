"""One client connection: its requests in, its responses out in their order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, TypeVar, cast

from protocol.errors import DecodeError
from shim.api import ROUTES, Call, Forwarded, Refused, Rewritten, Route, Served, Services
from shim.config import HostPort, Settings
from shim.net.broker_side import BrokerSide
from shim.net.requests import BadRequest, Head, RequestReader
from shim.net.responses import Slot

log = logging.getLogger(__name__)

T = TypeVar("T")

Rewrite = Callable[[Services, int, bytes], bytes | Coroutine[Any, Any, bytes]]

# Responses that may wait on one connection before the shim takes no more requests from it.
MAX_PENDING = 1024

# Answers often come many at a time, as when a flight has landed. What one turn of the loop brings is one call to the
# system, up to so many bytes; from there on it is written at once, so that a client that does not read is noticed.
GATHERED_BYTES = 16_384

# How long a connection that the shim has closed may take to carry what was written before.
LINGER_SECONDS = 10.0

# Reasons for not taking requests from the client: the broker does not read, too many are unanswered, it does not read,
# one has to be decided before those behind it.
_LINK_FULL, _TOO_MANY, _CLIENT_FULL, _UNDECIDED = 1, 2, 4, 8


class Sessions:
    """The connections that are open; one that the shim has closed is, until its last bytes are sent."""

    def __init__(self) -> None:
        self._open: set[ClientSession] = set()
        self._none_left = asyncio.Event()
        self._draining = False

    def __len__(self) -> int:
        return len(self._open)

    def add(self, session: ClientSession) -> None:
        self._open.add(session)
        self._none_left.clear()
        if self._draining:
            session.drain()

    def discard(self, session: ClientSession) -> None:
        self._open.discard(session)
        if not self._open:
            self._none_left.set()

    async def drain(self, timeout_seconds: float) -> None:
        """Close each one when the requests taken from it are answered, and wait for that; then cut off the others."""
        self._draining = True
        for session in list(self._open):
            session.drain()
        if self._open:
            try:
                async with asyncio.timeout(timeout_seconds):
                    await self._none_left.wait()
            except TimeoutError:
                log.warning("%d connections cut off with requests unanswered or answers unread", len(self._open))
        self.abort()

    def abort(self) -> None:
        """Cut off all of them."""
        self._draining = True
        for session in list(self._open):
            session.abort()


class ClientSession(asyncio.Protocol):
    """Glue between the request reader, the API table, the client's transport and the broker's half.

    Memory is bounded by what one read of either side brings, the transports' write limits, ``MAX_PENDING`` answers,
    and the one request that is being collected for the shim itself.
    """

    def __init__(
        self,
        services: Services,
        settings: Settings,
        node_id: int | None,
        addresses: Callable[[], Sequence[HostPort]],
        sessions: Sessions,
    ) -> None:
        self.node_id = node_id
        self.client_host = ""
        self._services = services
        self._sessions = sessions
        self._requests: RequestReader[Route] = RequestReader(ROUTES, settings.socket_request_max_bytes, self)
        self._broker = BrokerSide(self, self._write, addresses, settings.socket_connection_setup_timeout_ms / 1000)
        self._queue = self._broker.queue
        self._transport: asyncio.Transport | None = None
        self._outgoing: list[bytes] = []
        self._outgoing_bytes = 0
        self._tasks: set[asyncio.Task[Any]] = set()
        self._stops = 0
        self._paused = False
        self._draining = False
        self._closed = False
        self._linger: asyncio.TimerHandle | None = None
        self._peer = ""

    # What the client's transport tells.

    def connection_made(self, made: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, made)  # uvloop's is one in all but its class
        peer = transport.get_extra_info("peername")
        if peer is None:  # gone before it was accepted
            self._closed = True
            transport.abort()
            return
        self._transport = transport
        self._peer = str(HostPort(peer[0], peer[1]))
        self.client_host = f"/{peer[0]}"
        self._sessions.add(self)

    def data_received(self, data: bytes) -> None:
        if self._closed or (self._draining and not self._requests.mid_request):
            return
        self._feed(data)

    def pause_writing(self) -> None:
        self._stop(_CLIENT_FULL)
        self._broker.client_full(True)

    def resume_writing(self) -> None:
        self._broker.client_full(False)
        self._go_on(_CLIENT_FULL)

    def connection_lost(self, exc: Exception | None) -> None:
        self._close(None)
        if self._linger is not None:
            self._linger.cancel()
        self._sessions.discard(self)

    # What the request reader asks and tells.

    @property
    def stopped(self) -> bool:
        return bool(self._stops) or self._draining or self._closed

    def forward_begins(self, head: Head, route: Route, *, answered: bool) -> None:
        if not answered:
            self._broker.expect_nothing()
            return
        match route.disposition:
            case Rewritten(rewrite):
                collect = partial(self._rewrite, self.place(1), rewrite, head.api_version)
                self._broker.expect_whole(head.correlation_id, collect)
            case Forwarded():
                self._broker.expect_stream(head.correlation_id)
                if self._queue.pending >= MAX_PENDING:
                    self._stop(_TOO_MANY)

    def forward(self, data: bytes) -> None:
        self._broker.forward(data)

    def several(self, route: Route, data: bytes, position: int) -> int:
        assert route.several is not None
        return route.several(self._services, self, data, position, MAX_PENDING - self._queue.pending)

    def request(self, head: Head, route: Route, frame: bytes) -> None:
        respond = self.place(1)
        disposition = route.disposition
        if isinstance(disposition, Served):
            api, handle, failure = disposition
            call: Call[Any, Any] = Call(api, head.api_version, frame, self, failure, respond)
            pending = handle(self._services, call)
            if pending is not None:
                self._in_background(pending)
        elif isinstance(disposition, Refused):
            respond(disposition.answer(head.correlation_id))

    # What handlers use.

    def place(self, count: int) -> Callable[[bytes], None]:
        queue = self._queue
        slot = queue.reserve(count)
        if queue.pending >= MAX_PENDING:
            self._stop(_TOO_MANY)
        return partial(self._fill, slot)

    def ask(self, correlation_id: int, frame: bytes) -> Awaitable[bytes]:
        return self._broker.ask(correlation_id, frame)

    def pause_requests(self) -> None:
        self._stop(_UNDECIDED)

    def resume_requests(self) -> None:
        self._go_on(_UNDECIDED)

    def give_up(self, reason: str) -> None:
        self._close(reason, level=logging.ERROR)

    # What the broker's half asks and tells.

    @property
    def mid_forward(self) -> bool:
        return self._requests.mid_forward

    def broker_full(self) -> None:
        self._stop(_LINK_FULL)

    def broker_drained(self) -> None:
        self._go_on(_LINK_FULL)

    def responded(self) -> None:
        if self._closed:
            return
        if self._stops & _TOO_MANY and self._queue.pending <= MAX_PENDING // 2:
            self._go_on(_TOO_MANY)
        if self._draining and not self._queue.pending and not self._requests.mid_request:
            self._close(None)

    def broker_failed(self, reason: str, *, level: int) -> None:
        self._close(reason, level=level)

    def crashed(self, error: BaseException) -> None:
        if not self._closed:
            log.error("client %s: a request could not be answered", self._peer, exc_info=error)
            self._close("internal error", level=logging.ERROR)

    # The rest.

    def drain(self) -> None:
        """Take no more requests; close when the ones that have begun are answered.

        What still comes is read and dropped: closing with bytes unread would reset the connection, and with it answers
        that are on their way.
        """
        self._draining = True
        self.responded()

    def abort(self) -> None:
        """Close at once; what was written to the client and not sent is lost."""
        self._close(None)
        if self._transport is not None:
            self._transport.abort()

    def _feed(self, data: bytes) -> None:
        try:
            self._requests.feed(data)
        except BadRequest as error:
            self._close(str(error))
        except DecodeError as error:  # in a request that the shim answers
            self._close(f"malformed request: {error}")
        except Exception as error:
            self.crashed(error)
        if self._draining:
            self.responded()

    def _rewrite(self, respond: Callable[[bytes], None], rewrite: Rewrite, version: int, frame: bytes) -> None:
        result = rewrite(self._services, version, frame)
        if isinstance(result, bytes):
            respond(result)
        else:
            self._in_background(result, respond)

    def _fill(self, slot: Slot, frame: bytes) -> None:
        if not self._closed:
            self._queue.fill(slot, frame)
            if self._stops or self._draining:
                self.responded()

    def _write(self, data: bytes) -> None:
        self._outgoing.append(data)
        self._outgoing_bytes += len(data)
        if self._outgoing_bytes >= GATHERED_BYTES:
            self._send()
        elif len(self._outgoing) == 1:
            asyncio.get_running_loop().call_soon(self._send)

    def _send(self) -> None:
        outgoing, self._outgoing, self._outgoing_bytes = self._outgoing, [], 0
        if outgoing and self._transport is not None and not self._transport.is_closing():
            self._transport.write(outgoing[0] if len(outgoing) == 1 else b"".join(outgoing))

    def _in_background(self, work: Coroutine[Any, Any, T], then: Callable[[T], object] = lambda _: None) -> None:
        """`work` is a task of its own, so that it is ended in order even where the client leaves before it begins."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(partial(self._finished, then))

    def _finished(self, then: Callable[[T], object], task: asyncio.Task[T]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            try:
                then(task.result())
            except Exception as failure:
                self.crashed(failure)
        elif isinstance(error, ConnectionError):
            self._close(str(error))
        elif isinstance(error, DecodeError):
            self._close(f"the broker's response cannot be followed: {error}")
        else:
            self.crashed(error)

    def _stop(self, reason: int) -> None:
        self._stops |= reason
        if not self._paused and self._transport is not None and not self._transport.is_closing():
            self._paused = True
            self._transport.pause_reading()

    def _go_on(self, reason: int) -> None:
        if self._stops & reason:
            self._stops &= ~reason
            if not self._stops:
                # Not from here: the request reader may be at work.
                asyncio.get_running_loop().call_soon(self._resume)

    def _resume(self) -> None:
        """Take the requests that were read before the stop, then read on."""
        if self._stops or self._closed:
            return
        self._feed(b"")
        if not self._stops and self._paused and self._transport is not None and not self._transport.is_closing():
            self._paused = False
            self._transport.resume_reading()

    def _close(self, reason: str | None, *, level: int = logging.WARNING) -> None:
        """Close both sides; what has been written to the client is still sent. ``reason`` goes to the log."""
        if self._closed:
            return
        self._closed = True
        if reason is not None:
            log.log(level, "client %s: connection closed: %s", self._peer, reason)
        self._send()
        if self._transport is not None:
            self._transport.close()
            if self._transport.get_write_buffer_size():
                self._linger = asyncio.get_running_loop().call_later(LINGER_SECONDS, self._transport.abort)
        self._broker.close(reason or "the connection was closed")
        for task in list(self._tasks):
            task.cancel()
