"""One client connection: its requests in, its responses out in their order, and its own link to the broker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, cast

from shim.api import ROUTES, Call, Forwarded, Refused, Rewritten, Route, Served, Services
from shim.config import HostPort, Settings
from shim.net.requests import BadRequest, Head, RequestReader
from shim.net.responses import ResponseQueue, ResponseReader, Slot
from shim.upstream import BrokerLink

log = logging.getLogger(__name__)

Rewrite = Callable[[Services, int, bytes], bytes | Awaitable[bytes]]

# Responses that may wait on one connection before the shim stops reading more requests from it.
MAX_PENDING = 1024

# Reasons for not reading from the client.
_LINK_FULL, _TOO_MANY = 1, 2
# Reasons for not reading from the broker.
_CLIENT_FULL, _NOT_ITS_TURN = 1, 2


class Sessions:
    """The connections that are open."""

    def __init__(self) -> None:
        self._open: set[ClientSession] = set()
        self._none_left = asyncio.Event()

    def add(self, session: ClientSession) -> None:
        self._open.add(session)
        self._none_left.clear()

    def discard(self, session: ClientSession) -> None:
        self._open.discard(session)
        if not self._open:
            self._none_left.set()

    async def drain(self, timeout_seconds: float) -> None:
        """Close each one when the requests read from it are answered; after the time-out, at once."""
        for session in list(self._open):
            session.drain()
        if self._open:
            try:
                async with asyncio.timeout(timeout_seconds):
                    await self._none_left.wait()
            except TimeoutError:
                log.warning("%d connections cut off with requests unanswered", len(self._open))
        for session in list(self._open):
            session.abort()


class ClientSession(asyncio.Protocol):
    """Glue between the pure readers, the API table and the two transports.

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
        self._settings = settings
        self._addresses = addresses
        self._sessions = sessions
        self._requests: RequestReader[Route] = RequestReader(ROUTES, settings.socket_request_max_bytes, self)
        self._queue = ResponseQueue(self._write, self._stream_ready)
        self._responses = ResponseReader(self._queue)
        self._transport: asyncio.Transport | None = None
        self._link: BrokerLink | None = None
        self._asked: set[asyncio.Future[bytes]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._client_stops = 0
        self._link_stops = 0
        self._draining = False
        # Whether requests without a response (acks=0) went out: nobody knows whether they arrived.
        self._unanswered = False
        self._peer = ""

    # What the client's transport tells.

    def connection_made(self, made: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, made)  # uvloop's is one in all but its class
        peer = transport.get_extra_info("peername")
        if peer is None:  # gone before it was accepted
            transport.abort()
            return
        self._transport = transport
        self._peer = str(HostPort(peer[0], peer[1]))
        self.client_host = f"/{peer[0]}"
        self._sessions.add(self)

    def data_received(self, data: bytes) -> None:
        if self._transport is None or self._draining:
            return
        try:
            self._requests.feed(data)
        except BadRequest as error:
            self._close(str(error))
        except ValueError as error:  # a request that the shim answers is malformed
            self._close(f"malformed request: {error}")
        if len(self._queue) > MAX_PENDING:
            self._stop_client(_TOO_MANY)

    def pause_writing(self) -> None:
        self._stop_link(_CLIENT_FULL)

    def resume_writing(self) -> None:
        self._go_on_link(_CLIENT_FULL)

    def connection_lost(self, exc: Exception | None) -> None:
        self._close(None)

    # What the request reader tells.

    def forward_begins(self, head: Head, route: Route, *, answered: bool) -> None:
        if self._open_link() is None:
            return
        if not answered:
            self._unanswered = True
            return
        match route.disposition:
            case Rewritten(rewrite):
                collect = partial(self._rewrite, self._queue.reserve(), rewrite, head.api_version)
                self._responses.expect_whole(head.correlation_id, collect)
            case Forwarded():
                self._responses.expect_stream(head.correlation_id)

    def forward(self, data: bytes) -> None:
        if self._link is not None:
            self._link.write(data)

    def request(self, head: Head, route: Route, frame: bytes) -> None:
        if self._transport is None:
            return
        respond = partial(self._fill, self._queue.reserve())
        match route.disposition:
            case Served(api, handle, failure):
                call: Call[Any, Any] = Call(api, head.api_version, frame, self, failure, respond)
                pending = handle(self._services, call)
                if pending is not None:
                    self._in_background(pending)
            case Refused(answer):
                respond(answer(head.correlation_id))

    # What handlers use.

    def ask(self, correlation_id: int, frame: bytes) -> Awaitable[bytes]:
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        link = self._open_link()
        if link is None:
            future.set_exception(ConnectionError("the client is gone"))
            return future
        self._asked.add(future)
        future.add_done_callback(self._asked.discard)
        self._responses.expect_whole(correlation_id, partial(_resolve, future))
        link.write(frame)
        return future

    def give_up(self, reason: str) -> None:
        self._close(reason, level=logging.ERROR)

    # What the link tells.

    def link_received(self, data: bytes) -> None:
        try:
            if not self._responses.feed(data):
                self._stop_link(_NOT_ITS_TURN)
        except ValueError as error:
            self._close(f"the broker's response cannot be followed: {error}")
        self._responded()

    def link_writable(self, writable: bool) -> None:
        if writable:
            self._go_on_client(_LINK_FULL)
        else:
            self._stop_client(_LINK_FULL)

    def link_lost(self, reason: str, *, orderly: bool) -> None:
        if orderly and not self._responses.owed and not self._requests.mid_request and not self._unanswered:
            # An idle connection that the broker gave up; the next request that needs one opens it again.
            self._link = None
            self._responses = ResponseReader(self._queue)
            self._go_on_client(_LINK_FULL)
        else:
            # Without the shim the client would lose this connection, and know what to do.
            self._close(f"lost the broker: {reason}", level=logging.INFO)

    # The rest.

    def drain(self) -> None:
        """Take no more requests; close when the ones that were taken are answered.

        What still comes is read and dropped: closing with bytes unread would reset the connection, and with it answers
        that are on their way.
        """
        self._draining = True
        self._responded()

    def abort(self) -> None:
        transport = self._transport
        self._close(None)
        if transport is not None:
            transport.abort()

    def _open_link(self) -> BrokerLink | None:
        if self._link is None and self._transport is not None:
            self._link = BrokerLink(self)
            self._link_stops = 0
            self._link.connect(self._addresses(), self._settings.socket_connection_setup_timeout_ms / 1000)
        return self._link

    def _rewrite(self, slot: Slot, rewrite: Rewrite, version: int, frame: bytes) -> None:
        result = rewrite(self._services, version, frame)
        if isinstance(result, bytes):
            self._fill(slot, result)
        else:
            self._in_background(self._fill_later(slot, result))

    async def _fill_later(self, slot: Slot, frame: Awaitable[bytes]) -> None:
        self._fill(slot, await frame)

    def _fill(self, slot: Slot, frame: bytes) -> None:
        if self._transport is not None:
            self._queue.fill(slot, frame)
            self._responded()

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def _responded(self) -> None:
        if self._client_stops & _TOO_MANY and len(self._queue) <= MAX_PENDING // 2:
            self._go_on_client(_TOO_MANY)
        if self._draining and not len(self._queue):
            self._close(None)

    def _stream_ready(self) -> None:
        if self._link_stops & _NOT_ITS_TURN:
            # Not from here: the queue is in the middle of writing.
            asyncio.get_running_loop().call_soon(self._resume_stream)

    def _resume_stream(self) -> None:
        if self._link is None:
            return
        try:
            if self._responses.resume():
                self._go_on_link(_NOT_ITS_TURN)
        except ValueError as error:
            self._close(f"the broker's response cannot be followed: {error}")

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            return
        if isinstance(error, (ConnectionError, ValueError)):
            self._close(str(error))
        else:
            log.error("client %s: a request could not be answered", self._peer, exc_info=error)
            self._close("internal error")

    def _stop_client(self, reason: int) -> None:
        if not self._client_stops and self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()
        self._client_stops |= reason

    def _go_on_client(self, reason: int) -> None:
        if not self._client_stops & reason:
            return
        self._client_stops &= ~reason
        if not self._client_stops and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def _stop_link(self, reason: int) -> None:
        self._link_stops |= reason
        if self._link is not None:
            self._link.set_reading(False)

    def _go_on_link(self, reason: int) -> None:
        self._link_stops &= ~reason
        if not self._link_stops and self._link is not None:
            self._link.set_reading(True)

    def _close(self, reason: str | None, *, level: int = logging.WARNING) -> None:
        """Close both sides; what has been written to the client is still sent. ``reason`` goes to the log."""
        if self._transport is None:
            return
        transport, self._transport = self._transport, None
        if reason is not None:
            log.log(level, "client %s: connection closed: %s", self._peer, reason)
        transport.close()
        if self._link is not None:
            self._link.close()
            self._link = None
        for future in list(self._asked):
            if not future.done():
                future.set_exception(ConnectionError(reason or "the connection was closed"))
                future.exception()  # nobody may be waiting for it any more
        for task in list(self._tasks):
            task.cancel()
        self._sessions.discard(self)


def _resolve(future: asyncio.Future[bytes], frame: bytes) -> None:
    if not future.done():
        future.set_result(frame)
