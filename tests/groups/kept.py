"""A history of one partition, wherever it is kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Protocol

from protocol.own.history_log import HISTORY_TOPIC, HistoryRecord, encode_history
from protocol.partition import OFFSETS_TOPIC
from shim.config import Settings, parse_servers
from shim.disk_log.history import DiskHistoryLog
from shim.kafka_log.history.reading import TopicHistoryLog
from shim.kafka_log.history.writing import HistoryTopic, RecordSets
from shim.kafka_log.owning.producer_ids import ProducerIds
from shim.log import OffsetsLog
from shim.log.offsets_log import PartitionWrite
from shim.log.settings import LogSettings
from shim.runtime.history_log import HistoryLog
from shim.upstream.cluster import Cluster
from shim.upstream.errors import UpstreamError

SETTINGS: Final = Settings(topology_refresh_interval_ms=200)
PATIENCE_S: Final = 20.0
MOST_BYTES: Final = 2_000_000


class Kept(Protocol):
    log: HistoryLog

    async def write(self, record: HistoryRecord) -> None:
        """In a batch of its own."""
        await self.put(encode_history(record), record[0].time)

    async def put(self, raw: tuple[bytes, bytes], time_ms: int) -> None:
        """Likewise, key and value of a record as they are in the log."""


class KeptLocally(Kept):
    """In small segments."""

    def __init__(self, offsets_log: OffsetsLog) -> None:
        self._log = offsets_log
        self.log = DiskHistoryLog(offsets_log, self._settle)

    async def _settle(self, number: int) -> None:
        self._log.settle(number, topic=HISTORY_TOPIC)

    async def put(self, raw: tuple[bytes, bytes], time_ms: int) -> None:
        written = PartitionWrite(0, [[raw]], time_ms, topic=HISTORY_TOPIC)
        assert self._log.write([written]) == {}


@asynccontextmanager
async def kept_locally(data_dir: Path) -> AsyncIterator[KeptLocally]:
    topics = (OFFSETS_TOPIC, HISTORY_TOPIC)
    log = OffsetsLog.open(data_dir, 1, topics=topics, settings=LogSettings(segment_bytes=400))
    for topic in topics:
        assert list(log.recover(0, topic=topic)) == []
    kept = KeptLocally(log)
    try:
        yield kept
    finally:
        kept.log.close()
        log.close()


class KeptOnTopic(Kept):
    def __init__(
        self, cluster: Cluster, topic: str, partitions: int, read_patience_s: float, write_patience_s: float
    ) -> None:
        self._topic = topic
        self._ids = ProducerIds(cluster, SETTINGS)
        self.writing = HistoryTopic(
            cluster, SETTINGS, topic, patience_seconds=write_patience_s, max_message_bytes=MOST_BYTES
        )
        self.log = TopicHistoryLog(cluster, SETTINGS, topic, partitions, self.writing, read_patience_s)

    async def begin(self, *numbers: int) -> None:
        """As who has taken over the offsets of these partitions."""
        for number in numbers:
            self.writing.begin(number, await self._ids.next_epoch(f"{self._topic}-{number}", PATIENCE_S))

    async def put(self, raw: tuple[bytes, bytes], time_ms: int) -> None:
        assert await self.write_all({0: [[raw]]}, time_ms) == {}

    async def write_all(self, writes: Mapping[int, RecordSets], timestamp_ms: int) -> dict[int, UpstreamError]:
        """Gives what has failed, by partition."""
        failed: dict[int, UpstreamError] = {}

        def settled(told: Mapping[int, UpstreamError | None]) -> None:
            failed.update((number, error) for number, error in told.items() if error is not None)

        await self.writing.write(writes, timestamp_ms, settled)
        return failed

    def close(self) -> None:
        self.log.close()
        self.writing.close()
        self._ids.close()


@asynccontextmanager
async def kept_on_topic(
    bootstrap: str,
    topic: str,
    partitions: int = 1,
    *,
    read_patience_s: float = PATIENCE_S,
    write_patience_s: float = PATIENCE_S,
) -> AsyncIterator[KeptOnTopic]:
    """A process's. It has begun nothing. Little patience is for what is in vain: a busy broker takes its time."""
    cluster = Cluster(parse_servers(bootstrap), SETTINGS)
    following = asyncio.create_task(cluster.run())
    kept = KeptOnTopic(cluster, topic, partitions, read_patience_s, write_patience_s)
    try:
        yield kept
    finally:
        kept.close()
        following.cancel()
        await asyncio.wait([following])
