"""A conversation with one broker that goes on for as long as the shim runs, on one connection after the other."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final, TypeVar

from protocol.api import Api
from shim.config import HostPort, Settings
from shim.upstream.connection import BrokerConnection
from shim.upstream.errors import AuthenticationFailed, UpstreamError

log = logging.getLogger(__name__)

PATIENCE_SECONDS: Final = 2.0
"""An open connection on which no answer begins for so long may be one that the network has lost, which nobody is told.
A broker that is slow has the whole of ``request.timeout.ms`` on the new one."""

Request = TypeVar("Request", bound=tuple[Any, ...])
Response = TypeVar("Response", bound=tuple[Any, ...])


class KeptConnection:
    """Opened when it is needed, and anew where it has failed. It takes one request at a time."""

    def __init__(self, address: HostPort, settings: Settings) -> None:
        self.address = address
        self._settings = settings
        self._turn = asyncio.Lock()
        self._connection: BrokerConnection | None = None

    async def ask(self, api: Api[Request, Response], request: Request, *, at_least: int = 0) -> Response:
        """As :meth:`BrokerConnection.ask`, of what changes nothing: it may be asked twice. Raises
        :class:`UpstreamError`."""
        async with self._turn:
            if self._connection is not None:
                try:
                    return await self._ask(self._connection, api, request, at_least, PATIENCE_SECONDS)
                except AuthenticationFailed:
                    raise  # a new connection would not change that
                except UpstreamError as error:
                    # A broker closes what was idle, and one that has been restarted knows of no connection.
                    log.info("the shim's connection to a broker has failed, and is opened again: %s", error)
            connection = BrokerConnection(self.address, self._settings)
            await connection.open()
            self._connection = connection
            return await self._ask(connection, api, request, at_least, None)

    async def _ask(
        self,
        connection: BrokerConnection,
        api: Api[Request, Response],
        request: Request,
        at_least: int,
        patience_seconds: float | None,
    ) -> Response:
        connection.patience_seconds = patience_seconds
        try:
            return await connection.ask(api, request, at_least=at_least)
        except BaseException:  # given up, too: what is read next would be the answer to this one
            self.close()
            raise

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
