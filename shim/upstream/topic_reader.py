"""Reads a topic of the cluster's as a consumer of its partitions does, but raw: batches, transactions and markers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Final, NamedTuple

from protocol.batches import BatchError, BatchHeader, Record, TruncatedBatch
from protocol.errors import ErrorCode
from protocol.fetched import decode_fetched
from protocol.messages import fetch, list_offsets, metadata
from shim.config import HostPort, Settings
from shim.upstream.cluster import Cluster
from shim.upstream.connection import BrokerConnection
from shim.upstream.errors import UpstreamError

log = logging.getLogger(__name__)

# Newer ones name topics by id, and new leaders by address.
_NEWEST_FETCH: Final = 12
_NEWEST_LIST_OFFSETS: Final = 8
_OLDEST_WITH_BATCHES: Final = 4

_RETRY_S: Final = 0.2
_MAX_WAIT_MS: Final = 2_000
_MAX_BYTES: Final = 1 << 20
_EARLIEST, _LATEST = -2, -1


class TopicUnknown(UpstreamError):
    """The cluster has no such topic (yet)."""


class Read(NamedTuple):
    """What one fetch has brought; there may be nothing in it. ``next_offset``: behind the last batch."""

    batches: list[tuple[BatchHeader, list[Record]]]
    next_offset: int


class TopicReader:
    """Of one topic. Each reading has a connection of its own."""

    def __init__(self, cluster: Cluster, settings: Settings, topic: str) -> None:
        self._cluster = cluster
        self._settings = settings
        self._topic = topic

    async def partition_count(self) -> int:
        """Raises TopicUnknown, UpstreamError."""
        return len(await self._leaders())

    async def end_offset(self, partition: int) -> int:
        """The high watermark: everything that is written from now on is at or above it. Raises UpstreamError."""
        connection = await self._to_leader(partition)
        try:
            return await self._offset(connection, partition, _LATEST)
        finally:
            connection.close()

    async def read(self, partition: int, offset: int) -> AsyncIterator[Read]:
        """The partition from ``offset`` on, up to the high watermark, for ever; whatever keeps it from reading is tried
        again.

        Where the offset is not there any more, or not yet (records were deleted, or the log was truncated), it goes on
        at the nearer end, and says so in the log.
        """
        told = ""
        while True:
            connection = None
            try:
                connection = await self._to_leader(partition)
                while True:
                    read = await self._fetch(connection, partition, offset)
                    if told:
                        log.info("%s-%d is read again from offset %d on", self._topic, partition, offset)
                        told = ""
                    offset = read.next_offset
                    yield read
            except (UpstreamError, BatchError) as error:
                if str(error) != told:
                    told = str(error)
                    log.warning("%s-%d at offset %d, trying again: %s", self._topic, partition, offset, error)
            finally:
                if connection is not None:
                    connection.close()
            await asyncio.sleep(_RETRY_S)

    async def _fetch(self, connection: BrokerConnection, partition: int, offset: int) -> Read:
        wanted = fetch.FetchPartition(partition, fetch_offset=offset, partition_max_bytes=_MAX_BYTES)
        request = fetch.FetchRequest(
            max_wait_ms=min(_MAX_WAIT_MS, self._settings.request_timeout_ms // 2),
            min_bytes=1,
            topics=(fetch.FetchTopic(self._topic, partitions=(wanted,)),),
        )
        answer = await connection.ask(fetch.API, request, at_most=_NEWEST_FETCH)
        self._raise_for(answer.error_code, partition)
        found = next((each for topic in answer.responses for each in topic.partitions), None)
        if found is None:
            raise UpstreamError(f"{connection.address}: Fetch of {self._topic}-{partition} was answered with nothing")
        if found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            return Read([], await self._nearer_end(connection, partition, offset))
        self._raise_for(found.error_code, partition)
        batches = []
        try:
            for header, records in decode_fetched(found.records or b""):
                if header is not None and header.next_offset > offset:
                    batches.append((header, records))
        except TruncatedBatch:
            pass  # a response may end in the middle of a batch
        return Read(batches, batches[-1][0].next_offset if batches else offset)

    async def _nearer_end(self, connection: BrokerConnection, partition: int, offset: int) -> int:
        earliest = await self._offset(connection, partition, _EARLIEST)
        latest = await self._offset(connection, partition, _LATEST)
        nearer = min(max(offset, earliest), latest)
        if nearer != offset:
            log.error(
                "%s-%d has offsets %d to %d, and was read up to %d: what stood there is not known; it goes on at %d",
                *(self._topic, partition, earliest, latest, offset, nearer),
            )
        return nearer

    async def _offset(self, connection: BrokerConnection, partition: int, timestamp: int) -> int:
        wanted = list_offsets.ListOffsetsPartition(partition, timestamp=timestamp)
        request = list_offsets.ListOffsetsRequest(
            replica_id=-1, topics=(list_offsets.ListOffsetsTopic(self._topic, (wanted,)),)
        )
        answer = await connection.ask(list_offsets.API, request, at_most=_NEWEST_LIST_OFFSETS)
        ((found,),) = (topic.partitions for topic in answer.topics)
        self._raise_for(found.error_code, partition)
        return found.offset

    async def _to_leader(self, partition: int) -> BrokerConnection:
        address = (await self._leaders()).get(partition)
        if address is None:
            raise UpstreamError(f"{self._topic}-{partition} has no leader")
        connection = BrokerConnection(address, self._settings)
        await connection.open()
        return connection

    async def _leaders(self) -> dict[int, HostPort | None]:
        failures = []
        # Not made by asking: a client's FindCoordinator makes the cluster's offsets topic, as it should be.
        request = metadata.MetadataRequest(
            (metadata.MetadataRequestTopic(name=self._topic),), allow_auto_topic_creation=False
        )
        for address in self._cluster.any_address():
            connection = BrokerConnection(address, self._settings)
            try:
                await connection.open()
                answer = await connection.ask(metadata.API, request)
            except UpstreamError as error:
                failures.append(str(error))
                continue
            finally:
                connection.close()
            (topic,) = answer.topics
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise TopicUnknown(f"{address}: there is no topic {self._topic}")
            self._raise_for(topic.error_code, -1)
            brokers = {broker.node_id: HostPort(broker.host, broker.port) for broker in answer.brokers}
            return {each.partition_index: brokers.get(each.leader_id) for each in topic.partitions}
        raise UpstreamError("; ".join(failures) or "no broker is known")

    def _raise_for(self, error_code: int, partition: int) -> None:
        if error_code != ErrorCode.NONE:
            error = ErrorCode.for_code(error_code)
            raise UpstreamError(f"{self._topic}-{partition}: {error.name}")
