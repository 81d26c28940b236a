"""A request that another shim, or worker, has forwarded here, as its client's: handlers answer it as any other.

The rights of the client were asked where it is connected. What is asked of its broker goes back there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final, Self

from compat.translation import Context
from protocol.errors import DecodeError, ErrorCode
from shim.api.call import SIZE_FIELD, Call, Served, Services
from shim.api.route import Route
from shim.api.table import TO_OWNERS, TO_WORKERS
from shim.api.topics_elsewhere import LOOKS
from shim.config import HostPort
from shim.forwarding import ONE_BY_ONE, Entrusted
from shim.logged_once import LoggedOnce
from shim.metrics import AnswerCounts
from shim.security.authorizer import AskedElsewhere, Authorizer
from shim.security.rights import Rights

log = logging.getLogger(__name__)

_KIND: Final = slice(4, 8)  # of a frame: api key and version

_NOT_BELIEVED: Final = "requests that other shims forward are answered NOT_COORDINATOR"
_WITHOUT_PRINCIPALS: Final = (
    "there is an authorizer, or a broker that has not said that there is none, and shims.principals names nobody who "
    "can be believed to have asked it"
)
_NOT_SAID_YET: Final = "no broker has said whether there is an authorizer, and shims.principals names nobody"


def doubt_without_principals(authorizer: Authorizer | AskedElsewhere) -> str | None:
    """Where there are rights to be asked for, nobody can be believed to have asked who does not say who it is."""
    if authorizer.absent:
        return None
    return _WITHOUT_PRINCIPALS if authorizer.is_known else _NOT_SAID_YET


class EntrustedRequests:
    """For the event loop."""

    def __init__(
        self,
        services: Services,
        counts: AnswerCounts,
        doubt: Callable[[], str | None],
        routes: Mapping[int, Route],
    ) -> None:
        """``services``: those of clients that come here. ``doubt``: why those who forward are not believed to have
        asked for rights, in a few words; None: they are. ``routes``: what they forward, as in
        :data:`shim.api.table.ROUTES`."""
        # Nothing is forwarded twice, and nobody is asked for rights again.
        self._services = services._replace(authorizer=AskedElsewhere(), peers=None, others=(), elsewhere=None)
        self._counts = counts
        self._doubt = doubt
        self._routes = routes
        self._tasks: set[asyncio.Task[None]] = set()
        self._trouble = LoggedOnce(log)

    @classmethod
    def of_shims(cls, services: Services, counts: AnswerCounts, *, are_known: bool) -> Self:
        """``are_known``: whether only those can connect that are to be believed."""
        return cls(
            services,
            counts,
            lambda: None if are_known else doubt_without_principals(services.authorizer),
            {**TO_OWNERS, **LOOKS},
        )

    @classmethod
    def of_workers(cls, services: Services, counts: AnswerCounts) -> Self:
        return cls(services, counts, lambda: None, {**TO_WORKERS, **LOOKS})

    def accept(self, entrusted: Entrusted) -> None:
        """See :class:`shim.forwarding.PeerServer`."""
        frame = entrusted.request.frame
        kind = int.from_bytes(frame[_KIND], "big")
        route = self._routes.get(kind)
        # Of a newer shim: who asks this one itself is told what it has.
        if route is None or not isinstance(route.disposition, Served):
            entrusted.refuse(ErrorCode.NOT_COORDINATOR)
            return
        if (doubt := self._doubt()) is not None:
            self._trouble.failed(_NOT_BELIEVED, Exception(doubt))
            entrusted.refuse(ErrorCode.NOT_COORDINATOR)
            return
        self._trouble.went_well(_NOT_BELIEVED)
        connection = _Connection(entrusted, self._counts)
        if len(frame) > SIZE_FIELD + int.from_bytes(frame[:SIZE_FIELD], "big"):
            self._accept_in_a_row(entrusted, connection, route)
            return
        try:
            call: Call[Any, Any] = Call(route.disposition, kind & 0xFFFF, frame, connection, connection.answer)
            pending = route.disposition.handle(self._services, call)
        except DecodeError:
            entrusted.refuse(ErrorCode.INVALID_REQUEST)
        except Exception as error:
            _crashed(entrusted, error)
        else:
            if pending is not None:
                self._in_background(entrusted, pending)
            if route.parks:
                entrusted.let_go()
            connection.handled()

    def _accept_in_a_row(self, entrusted: Entrusted, connection: _Connection, route: Route) -> None:
        """All of them, or none."""
        frames = entrusted.request.frame
        try:
            end = route.several(self._services, connection, frames, 0, len(frames)) if route.several is not None else 0
        except Exception as error:
            _crashed(entrusted, error)
            return
        if end < len(frames):
            entrusted.refuse(ErrorCode.INVALID_REQUEST if end else ONE_BY_ONE)
        connection.handled()

    def _in_background(self, entrusted: Entrusted, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        entrusted.when_withdrawn(task.cancel)
        task.add_done_callback(lambda done: self._finished(entrusted, done))

    def _finished(self, entrusted: Entrusted, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, ConnectionError | DecodeError):  # of the client's broker
            entrusted.refuse(ErrorCode.NOT_COORDINATOR)
        elif error is not None:
            _crashed(entrusted, error)


def _crashed(entrusted: Entrusted, error: BaseException) -> None:
    log.error("a request that another shim has forwarded could not be answered", exc_info=error)
    entrusted.refuse(ErrorCode.UNKNOWN_SERVER_ERROR)


class _Connection:
    """The client's, as far as one request of its needs it: see :class:`shim.api.call.Connection`."""

    node_id = None

    def __init__(self, entrusted: Entrusted, counts: AnswerCounts) -> None:
        self._entrusted = entrusted
        self._is_paused = False
        self._has_begun = False
        self.counts = counts
        self.client_host = entrusted.request.client_host
        self.principal = entrusted.request.principal
        self.coordinators: dict[int, HostPort] = {}

    @property
    def rights(self) -> Rights:
        return Rights(0.0)

    @property
    def context(self) -> Context:
        return Context()

    def is_software(self, name: str, version: str) -> None:
        """It was said where the client is."""

    def ask(self, frame: bytes, *, prompt: bool = True) -> Awaitable[bytes]:
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        def replied(reply: bytes | None) -> None:
            if future.done():
                return
            if reply is None:
                future.set_exception(ConnectionError("the client's broker cannot be asked"))
                future.exception()  # nobody may be waiting for it any more
            else:
                future.set_result(reply)

        self._entrusted.ask(frame, replied, prompt=prompt)
        return future

    def tell(self, frame: bytes) -> None:
        raise NotImplementedError("no request about a group has no response")

    def pause_requests(self) -> None:
        self._is_paused = True

    def resume_requests(self) -> None:
        self._is_paused = False
        # What is asked of the broker in this turn of the loop comes first.
        asyncio.get_running_loop().call_soon(self.handled)

    async def taken(self) -> None:
        raise NotImplementedError("no request about a group is answered with what was fetched")

    def handled(self) -> None:
        """The handler has had its turn."""
        if not self._is_paused and not self._has_begun:
            self._has_begun = True
            self._entrusted.begun()

    def place(self, count: int) -> Callable[[bytes], None]:
        return self.answer

    def follow(self, work: Coroutine[Any, Any, None]) -> None:
        raise NotImplementedError("nothing is forwarded twice")

    def answer(self, frame: bytes) -> None:
        self._has_begun = True
        self._entrusted.answer(frame)

    def misled(self) -> None:
        """The other shim says so to its client."""

    def give_up(self, reason: str) -> None:
        log.error("a request that another shim has forwarded: %s", reason)
        self._entrusted.refuse(ErrorCode.UNKNOWN_SERVER_ERROR)

    def refuse(self, reason: str) -> None:
        self._entrusted.refuse(ErrorCode.INVALID_REQUEST)
