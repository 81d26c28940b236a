"""One client connection: its requests in, its responses out in their order."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, cast

from protocol.errors import DecodeError
from shim.api import ROUTES, Authenticates, Call, Context, Refused, Rewritten, Route, Served, Services
from shim.config import HostPort, Settings
from shim.metrics import AnswerCounts
from shim.net.answers import MAX_PENDING, Answers, measure
from shim.net.background import Background
from shim.net.broker_side import BrokerSide
from shim.net.budget import SMALL
from shim.net.intake import Intake, Stop
from shim.net.order import Slot
from shim.net.outgoing import Outgoing
from shim.net.overdue import Overdue
from shim.net.requests import BadRequest, Head, RequestReader
from shim.net.room import Room
from shim.net.sasl_side import SaslSide, UnexpectedSasl
from shim.net.sessions import Sessions
from shim.net.silence import Silence
from shim.net.which_client import WhichClient
from shim.security.principals import UNKNOWN, shown
from shim.security.rights import Rights
from shim.tls import context_for_brokers
from shim.upstream import READ_BUFFER, BrokerLink, is_own

log = logging.getLogger(__name__)

Rewrite = Callable[[Services, int, bytes], bytes | Coroutine[Any, Any, bytes]]

# What a read may bring beside the bytes of a request that is passed on: it is kept while no further request is taken.
READ_BEHIND = 65_536

_COMES_BACK = (
    "it is one of this shim's own to the cluster, led back here by --bootstrap-servers or by an address that a broker "
    "gives out: the shim needs addresses of the brokers that clients are not moved by"
)

# How long a connection that the shim has closed may take to carry what was written before.
LINGER_SECONDS = 10.0


class ClientSession(asyncio.BufferedProtocol):
    """Glue between the request reader, the API table, the client's transport and the broker's half.

    Memory is bounded by what a few reads of either side bring, the transports' write limits, ``MAX_PENDING`` answers,
    and the one request that is being collected for the shim itself; the budget of all connections has what it says
    about that one. docs/performance.md and docs/limits.md have the numbers.
    """

    __slots__ = (
        "_active", "_address", "_answers", "_background", "_broker", "_closed", "_context", "_coordinators",
        "_draining", "_ended", "_heard", "_intake", "_linger", "_outgoing", "_peer", "_queue", "_requests", "_room",
        "_sasl", "_services", "_sessions", "_silence", "_traffic", "_transport", "_which", "client_host", "follow",
        "node_id", "place", "principal", "rights",
    )  # fmt: skip

    def __init__(
        self,
        services: Services,
        settings: Settings,
        node_id: int | None,
        addresses: Callable[[], Sequence[HostPort]],
        sessions: Sessions,
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        """``ended`` is called when nothing is left of the connection."""
        self._ended = ended
        self._active = True
        self._silence: Silence | None = None
        self.node_id = node_id
        self.client_host = ""
        self.principal = UNKNOWN
        self.rights = Rights(settings.authorization_cache_ms / 1000)
        self._services = services
        self._sessions = sessions
        self._intake = Intake(self._go_on)
        self._traffic = sessions.traffic
        self._which = WhichClient(self._traffic.clients)
        self._outgoing = Outgoing(sessions.departures, self._traffic)
        authenticates = settings.brokers_authenticate
        self._room = Room(
            sessions.strangers if authenticates else sessions.budget,
            partial(self._intake.stop, Stop.NO_ROOM),
            partial(self._intake.resume, Stop.NO_ROOM),
        )
        self._requests: RequestReader[Route] = RequestReader(ROUTES, settings.socket_request_max_bytes, small=SMALL)
        self._broker = BrokerSide(
            self,
            self._outgoing.write,
            addresses,
            settings.socket_connection_setup_timeout_ms / 1000,
            partial(
                BrokerLink,
                tls=context_for_brokers(settings),
                trouble=sessions.unreachable,
                unanswered=sessions.unanswered,
            ),
            authenticates=authenticates,
            overdue=Overdue(settings.request_timeout_ms / 1000, settings.connections_max_idle_ms / 1000),
            traffic=self._traffic,
        )
        self._queue = self._broker.queue
        self._answers = Answers(self._queue, self._room, self._intake, self._went_on)
        self._background = Background(self._close, self.crashed)
        # For handlers, as :class:`shim.api.call.OrderedConnection` has them.
        self.place = self._answers.place
        self.follow = self._background.begin
        self._sasl = (
            SaslSide(self, self._broker, self._requests, settings)
            if authenticates
            else UnexpectedSasl(self, self._broker)
        )
        self._heard = False
        self._transport: asyncio.Transport | None = None
        self._draining = False
        self._closed = False
        self._linger: asyncio.TimerHandle | None = None
        self._context: Context | None = None
        self._coordinators: dict[int, HostPort] | None = None
        self._address: HostPort | None = None
        self._peer = ""

    # What the client's transport tells.

    def connection_made(self, made: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, made)  # uvloop's is one in all but its class
        peer = transport.get_extra_info("peername")
        if peer is None:  # gone before it was accepted
            self._close(None)
            transport.abort()
            return
        self._transport = transport
        self._intake.connected(transport)
        self._outgoing.connected(transport)
        self._address = HostPort(peer[0], peer[1])
        self._peer = str(self._address)
        self.client_host = f"/{peer[0]}"
        self._sessions.add(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return READ_BUFFER.room(min(self._requests.left_to_pass + READ_BEHIND, self._intake.room))

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(READ_BUFFER.taken(nbytes))

    def data_received(self, data: bytes | memoryview) -> None:
        """Of a transport, by way of the buffer, or of what stands before this one: TLS, faults."""
        self._active = self._heard = True
        self._traffic.from_clients += len(data)
        if self._closed or (self._draining and not self._requests.mid_request):
            return
        if self._which.is_beginning:
            first = self._which.begins(data, ROUTES, self.client_host, self.principal)
            if first is not None and is_own(
                first.kind >> 16, first.kind & 0xFFFF, first.correlation_id, first.client_id
            ):
                self._close(_COMES_BACK)
                return
        self._feed(data)

    def pause_writing(self) -> None:
        self._intake.stop(Stop.CLIENT_FULL)
        self._broker.client_full(True)

    def resume_writing(self) -> None:
        self._broker.client_full(False)
        self._intake.resume(Stop.CLIENT_FULL)
        self._went_on()

    def connection_lost(self, exc: Exception | None) -> None:
        self._close(None)
        if self._linger is not None:
            self._linger.cancel()
        self._sessions.discard(self)
        del self._sasl  # it leads back here
        self._ended()

    # What the request reader asks and tells.

    @property
    def stopped(self) -> bool:
        return bool(self._intake.stops) or self._draining or self._closed

    def admit(self, size: int) -> bool:
        return self._room.admit(size)

    def passing_begins(self, head: Head, route: Route, *, answered: bool) -> None:
        self._which.requests[head.api_key << 16 | head.api_version] += 1
        if not answered:
            self._broker.expect_nothing()
            return
        disposition = route.disposition
        if isinstance(disposition, Rewritten):
            collect = partial(self._rewrite, self._answers.reserve(1), disposition.rewrite, head.api_version)
            self._broker.expect_whole(head.correlation_id, collect)
            return
        self._broker.expect_stream(head.correlation_id)
        if self._queue.pending >= MAX_PENDING:
            self._intake.stop(Stop.TOO_MANY)

    def pass_on(self, data: bytes | memoryview) -> None:
        self._intake.passed_on += len(data)
        self._broker.pass_on(data)

    def several(self, route: Route, data: bytes, position: int) -> int:
        assert route.several is not None
        before, begun = self._queue.pending, time.monotonic()
        end = route.several(self._services, self, data, position, MAX_PENDING - before)
        if end > position:
            slot = self._answers.newest
            assert slot is not None, "they have a place"
            self._which.requests[int.from_bytes(data[position + 4 : position + 8], "big")] += slot.count
            slot.begun, slot.latency = begun, self._traffic.latency(route.key)
            if slot.filled:
                measure(slot)
            unanswered = slot if not slot.filled else None
            self._room.several_came(unanswered, end - position, self._queue.pending - before)
            if unanswered is not None:
                self._intake.hurry()
        return end

    def request(self, head: Head, route: Route, frame: bytes) -> None:
        self._which.requests[head.api_key << 16 | head.api_version] += 1
        disposition = route.disposition
        if isinstance(disposition, Authenticates):
            self._sasl.request(head, frame)
            return
        slot = self._answers.reserve(1)
        respond = partial(self._answers.fill, slot)
        self._room.came(slot)
        if isinstance(disposition, Served):
            slot.begun, slot.latency = time.monotonic(), self._traffic.latency(head.api_key)
            call: Call[Any, Any] = Call(disposition, head.api_version, frame, self, respond)
            pending = disposition.handle(self._services, call)
            if pending is not None:
                self._background.begin(pending)
        elif isinstance(disposition, Refused):
            respond(disposition.answer(head.correlation_id))
        if not slot.filled:
            self._intake.hurry()
        if slot.held and route.parks:
            self._room.let_go(slot)

    def token(self, frame: bytes) -> None:
        self._sasl.token(frame)

    # What handlers use.

    @property
    def context(self) -> Context:
        if self._context is None:
            self._context = Context()
        return self._context

    @property
    def coordinators(self) -> dict[int, HostPort]:
        if self._coordinators is None:
            self._coordinators = {}
        return self._coordinators

    @property
    def counts(self) -> AnswerCounts:
        return self._traffic.answers

    def is_software(self, name: str, version: str) -> None:
        if self._which.is_software(name, version, self.client_host, self.principal):
            self._traffic.software.add(name, version)

    def ask(self, frame: bytes, *, prompt: bool = True) -> Awaitable[bytes]:
        return self._broker.ask(frame, prompt=prompt)

    def tell(self, frame: bytes) -> None:
        self._broker.expect_nothing()
        self._broker.pass_on(frame)

    def pause_requests(self) -> None:
        self._intake.stop(Stop.UNDECIDED)

    def resume_requests(self) -> None:
        self._intake.resume(Stop.UNDECIDED)

    async def taken(self) -> None:
        await self._answers.taken()

    def give_up(self, reason: str) -> None:
        self._close(reason, level=logging.ERROR)

    # What the authentication asks and tells.

    def release(self) -> None:
        self._room.passed()

    def take_active(self) -> bool:
        active, self._heard = self._heard, False
        return active

    def is_now(self, principal: str, *, again: bool) -> None:
        self.principal = principal
        self._which.authenticated(principal)
        if principal != UNKNOWN:
            self._peer = f"{self._address} ({shown(principal)})"
        if again:
            self.rights.forget()
        self._room.move(self._sessions.budget)

    def misled(self) -> None:
        if self.node_id is not None and self._sessions.stands_elsewhere(self.node_id):
            self.drain()

    def refuse(self, reason: str) -> None:
        if not self._closed and self._address is not None:
            self._sessions.complaints.closed(self._address, reason, self._peer)
            self.drain()

    # What the broker's half asks and tells.

    @property
    def mid_passing(self) -> bool:
        return self._requests.mid_passing

    def broker_full(self) -> None:
        self._intake.stop(Stop.BROKER_FULL)

    def broker_drained(self) -> None:
        self._intake.resume(Stop.BROKER_FULL)

    def responding(self) -> None:
        self._outgoing.begin()

    def responded(self) -> None:
        self._outgoing.end()
        if self._intake.stops or self._draining:
            self._went_on()

    def _went_on(self) -> None:
        if self._closed:
            return
        self._answers.look()
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
        self._draining = self._answers.are_watched = True
        self._went_on()

    def abort(self) -> None:
        """Close at once; what was written to the client and not sent is lost."""
        self._close(None)
        if self._transport is not None:
            self._transport.abort()

    def close_silent(self, now: float, idle_seconds: float, unfinished_seconds: float) -> None:
        """Close it if it has been idle, or in the middle of a request, for so long."""
        transport = self._transport
        if self._closed or transport is None:
            return
        if self._silence is None:
            self._silence = Silence(now)
        unsent = transport.get_write_buffer_size()
        idle = self._silence.idle_seconds(now, active=self._active or self._outgoing.moved, unsent=unsent)
        self._active = self._outgoing.moved = False
        # While it is stopped it is not the client who keeps the request from being whole.
        unfinished = None if self._intake.stops or self._draining else self._requests.unfinished
        if self._silence.unfinished_seconds(now, unfinished) >= unfinished_seconds:
            self._close("the rest of a request did not come in time (request.timeout.ms)", level=logging.DEBUG)
        elif idle >= idle_seconds and (unsent or not self._queue.owes):
            self._close("idle (connections.max.idle.ms)", level=logging.DEBUG)
            if unsent:
                transport.abort()

    def _feed(self, data: bytes | memoryview) -> None:
        self._outgoing.begin()
        try:
            self._requests.feed(data, self)
        except BadRequest as error:
            self._traffic.malformed += 1
            self._close(str(error))
        except DecodeError as error:  # in a request that the shim answers
            self._traffic.malformed += 1
            self._close(f"malformed request: {error}")
        except Exception as error:
            self.crashed(error)
        self._intake.has_read()
        self.responded()

    def _rewrite(self, slot: Slot, rewrite: Rewrite, version: int, frame: bytes) -> None:
        result = rewrite(self._services, version, frame)
        if isinstance(result, bytes):
            self._answers.fill(slot, result)
        else:
            self._background.begin(result, partial(self._answers.fill, slot))

    def _go_on(self) -> None:
        """Take the requests that were read before the stop."""
        self._feed(b"")

    def _close(self, reason: str | None, *, level: int = logging.WARNING) -> None:
        """Close both sides; what has been written to the client is still sent. ``reason`` goes to the log."""
        if self._closed:
            return
        self._closed = True
        self._answers.close()
        self._which.left()
        if reason is not None:
            if level == logging.WARNING and self._address is not None:
                self._sessions.complaints.closed(self._address, reason, self._peer)
            else:
                log.log(level, "client %s: connection closed: %s", self._peer, reason)
        self._intake.close()
        self._sasl.close()
        self._outgoing.send()
        if self._transport is not None:
            self._transport.close()
            if self._transport.get_write_buffer_size():
                self._linger = asyncio.get_running_loop().call_later(LINGER_SECONDS, self._transport.abort)
        self._broker.close(reason or "the connection was closed")
        self._background.close()
        self._room.close()
