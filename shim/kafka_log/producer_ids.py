"""Gets producer ids and epochs for transactional ids (KIP-98): whoever asks next gets the next epoch."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, Final, NamedTuple, TypeVar

from protocol.api import Api
from protocol.errors import ErrorCode
from protocol.messages import find_coordinator, init_producer_id
from shim.config import HostPort, Settings
from shim.upstream.cluster import Cluster
from shim.upstream.errors import UpstreamError
from shim.upstream.kept_connection import KeptConnections

_TRANSACTION: Final = 1
_BATCHED: Final = 4
"""Of FindCoordinator: since then several at once (Kafka 3.0)."""
_TRANSACTION_TIMEOUT_MS: Final = 1_000  # there are none
_ANSWERED_WITHIN_S: Final = 3.0
_AGAIN_S: Final = 0.05
_PASSES: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)

Request = TypeVar("Request", bound=tuple[Any, ...])
Response = TypeVar("Response", bound=tuple[Any, ...])


class ProducerEpoch(NamedTuple):
    producer_id: int
    epoch: int


class ProducerIds:
    """For the event loop."""

    def __init__(self, cluster: Cluster, settings: Settings) -> None:
        self._cluster = cluster
        self._connections = KeptConnections(settings)
        self._asked: Counter[str] = Counter()

    def asked(self, transactional_id: str) -> int:
        """How many epochs may have been given out here."""
        return self._asked[transactional_id]

    async def next_epoch(self, transactional_id: str, seconds: float) -> ProducerEpoch:
        """Raises UpstreamError, also where that is not to be had in time."""
        why = "no broker has answered"
        try:
            async with asyncio.timeout(seconds):
                while True:
                    try:
                        error, found = await self._next_epoch(transactional_id)
                    except UpstreamError as failed:
                        why = str(failed)
                    else:
                        if found is not None:
                            return found
                        why = error.name
                        if error not in _PASSES:
                            break
                    await asyncio.sleep(_AGAIN_S)  # a coordinator tells nobody when it is there
        except TimeoutError:
            pass
        raise UpstreamError(f"no producer id for {transactional_id}: {why}")

    async def _next_epoch(self, transactional_id: str) -> tuple[ErrorCode, ProducerEpoch | None]:
        error, coordinator = await self._coordinator_of(transactional_id)
        if coordinator is None:
            return error, None
        wanted = init_producer_id.InitProducerIdRequest(transactional_id, _TRANSACTION_TIMEOUT_MS)
        self._asked[transactional_id] += 1
        answer = await self._ask(coordinator, init_producer_id.API, wanted, once=True)
        if answer.error_code != ErrorCode.NONE:
            return ErrorCode.for_code(answer.error_code), None
        if answer.producer_id < 0 or answer.producer_epoch < 0:
            raise UpstreamError(f"{coordinator}: InitProducerId was answered with no id")
        return ErrorCode.NONE, ProducerEpoch(answer.producer_id, answer.producer_epoch)

    async def _coordinator_of(self, transactional_id: str) -> tuple[ErrorCode, HostPort | None]:
        """Raises UpstreamError, of the last broker that was asked."""
        wanted = find_coordinator.FindCoordinatorRequest(key_type=_TRANSACTION, coordinator_keys=(transactional_id,))
        failed = UpstreamError("no broker is known")
        for address in self._cluster.any_address():
            try:
                answer = await self._ask(address, find_coordinator.API, wanted, _BATCHED)
            except UpstreamError as error:
                failed = error
                continue
            found = next((each for each in answer.coordinators if each.key == transactional_id), None)
            if found is None:
                failed = UpstreamError(f"{address}: FindCoordinator of {transactional_id} was answered with nothing")
                continue
            if found.error_code != ErrorCode.NONE:
                return ErrorCode.for_code(found.error_code), None
            return ErrorCode.NONE, HostPort(found.host, found.port)
        raise failed

    async def _ask(
        self, address: HostPort, api: Api[Request, Response], request: Request, at_least: int = 0, *, once: bool = False
    ) -> Response:
        """One that hangs is no reason not to ask the next."""
        try:
            async with asyncio.timeout(_ANSWERED_WITHIN_S):
                return await self._connections.to(address).ask(api, request, at_least=at_least, once=once)
        except TimeoutError:
            raise UpstreamError(f"{address}: {api.name}: not answered within {_ANSWERED_WITHIN_S:g} s") from None

    def close(self) -> None:
        self._connections.close()
