"""Gets producer ids and epochs for transactional ids (KIP-98): whoever asks next gets the next epoch."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Final, NamedTuple

from protocol.errors import ErrorCode
from protocol.messages import init_producer_id
from shim.config import Settings
from shim.upstream.cluster import Cluster
from shim.upstream.coordinators import PASSES, Coordinators, KeyType
from shim.upstream.errors import UpstreamError

_TRANSACTION_TIMEOUT_MS: Final = 1_000  # there are none
_AGAIN_S: Final = 0.05
_PASSES: Final = PASSES | {ErrorCode.CONCURRENT_TRANSACTIONS}


class ProducerEpoch(NamedTuple):
    producer_id: int
    epoch: int


class ProducerIds:
    """For the event loop."""

    def __init__(self, cluster: Cluster, settings: Settings) -> None:
        self._coordinators = Coordinators(cluster, settings)
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
        error, coordinator = await self._coordinators.of(transactional_id, KeyType.TRANSACTION)
        if coordinator is None:
            return error, None
        wanted = init_producer_id.InitProducerIdRequest(transactional_id, _TRANSACTION_TIMEOUT_MS)
        self._asked[transactional_id] += 1
        answer = await self._coordinators.ask(coordinator, init_producer_id.API, wanted, once=True)
        if answer.error_code != ErrorCode.NONE:
            return ErrorCode.for_code(answer.error_code), None
        if answer.producer_id < 0 or answer.producer_epoch < 0:
            raise UpstreamError(f"{coordinator}: InitProducerId was answered with no id")
        return ErrorCode.NONE, ProducerEpoch(answer.producer_id, answer.producer_epoch)

    def close(self) -> None:
        self._coordinators.close()
