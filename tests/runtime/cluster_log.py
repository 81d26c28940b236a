"""A cluster's `__consumer_offsets` in memory, and what follows it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

from protocol.batches import (
    BatchHeader,
    ControlRecordType,
    EndTransactionMarker,
    Record,
    decode_records,
    encode_batch,
    encode_end_transaction,
    read_header,
)
from protocol.errors import ErrorCode
from protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue, encode_key, encode_value
from protocol.partition import partition_for
from shim.runtime import Following
from tests.runtime.held_log import WAIT_SECONDS
from tests.runtime.running import TOPIC, Running

UPSTREAM_PARTITIONS = 5
UNSTABLE = (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
NOW = 1_700_000_000_000


class Unreachable(Exception):
    pass


class NotThere(Unreachable):
    pass


class Brought(NamedTuple):
    batches: list[tuple[BatchHeader, list[Record]]]
    next_offset: int


class Cluster:
    """The cluster's `__consumer_offsets`, in memory."""

    def __init__(self) -> None:
        self.logs: list[list[bytes]] = [[] for _ in range(UPSTREAM_PARTITIONS)]
        self.read_from: list[tuple[int, int]] = []
        self.trouble: type[Exception] | None = None
        self._changed = asyncio.Event()

    def home(self, group: str) -> int:
        return partition_for(group, UPSTREAM_PARTITIONS)

    def _append(self, partition: int, batch: bytes) -> None:
        self.logs[partition].append(batch)
        self._changed.set()

    def commit(
        self,
        group: str,
        offset: int,
        *,
        producer: int = 1,
        transactional: bool = True,
        partition: int = 0,
        metadata: str = "",
    ) -> None:
        key, value = OffsetCommitKey(group, TOPIC, partition), OffsetCommitValue(offset, metadata=metadata)
        record = (encode_key(key), encode_value(value))
        at = len(self.logs[self.home(group)])
        attributes, producer = (0x10, producer) if transactional else (0, -1)
        self._append(self.home(group), encode_batch(at, [record], NOW, attributes=attributes, producer_id=producer))

    def end(self, group: str, *, committed: bool, producer: int = 1) -> None:
        marker = EndTransactionMarker(ControlRecordType.COMMIT if committed else ControlRecordType.ABORT, 3)
        at = len(self.logs[self.home(group)])
        self._append(self.home(group), encode_end_transaction(at, marker, NOW, producer_id=producer, producer_epoch=0))

    async def partition_count(self) -> int:
        if self.trouble is not None:
            raise self.trouble
        return UPSTREAM_PARTITIONS

    async def end_offset(self, partition: int) -> int:
        return len(self.logs[partition])

    async def read(self, partition: int, offset: int) -> AsyncIterator[Brought]:
        self.read_from.append((partition, offset))
        while True:
            self._changed.clear()
            found = self.logs[partition][offset:]
            if found:
                offset += len(found)
                yield Brought([(read_header(raw), decode_records(raw)) for raw in found], offset)
            else:
                await self._changed.wait()


async def follows(shim: Running, cluster: Cluster, timeout_seconds: float = 1.0) -> Following:
    shim.log.release(1_000)
    return Following(shim.runtime, cluster, timeout_seconds, unreachable=Unreachable, not_there=NotThere)


async def eventually(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            if condition():
                return
            await asyncio.sleep(0.001)


async def ready(following: Following, group: str) -> None:
    await eventually(lambda: following.ready(group) is ErrorCode.NONE)


async def fetched(shim: Running, group: str, *, stable: bool = True) -> tuple[int, int]:
    """Error code and offset."""
    ticket = shim.ticket("fetch")
    asked = OffsetFetchRequestTopics(name=TOPIC, partition_indexes=(0,))
    request = OffsetFetchRequestGroup(group_id=group, topics=(asked,))
    number = shim.runtime.partition_of(group)
    shim.runtime.ask(number, lambda its: its.offset_fetch(request, require_stable=stable), ticket)
    answer = await ticket.result()
    if isinstance(answer, ErrorCode):
        return answer, -1
    (found,) = answer.topics[0].partitions
    return found.error_code, found.committed_offset


async def until(shim: Running, group: str, expected: tuple[int, int], *, stable: bool = True) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            if await fetched(shim, group, stable=stable) == expected:
                return
            await asyncio.sleep(0.001)
