"""What was decided, on its way into the log that has its partition."""

from __future__ import annotations

import asyncio

from shim.kafka_log.writing.flights import TopicFlights
from shim.log.places import Place, Places
from shim.runtime.backend import Writes
from shim.runtime.flight import Batch, Flight, RecordSet, Ticket
from shim.runtime.writer import Writer


class TwoWrites:
    """See :class:`shim.runtime.backend.Writes`. A partition changes places while nothing of it is on its way."""

    def __init__(self, local: Writer, kafka: TopicFlights, places: Places) -> None:
        self._local = local
        self._kafka = kafka
        self._places = places
        # Who measures is told of all as one.
        self.flushes = kafka.flushes = local.flushes

    def _of(self, number: int) -> Writes:
        return self._kafka if self._places[number] is Place.TOPIC else self._local

    def append(self, number: int, records: Batch, history: RecordSet) -> None:
        self._of(number).append(number, records, history)

    def append_state(self, number: int, records: RecordSet) -> None:
        self._of(number).append_state(number, records)

    def flight_of(self, number: int) -> Flight | None:
        return self._of(number).flight_of(number)

    def flying_of(self, number: int) -> Flight | None:
        return self._of(number).flying_of(number)

    def awaited(self, number: int) -> Flight | None:
        return self._of(number).awaited(number)

    def may_tell(self, number: int) -> bool:
        return self._of(number).may_tell(number)

    def is_surely_ours(self, number: int) -> bool:
        return self._of(number).is_surely_ours(number)

    def hangs(self, number: int) -> bool:
        return self._of(number).hangs(number)

    def lost(self, number: int) -> list[Ticket]:
        return self._of(number).lost(number)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as both:
            both.create_task(self._local.run())
            both.create_task(self._kafka.run())
