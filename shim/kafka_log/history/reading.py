"""The history of commits on a topic, read beside those that go on: a :class:`~shim.runtime.history_log.HistoryLog`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import Final

from protocol.own.position import Position
from protocol.topic_partition import TopicPartition
from shim.config import Settings
from shim.kafka_log.history.writing import HistoryTopic
from shim.kafka_log.reading.patient_reading import read_patiently
from shim.runtime.history_log import HistoryBatch, NoHistory, Part, Take, doubling
from shim.upstream.cluster import Cluster
from shim.upstream.topic_reader import TopicReader

_PATIENCE_S: Final = 5.0
"""For more of what is to be read."""


class TopicHistoryLog:
    """What is fetched is decoded, and looked through, in a thread."""

    def __init__(
        self,
        cluster: Cluster,
        settings: Settings,
        topic: str,
        num_partitions: int,
        writing: HistoryTopic | None,
        patience_seconds: float = _PATIENCE_S,
    ) -> None:
        """``writing``: what this process writes; None where no history is kept."""
        self.num_partitions = num_partitions
        self._topic = topic
        self._written = writing
        self._patience = patience_seconds
        self._reader = TopicReader(cluster, settings, topic)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="history")

    async def end(self, number: int) -> int:
        return await self._writing.end(number)

    @property
    def _writing(self) -> HistoryTopic:
        """Raises NoHistory."""
        if self._written is None:
            raise NoHistory
        return self._written

    async def parts(self, number: int, since: int = 0) -> Sequence[Part]:
        earliest, end = await self._writing.ends(number)
        return doubling(max(since, earliest), end)

    async def read(self, number: int, part: Part, take: Take) -> None:
        if part.first >= part.end:
            return
        where, begin = str(TopicPartition(self._topic, number)), Position(number, part.first)
        reading = read_patiently(self._reader.read_raw(begin), begin, self._patience, where)
        async with aclosing(reading):
            async for read in reading:
                batches = [
                    HistoryBatch(f"{where} offset {header.base_offset}", raw)
                    for header, raw in read.batches
                    if header.base_offset < part.end
                ]
                if batches:
                    await asyncio.get_running_loop().run_in_executor(self._thread, take, batches)
                if read.position.next_offset >= part.end:
                    return

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
