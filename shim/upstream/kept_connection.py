"""A conversation with one broker that goes on for as long as the shim runs, on one connection after the other."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Collection
from typing import Any, Final, TypeVar

from protocol.api import Api
from shim.config import HostPort, Settings
from shim.upstream.connection import BrokerConnection
from shim.upstream.errors import AuthenticationFailed, UpstreamError

log = logging.getLogger(__name__)

PATIENCE_SECONDS: Final = 2.0
"""An open connection on which no answer begins for so long may be one that the network has lost, which nobody is told.
A broker that is slow has the whole of ``request.timeout.ms`` on the new one."""

_FRESH_SECONDS: Final = 1.0
"""An open connection that has answered so lately will answer again."""

Request = TypeVar("Request", bound=tuple[Any, ...])
Response = TypeVar("Response", bound=tuple[Any, ...])


class KeptConnection:
    """Opened when it is needed, and anew where it has failed. It takes one request at a time.

    Whoever gives up while it is being opened leaves that to the next one who asks: where it takes longer than any of
    them has patience, nobody would ever have it.
    """

    def __init__(self, address: HostPort, settings: Settings) -> None:
        self.address = address
        self._settings = settings
        self._turn = asyncio.Lock()
        self._connection: BrokerConnection | None = None
        self._opening: asyncio.Task[BrokerConnection] | None = None
        self._answered_at = -math.inf
        self._ended = False

    async def ask(
        self,
        api: Api[Request, Response],
        request: Request,
        *,
        at_least: int = 0,
        at_most: int | None = None,
        once: bool = False,
        may_send: Callable[[], None] = lambda: None,
    ) -> Response:
        """As :meth:`BrokerConnection.ask`, of what changes nothing: it may be asked twice. ``once``: of what does,
        and is sent on a connection that is new or has answered lately. Raises :class:`UpstreamError`."""
        async with self._turn:
            if once and self._connection is not None and not self._is_fresh:
                self.close()
            if self._connection is not None:
                if once:
                    return await self._ask_once(self._connection, api, request, at_least, at_most, may_send)
                try:
                    return await self._ask(
                        self._connection, api, request, at_least, at_most, may_send, PATIENCE_SECONDS
                    )
                except AuthenticationFailed:
                    raise  # a new connection would not change that
                except UpstreamError as error:
                    # A broker closes what was idle, and one that has been restarted knows of no connection.
                    log.info("the shim's connection to a broker has failed, and is opened again: %s", error)
            connection = await self._opened()
            if once:
                return await self._ask_once(connection, api, request, at_least, at_most, may_send)
            return await self._ask(connection, api, request, at_least, at_most, may_send, None)

    async def versions(self, api: Api[Any, Any]) -> tuple[int, int] | None:
        """The oldest and the newest that the broker has of it, as it has said last; None where it has none. Raises
        :class:`UpstreamError`."""
        async with self._turn:
            connection = self._connection or await self._opened()
            return connection.versions(api)

    async def _opened(self) -> BrokerConnection:
        if self._opening is None or self._opening.done():
            if self._ended:
                raise self._closed()
            self._opening = asyncio.create_task(self._open(), name=f"opening a connection to {self.address}")
            self._opening.add_done_callback(_retrieved)
        opening = self._opening
        await asyncio.wait([opening])
        if opening.cancelled():
            raise self._closed()
        return opening.result()

    async def _open(self) -> BrokerConnection:
        connection = BrokerConnection(self.address, self._settings)
        await connection.open()
        self._answered_at = time.monotonic()
        self._connection = connection
        return connection

    def _closed(self) -> UpstreamError:
        return UpstreamError(f"{self.address}: the shim has closed the connection")

    async def _ask_once(
        self,
        connection: BrokerConnection,
        api: Api[Request, Response],
        request: Request,
        at_least: int,
        at_most: int | None,
        may_send: Callable[[], None],
    ) -> Response:
        try:
            return await self._ask(connection, api, request, at_least, at_most, may_send, None, leaves=True)
        except BaseException:
            connection.break_off()
            self._connection = None
            raise

    async def _ask(
        self,
        connection: BrokerConnection,
        api: Api[Request, Response],
        request: Request,
        at_least: int,
        at_most: int | None,
        may_send: Callable[[], None],
        patience_seconds: float | None,
        *,
        leaves: bool = False,
    ) -> Response:
        """``leaves``: the connection to who has called, where it fails."""
        connection.patience_seconds = patience_seconds
        try:
            answer = await connection.ask(api, request, at_least=at_least, at_most=at_most, may_send=may_send)
        except BaseException:  # given up, too: what is read next would be the answer to this one
            if not leaves:
                self.close()
            raise
        self._answered_at = time.monotonic()
        return answer

    @property
    def _is_fresh(self) -> bool:
        if self._connection is None or self._connection.is_lost:
            return False
        return time.monotonic() - self._answered_at < _FRESH_SECONDS

    def close(self) -> None:
        """It is opened again when something is asked."""
        if self._opening is not None:
            self._opening.cancel()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def end(self) -> None:
        """Likewise, but it is not opened again, by whoever is waiting for it either."""
        self._ended = True
        self.close()


def _retrieved(opening: asyncio.Task[BrokerConnection]) -> None:
    """Why it has failed is told to who waits for it, if anybody does by then; the next one begins anew."""
    if not opening.cancelled():
        opening.exception()


class KeptConnections:
    """One to each address that something is asked of."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._open: dict[HostPort, KeptConnection] = {}

    def to(self, address: HostPort) -> KeptConnection:
        found = self._open.get(address)
        if found is None:
            found = self._open[address] = KeptConnection(address, self._settings)
        return found

    def close_others(self, addresses: Collection[HostPort]) -> None:
        """Those that are to none of these."""
        for address in self._open.keys() - set(addresses):
            self._open.pop(address).end()

    def close(self) -> None:
        for connection in self._open.values():
            connection.end()
