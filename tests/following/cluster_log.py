"""A cluster's `__consumer_offsets` in memory, and what follows it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from protocol.errors import ErrorCode
from protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue, encode_key, encode_value
from protocol.own.position import Position
from protocol.partition import partition_for
from protocol.records.batches import (
    ControlRecordType,
    EndTransactionMarker,
    decode_records,
    encode_batch,
    encode_end_transaction,
    read_header,
)
from shim.following import TransactionFollower
from shim.upstream import Read, TopicReader, UpstreamError
from tests.runtime.running import TOPIC, Running
from tests.waiting import until, until_told

UPSTREAM_PARTITIONS = 5
UNSTABLE = (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
NOW = 1_700_000_000_000


class Cluster(TopicReader):
    """The cluster's `__consumer_offsets`, in memory; each batch takes one offset."""

    def __init__(self) -> None:
        self.logs: list[list[bytes]] = [[] for _ in range(UPSTREAM_PARTITIONS)]
        self.read_from: list[tuple[int, int]] = []
        self.trouble: type[UpstreamError] | None = None
        self.topic_id = b"\1" * 16
        self.leader_epoch = 0
        self.counted = self.ends_asked = 0
        self.readable = asyncio.Event()
        """While it is not set, nothing is read."""
        self.readable.set()
        self.answering = asyncio.Event()
        """While it is not set, nobody is told how many partitions there are."""
        self.answering.set()
        self._generation = 0
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
        topic: str = TOPIC,
        partition: int = 0,
        metadata: str = "",
    ) -> None:
        key, value = OffsetCommitKey(group, topic, partition), OffsetCommitValue(offset, metadata=metadata)
        record = (encode_key(key), encode_value(value))
        at = len(self.logs[self.home(group)])
        attributes, producer = (0x10, producer) if transactional else (0, -1)
        batch = encode_batch(
            at, [record], NOW, attributes=attributes, producer_id=producer, leader_epoch=self.leader_epoch
        )
        self._append(self.home(group), batch)

    def end(self, group: str, *, committed: bool, producer: int = 1) -> None:
        marker = EndTransactionMarker(ControlRecordType.COMMIT if committed else ControlRecordType.ABORT, 3)
        at = len(self.logs[self.home(group)])
        batch = encode_end_transaction(
            at, marker, NOW, producer_id=producer, producer_epoch=0, leader_epoch=self.leader_epoch
        )
        self._append(self.home(group), batch)

    def lose(self, group: str, end_offset: int) -> None:
        """What the group's partition has from there on is lost, and it has another leader."""
        del self.logs[self.home(group)][end_offset:]
        self.leader_epoch += 1
        self._begin_anew()

    def make_anew(self) -> None:
        """All of it is lost, and its topic is another one."""
        self.logs = [[] for _ in self.logs]
        self.topic_id = bytes([self.topic_id[0] + 1]) * 16
        self.leader_epoch = 0
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._generation += 1
        self._changed.set()

    async def partition_count(self) -> int:
        self.counted += 1
        await self.answering.wait()
        if self.trouble is not None:
            raise self.trouble("in trouble")
        return UPSTREAM_PARTITIONS

    async def end_of(self, partition: int) -> Position:
        self.ends_asked += 1
        at = len(self.logs[partition])
        return Position(partition, at, self.leader_epoch, at, self.topic_id)

    def _standing(self, position: Position) -> Position:
        """As a leader and a follower of it find out together."""
        if position.is_of_another_topic(self.topic_id):
            return Position(position.partition, 0, topic_id=self.topic_id)
        epochs = [read_header(raw).partition_leader_epoch for raw in self.logs[position.partition]]
        if position.leader_epoch == self.leader_epoch:
            return position.agreed(self.leader_epoch, len(epochs))
        known = [epoch for epoch in epochs if epoch <= position.leader_epoch]
        return position.agreed(max(known, default=-1), len(known))

    async def read(self, position: Position) -> AsyncGenerator[Read, None]:
        self.read_from.append(position[:2])
        first = True
        generation = -1
        partition = position.partition
        while True:
            await self.readable.wait()
            self._changed.clear()
            start = position
            if generation != self._generation:
                generation, end_offset = self._generation, len(self.logs[partition])
                start = self._standing(position)
            is_reset = start.next_offset < position.next_offset or start.topic_id != position.topic_id
            found = [(read_header(raw), decode_records(raw)) for raw in self.logs[partition][start.next_offset :]]
            position = start
            for header, _ in found:
                position = position.behind(header)
            if found or first or is_reset:
                first = False
                yield Read(start, found, end_offset, is_reset)
            else:
                await self._changed.wait()


async def follows(shim: Running, cluster: Cluster) -> TransactionFollower:
    shim.log.release(1_000)
    return TransactionFollower(shim.runtime, cluster)


async def ready(following: TransactionFollower, group: str) -> None:
    await until(lambda: following.ready(group) is ErrorCode.NONE)


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
    if answer.error_code:
        return answer.error_code, -1
    (found,) = answer.topics[0].partitions
    return found.error_code, found.committed_offset


async def until_fetched(shim: Running, group: str, expected: tuple[int, int], *, stable: bool = True) -> None:
    async def is_so() -> bool:
        return await fetched(shim, group, stable=stable) == expected

    await until_told(is_so)
