"""The broker's half of a client connection: its link, what the broker owes on it, and when it is not read from."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol, TypeVarTuple

from protocol.errors import DecodeError
from shim.config import HostPort
from shim.metrics import Traffic
from shim.net.order import ResponseQueue
from shim.net.overdue import Overdue
from shim.net.responses import BadResponse, ResponseReader
from shim.upstream import BrokerLink

_Arguments = TypeVarTuple("_Arguments")

# Where the correlation id is in a request's frame, size included.
_REQUEST_ID = slice(8, 12)

# Reasons for not reading from the broker.
_CLIENT_FULL, _NOT_ITS_TURN = 1, 2


class PassingClient(Protocol):
    """The client's half, told what happens at the broker's."""

    @property
    def mid_passing(self) -> bool:
        """Whether the beginning of a request has been passed on, and its end has not."""

    def broker_full(self) -> None:
        """The link can take no more bytes: not connected yet, or the broker reads too slowly."""

    def broker_drained(self) -> None:
        """The link can take bytes again."""

    def responding(self) -> None:
        """Responses may leave the queue now; they may wait to go out together at :meth:`responded`."""

    def responded(self) -> None:
        """Responses may have left the queue."""

    def broker_failed(self, reason: str, *, level: int) -> None:
        """The client's connection cannot go on; ``level`` is that of the log line."""

    def crashed(self, error: BaseException) -> None:
        """A bug of the shim's: the client's connection cannot go on."""


class BrokerSide:
    """Opens the link when there is something for the broker, and again after the broker gave up an idle one: unless it
    ``authenticates``, as the broker knows nobody on a new one.

    Nothing is called on ``client`` after :meth:`close`.
    """

    def __init__(
        self,
        client: PassingClient,
        write: Callable[[bytes | memoryview], None],
        addresses: Callable[[], Sequence[HostPort]],
        timeout_seconds: float,
        make_link: Callable[[BrokerSide], BrokerLink] = BrokerLink,
        *,
        authenticates: bool = False,
        overdue: Overdue,
        traffic: Traffic | None = None,
    ) -> None:
        """``timeout_seconds``: for connecting. ``make_link``: for its owner. ``overdue``: for what is owed on it."""
        self._traffic = traffic or Traffic()
        self._make_link = make_link
        self.queue = ResponseQueue(write, self._stream_ready)
        self._client = client
        self._addresses = addresses
        self._timeout_seconds = timeout_seconds
        self._responses = ResponseReader(self.queue)
        self._link: BrokerLink | None = None
        self._reopens = not authenticates
        self._stops = 0
        self._asked: set[asyncio.Future[bytes]] = set()
        self._overdue = overdue
        self._heard = False
        self._look: asyncio.TimerHandle | None = None
        self._connected = False
        # Whether requests without a response (acks=0) went out: nobody knows whether they arrived.
        self._sent_unanswerable = False
        self._closed = False

    # What the client's half wants. The bytes of a request follow with `pass_on`.

    def expect_stream(self, correlation_id: int) -> None:
        """A request begins whose response takes the next place in the queue, as its bytes come."""
        self._open()
        self._responses.expect_stream(correlation_id)

    def expect_whole(
        self,
        correlation_id: int,
        collect: Callable[[bytes], None],
        *,
        prompt: bool = False,
        handed_over_as: bytes = b"",
    ) -> None:
        """A request begins whose response's frame is for ``collect``, with ``handed_over_as``, if any, in the place of
        the correlation id. ``prompt``: the shim itself waits for it, and the broker has no reason to be long."""
        self._open()
        self._responses.expect_whole(correlation_id, collect, prompt=prompt, handed_over_as=handed_over_as)
        self._watch()

    def expect_token(self, collect: Callable[[bytes], None]) -> None:
        """A SASL token goes out; what the broker answers, its size in front, is for ``collect``."""
        self._open()
        self._responses.expect_token(collect)
        self._watch()

    def expect_nothing(self) -> None:
        """A request begins that has no response."""
        self._open()
        self._sent_unanswerable = True

    def pass_on(self, data: bytes | memoryview) -> None:
        if self._link is not None:
            self._traffic.to_brokers += len(data)
            self._link.write(data)

    def exchange(self, frame: bytes, collect: Callable[[bytes], None], *, prompt: bool = True) -> None:
        """Send a whole request; ``collect`` is given the response's frame. ``prompt`` as in :meth:`expect_whole`.

        It goes under a correlation id that no client can know: what an answer decides must be the answer to this
        question, and a client that had the two sides count its requests differently could put another in its place.
        """
        theirs = frame[_REQUEST_ID]
        own = new_id(theirs)
        begins, ends = _REQUEST_ID.start, _REQUEST_ID.stop
        correlation_id = int.from_bytes(own, "big", signed=True)
        self.expect_whole(correlation_id, collect, prompt=prompt, handed_over_as=theirs)
        self.pass_on(b"".join((frame[:begins], own, memoryview(frame)[ends:])))

    def ask(self, frame: bytes, *, prompt: bool = True) -> Awaitable[bytes]:
        """As :meth:`exchange`; gives the response's frame. Awaiting it raises :class:`ConnectionError`, also where the
        broker does not answer in time: nobody knows then what comes next on the link."""
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        if self._closed:
            future.set_exception(ConnectionError("the client is gone"))
            return future
        self._asked.add(future)
        future.add_done_callback(self._asked.discard)
        self.exchange(frame, partial(_resolve, future), prompt=prompt)
        return future

    def client_full(self, full: bool) -> None:
        """While the client reads too slowly, the broker is not read from."""
        if full:
            self._stop(_CLIENT_FULL)
        else:
            self._go_on(_CLIENT_FULL)

    def close(self, reason: str) -> None:
        self._closed = True
        # They lead back to this, or to who has this: a cycle would wait for a collector that seldom comes (shim.main).
        self.queue.close()
        del self._client
        if self._look is not None:
            self._look.cancel()
        if self._link is not None:
            self._link.close()
            self._link = None
        for future in list(self._asked):
            if not future.done():
                future.set_exception(ConnectionError(reason))
                future.exception()  # nobody may be waiting for it any more

    # What the link tells.

    def link_received(self, data: bytes | memoryview) -> None:
        self._heard = True
        self._traffic.from_brokers += len(data)
        self._take(self._responses.feed, data)

    def link_writable(self, writable: bool) -> None:
        if writable:
            self._connected = True
            self._client.broker_drained()
        else:
            self._client.broker_full()

    def link_lost(self, reason: str, *, orderly: bool) -> None:
        self._link = None
        idle = not self._responses.owed and not self._client.mid_passing and not self._sent_unanswerable
        if orderly and idle and self._reopens:
            # An idle connection that the broker gave up; the next request that needs one opens it again.
            self._responses = ResponseReader(self.queue)
            self._client.broker_drained()
        else:
            # Without the shim the client would lose this connection, and know what to do.
            # This line comes for each attempt of each client; that a broker cannot be reached has one of its own.
            self._client.broker_failed(f"lost the broker: {reason}", level=logging.DEBUG)

    # Whether an answer is overdue. Where nothing but streams is due, that is left to the look at idle connections.

    def _watch(self) -> None:
        if self._look is None and not self._closed:
            self._look = asyncio.get_running_loop().call_later(self._overdue.pause_seconds, self._look_whether_overdue)

    def _look_whether_overdue(self) -> None:
        self._look = None
        # Connecting has a time-out of its own, and what the client does not let through is not late.
        due = self._responses.next if self._connected and not self._stops else None
        reason = self._overdue.look(asyncio.get_running_loop().time(), due, heard=self._heard)
        self._heard = False
        if reason is not None:
            self._client.broker_failed(reason, level=logging.WARNING)
        elif self._responses.owed:
            self._watch()

    # The rest.

    def _open(self) -> None:
        if self._link is None and not self._closed:
            self._link = self._make_link(self)
            self._connected = False
            self._stops &= _CLIENT_FULL  # which is not the old link's, but the client's
            self._link.set_reading(not self._stops)
            self._link.connect(self._addresses(), self._timeout_seconds)

    def _take(self, step: Callable[[*_Arguments], bool], *args: *_Arguments) -> None:
        """Take one step of the response reader, which is False when a stream must wait for its turn."""
        client = self._client
        client.responding()
        try:
            if step(*args):
                if self._stops:
                    self._go_on(_NOT_ITS_TURN)
            else:
                self._stop(_NOT_ITS_TURN)
        except (BadResponse, DecodeError) as error:
            client.broker_failed(f"the broker's response cannot be followed: {error}", level=logging.WARNING)
        except Exception as error:
            client.crashed(error)
        else:
            client.responded()

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


def new_id(theirs: bytes) -> bytes:
    """A correlation id in the place of the client's."""
    return secrets.token_bytes(len(theirs))


def _resolve(future: asyncio.Future[bytes], frame: bytes) -> None:
    if not future.done():
        future.set_result(frame)
