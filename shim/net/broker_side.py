"""The broker's half of a client connection: its link, what the broker owes on it, and when it is not read from."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol

from protocol.errors import DecodeError
from shim.config import HostPort
from shim.net.responses import BadResponse, ResponseQueue, ResponseReader
from shim.upstream import BrokerLink

# Reasons for not reading from the broker.
_CLIENT_FULL, _NOT_ITS_TURN = 1, 2


class ClientSide(Protocol):
    """The client's half, told what happens at the broker's."""

    @property
    def mid_forward(self) -> bool:
        """Whether the beginning of a request has been passed on, and its end has not."""

    def broker_full(self) -> None:
        """The link can take no more bytes: not connected yet, or the broker reads too slowly."""

    def broker_drained(self) -> None:
        """The link can take bytes again."""

    def responded(self) -> None:
        """Responses may have left the queue."""

    def broker_failed(self, reason: str, *, level: int) -> None:
        """The client's connection cannot go on; ``level`` is that of the log line."""

    def crashed(self, error: BaseException) -> None:
        """A bug of the shim's: the client's connection cannot go on."""


class BrokerSide:
    """Opens the link when there is something for the broker, and again after the broker gave up an idle one.

    Nothing is called on ``client`` after :meth:`close`.
    """

    def __init__(
        self,
        client: ClientSide,
        write: Callable[[bytes], None],
        addresses: Callable[[], Sequence[HostPort]],
        timeout_seconds: float,
    ) -> None:
        self.queue = ResponseQueue(write, self._stream_ready)
        self._client = client
        self._addresses = addresses
        self._timeout_seconds = timeout_seconds
        self._responses = ResponseReader(self.queue)
        self._link: BrokerLink | None = None
        self._stops = 0
        self._asked: set[asyncio.Future[bytes]] = set()
        # Whether requests without a response (acks=0) went out: nobody knows whether they arrived.
        self._unanswered = False
        self._closed = False

    # What the client's half wants. The bytes of a request follow with `forward`.

    def expect_stream(self, correlation_id: int) -> None:
        """A request begins whose response takes the next place in the queue, as its bytes come."""
        self._open()
        self._responses.expect_stream(correlation_id)

    def expect_whole(self, correlation_id: int, collect: Callable[[bytes], None]) -> None:
        """A request begins whose response's frame is for ``collect``."""
        self._open()
        self._responses.expect_whole(correlation_id, collect)

    def expect_nothing(self) -> None:
        """A request begins that has no response."""
        self._open()
        self._unanswered = True

    def forward(self, data: bytes) -> None:
        if self._link is not None:
            self._link.write(data)

    def ask(self, correlation_id: int, frame: bytes) -> Awaitable[bytes]:
        """Send a whole request; gives the response's frame. Awaiting it raises :class:`ConnectionError`."""
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        if self._closed:
            future.set_exception(ConnectionError("the client is gone"))
            return future
        self._asked.add(future)
        future.add_done_callback(self._asked.discard)
        self.expect_whole(correlation_id, partial(_resolve, future))
        self.forward(frame)
        return future

    def client_full(self, full: bool) -> None:
        """While the client reads too slowly, the broker is not read from."""
        if full:
            self._stop(_CLIENT_FULL)
        else:
            self._go_on(_CLIENT_FULL)

    def close(self, reason: str) -> None:
        self._closed = True
        if self._link is not None:
            self._link.close()
            self._link = None
        for future in list(self._asked):
            if not future.done():
                future.set_exception(ConnectionError(reason))
                future.exception()  # nobody may be waiting for it any more

    # What the link tells.

    def link_received(self, data: bytes) -> None:
        self._take(partial(self._responses.feed, data))

    def link_writable(self, writable: bool) -> None:
        if writable:
            self._client.broker_drained()
        else:
            self._client.broker_full()

    def link_lost(self, reason: str, *, orderly: bool) -> None:
        self._link = None
        if orderly and not self._responses.owed and not self._client.mid_forward and not self._unanswered:
            # An idle connection that the broker gave up; the next request that needs one opens it again.
            self._responses = ResponseReader(self.queue)
            self._client.broker_drained()
        else:
            # Without the shim the client would lose this connection, and know what to do.
            # The cluster's own state has its line elsewhere; this one comes for each attempt of each client.
            self._client.broker_failed(f"lost the broker: {reason}", level=logging.DEBUG)

    # The rest.

    def _open(self) -> None:
        if self._link is None and not self._closed:
            self._link = BrokerLink(self)
            self._stops &= _CLIENT_FULL  # which is not the old link's, but the client's
            self._link.set_reading(not self._stops)
            self._link.connect(self._addresses(), self._timeout_seconds)

    def _take(self, step: Callable[[], bool]) -> None:
        """Take one step of the response reader, which is False when a stream must wait for its turn."""
        try:
            if step():
                self._go_on(_NOT_ITS_TURN)
            else:
                self._stop(_NOT_ITS_TURN)
        except (BadResponse, DecodeError) as error:
            self._client.broker_failed(f"the broker's response cannot be followed: {error}", level=logging.WARNING)
        except Exception as error:
            self._client.crashed(error)
        else:
            self._client.responded()

    def _stream_ready(self) -> None:
        if self._stops & _NOT_ITS_TURN:
            # Not from here: the queue is in the middle of writing.
            asyncio.get_running_loop().call_soon(self._resume)

    def _resume(self) -> None:
        if self._link is not None:
            self._take(self._responses.resume)

    def _stop(self, reason: int) -> None:
        self._stops |= reason
        if self._link is not None:
            self._link.set_reading(False)

    def _go_on(self, reason: int) -> None:
        self._stops &= ~reason
        if not self._stops and self._link is not None:
            self._link.set_reading(True)


def _resolve(future: asyncio.Future[bytes], frame: bytes) -> None:
    if not future.done():
        future.set_result(frame)
