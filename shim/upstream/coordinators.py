"""Asks the coordinator of a group or of a transactional id, which any broker may be."""

from __future__ import annotations

import asyncio
from enum import IntEnum
from typing import Any, Final, TypeVar

from protocol.api import Api
from protocol.errors import ErrorCode
from protocol.messages import find_coordinator
from shim.config import HostPort, Settings
from shim.upstream.cluster import Cluster
from shim.upstream.errors import UpstreamError
from shim.upstream.kept_connection import KeptConnections

PASSES: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""What coordinators answer for a while, until they are there, or another one is."""

_BATCHED: Final = 4
"""Of FindCoordinator: since then several at once (Kafka 3.0)."""
_ANSWERED_WITHIN_S: Final = 3.0

Request = TypeVar("Request", bound=tuple[Any, ...])
Response = TypeVar("Response", bound=tuple[Any, ...])


class KeyType(IntEnum):
    GROUP = 0
    TRANSACTION = 1


class Coordinators:
    """For the event loop. One request at a time to each broker."""

    def __init__(self, cluster: Cluster, settings: Settings) -> None:
        self._cluster = cluster
        self._connections = KeptConnections(settings)
        self._times_asked = 0

    async def of(self, key: str, key_type: KeyType) -> tuple[ErrorCode, HostPort | None]:
        """Where it is; None with the reason why not for now. Raises UpstreamError, of the last broker that was asked.

        Each time another one is asked first: one that is cut off from the controllers tells where it was.
        """
        wanted = find_coordinator.FindCoordinatorRequest(key_type=key_type, coordinator_keys=(key,))
        failed = UpstreamError("no broker is known")
        addresses = list(self._cluster.any_address())
        first = self._times_asked % max(1, len(addresses))
        self._times_asked += 1
        for address in (*addresses[first:], *addresses[:first]):
            try:
                answer = await self.ask(address, find_coordinator.API, wanted, at_least=_BATCHED)
            except UpstreamError as error:
                failed = error
                continue
            found = next((each for each in answer.coordinators if each.key == key), None)
            if found is None:
                failed = UpstreamError(f"{address}: FindCoordinator of {key} was answered with nothing")
                continue
            if found.error_code != ErrorCode.NONE:
                return ErrorCode.for_code(found.error_code), None
            return ErrorCode.NONE, HostPort(found.host, found.port)
        raise failed

    async def ask(
        self,
        address: HostPort,
        api: Api[Request, Response],
        request: Request,
        *,
        at_least: int = 0,
        once: bool = False,
        within_seconds: float = _ANSWERED_WITHIN_S,
    ) -> Response:
        """See :meth:`KeptConnection.ask`. One that hangs is no reason not to ask the next: it is not waited for any
        longer than that. Raises UpstreamError."""
        try:
            async with asyncio.timeout(within_seconds):
                return await self._connections.to(address).ask(api, request, at_least=at_least, once=once)
        except TimeoutError:
            raise UpstreamError(f"{address}: {api.name}: not answered within {within_seconds:g} s") from None

    def close(self) -> None:
        self._connections.close()
