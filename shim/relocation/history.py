"""The history of commits where a partition may be in either log: that of the log in which it is now."""

from __future__ import annotations

from collections.abc import Sequence

from shim.disk_log.history import DiskHistoryLog
from shim.kafka_log.history.reading import TopicHistoryLog
from shim.log.directory.places import Place, Places
from shim.runtime.history_log import HistoryLog, Part, Take


class TwoHistories:
    """See :class:`shim.runtime.history_log.HistoryLog`. What was committed before a partition was moved stays where it
    was."""

    def __init__(self, local: DiskHistoryLog, kafka: TopicHistoryLog, places: Places) -> None:
        self.num_partitions = local.num_partitions
        self._local = local
        self._kafka = kafka
        self._places = places

    def _of(self, number: int) -> HistoryLog:
        return self._kafka if self._places[number] is Place.TOPIC else self._local

    async def end(self, number: int) -> int:
        return await self._of(number).end(number)

    async def parts(self, number: int, since: int = 0) -> Sequence[Part]:
        return await self._of(number).parts(number, since)

    async def read(self, number: int, part: Part, take: Take) -> None:
        await self._of(number).read(number, part, take)

    def close(self) -> None:
        self._local.close()
        self._kafka.close()
