"""Whoever writes partition 0 of a topic with idempotent batches, under the id and epoch of a transactional id."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Final, Self

from protocol.errors import ErrorCode
from protocol.messages import find_coordinator, init_producer_id, produce
from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue, encode_key, encode_value
from protocol.records.batches import Record, encode_records
from shim.config import HostPort, Settings
from shim.demo.parts import Broker
from shim.offsets.cluster.brokers import PASSES_BY_ITSELF
from shim.upstream.connection import BrokerConnection

_TRANSACTION: Final = 1
_RETRY_S: Final = 0.05
_TIMEOUT_S: Final = 30.0
_COMES_SOON: Final = PASSES_BY_ITSELF | {ErrorCode.CONCURRENT_TRANSACTIONS}


class Owner:
    """At a lone broker. Has a producer id and an epoch of its own from :meth:`begin` on."""

    def __init__(self, broker: Broker, transactional_id: str, topic: str) -> None:
        self._broker = broker
        self._transactional_id = transactional_id
        self._topic = topic
        self._connection = BrokerConnection(HostPort(broker.host, broker.port), Settings())
        self.producer_id = -1
        self.epoch = -1
        self.sequence = 0

    async def __aenter__(self) -> Self:
        await self._connection.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._connection.close()

    async def reconnect(self) -> None:
        self._connection.close()
        await self._connection.open()

    async def begin(self) -> None:
        """The next epoch."""
        looked_for = find_coordinator.FindCoordinatorRequest(
            key_type=_TRANSACTION, coordinator_keys=(self._transactional_id,)
        )
        asked = init_producer_id.InitProducerIdRequest(self._transactional_id, 60_000)
        async with asyncio.timeout(_TIMEOUT_S):
            while True:
                found = (await self._connection.ask(find_coordinator.API, looked_for, at_least=4)).coordinators[0]
                error = ErrorCode(found.error_code)
                if error is ErrorCode.NONE:
                    answer = await self._connection.ask(init_producer_id.API, asked)
                    error = ErrorCode(answer.error_code)
                    if error is ErrorCode.NONE:
                        self.producer_id, self.epoch, self.sequence = answer.producer_id, answer.producer_epoch, 0
                        return
                assert error in _COMES_SOON, error
                await asyncio.sleep(_RETRY_S)  # a coordinator tells nobody when it is there

    def batch(self, records: Sequence[Record]) -> bytes:
        """The next one."""
        made = encode_records(
            records, producer_id=self.producer_id, producer_epoch=self.epoch, base_sequence=self.sequence
        )
        self.sequence += len(records)
        return made

    async def write(self, records: Sequence[Record]) -> tuple[ErrorCode, int]:
        """What the broker says, and the first record's offset."""
        return (await self.send([self.batch(records)]))[0]

    async def send(self, batches: Sequence[bytes]) -> list[tuple[ErrorCode, int]]:
        """Each for the partition of its place, in one request."""
        partitions = tuple(produce.PartitionProduceData(number, batch) for number, batch in enumerate(batches))
        request = produce.ProduceRequest(
            None, -1, 5_000, (produce.TopicProduceData(self._topic, partition_data=partitions),)
        )
        async with asyncio.timeout(_TIMEOUT_S):
            while True:
                answer = await self._connection.ask(produce.API, request, at_least=12, at_most=12)
                (topic,) = answer.responses
                told = sorted(topic.partition_responses, key=lambda each: each.index)
                if ErrorCode.NOT_LEADER_OR_FOLLOWER not in {each.error_code for each in told}:
                    return [(ErrorCode(each.error_code), each.base_offset) for each in told]
                await asyncio.sleep(_RETRY_S)  # as above: what leads a new topic may not know it yet


def commits(offset: int, *, group: str = "g", count: int = 3) -> list[Record]:
    """Of one group: so many partitions of a topic."""
    now = time.time_ns() // 1_000_000
    value = encode_value(OffsetCommitValue(offset, commit_timestamp=now))
    return [Record(encode_key(OffsetCommitKey(group, "t", at)), value, (), now, at) for at in range(count)]
