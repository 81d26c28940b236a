"""Partitions are moved, one after the other, at the word of whoever looks after the shim, and it is told how far that
is."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from shim.counted import counted
from shim.log import LogError
from shim.log.places import Place, Places
from shim.relocation.backend import TwoLogs
from shim.relocation.others import OtherShims
from shim.relocation.words import CannotMove, LogPlaces, PartitionPlace, Side
from shim.runtime import Runtime
from shim.upstream import UpstreamError

log = logging.getLogger(__name__)

_PLACES: Final = {Side.LOCAL: Place.DIRECTORY, Side.KAFKA: Place.TOPIC}
_SIDES: Final = {place: str(side) for side, place in _PLACES.items()}


class Relocation:
    """For the event loop."""

    def __init__(self, logs: TwoLogs, runtime: Runtime, places: Places, others: OtherShims) -> None:
        self._logs = logs
        self._runtime = runtime
        self._places = places
        self._others = others
        self._trouble: dict[int, str] = {}
        self._to: Side | None = None
        self._moving: asyncio.Task[None] | None = None
        self._turn = 0
        self._changed = asyncio.Condition()

    def places(self) -> LogPlaces:
        partitions = [
            PartitionPlace(number, _SIDES.get(self._places[number], "moving"), self._trouble.get(number, ""))
            for number in range(len(self._places))
        ]
        return LogPlaces(partitions, self._to, self._turn)

    async def changed(self, turn: int, seconds: float) -> LogPlaces:
        """As :meth:`places`, once that is another turn, or the time is over."""
        try:
            async with asyncio.timeout(seconds), self._changed:
                await self._changed.wait_for(lambda: self._turn != turn)
        except TimeoutError:
            pass
        return self.places()

    async def begin(self, to: Side) -> LogPlaces:
        """Have all partitions moved there that are not; nothing more where that goes on already. Raises CannotMove."""
        if self._to is not None and self._to is not to:
            raise CannotMove(f"partitions are being moved to {self._to}: wait until that is over")
        if self._to is None:
            self._to = to
            try:
                await self._check()
            except BaseException:
                self._to = None
                raise
            self._trouble.clear()
            self._moving = asyncio.create_task(self._move_all(to))
            await self._has_changed()
        return self.places()

    async def _check(self) -> None:
        try:
            await self._logs.check_alone()
            await self._logs.open_topics()
        except (LogError, UpstreamError, OSError) as error:
            raise CannotMove(str(error)) from error

    async def _move_all(self, to: Side) -> None:
        place = _PLACES[to]
        wanted = self._places.elsewhere_than(place)
        log.info("%s of %d to be moved to %s", counted(len(wanted), "partition"), len(self._places), to)
        try:
            for number in wanted:
                trouble = await self._move(number, place)
                if trouble is not None:
                    self._trouble[number] = trouble
                await self._has_changed()
        finally:
            self._to = None
            left = len(self._places.elsewhere_than(place))
            log.info("%s of %d not moved to %s", counted(left, "partition"), len(self._places), to)
            await self._has_changed()

    async def _move(self, number: int, place: Place) -> str | None:
        """Why it is not moved; None where it is."""
        if self._runtime.coordinator(number) is None:
            return "it is not served: see the shim's log"
        over = self._logs.wish(number, place)
        self._runtime.reload(number)
        return await over

    async def _has_changed(self) -> None:
        async with self._changed:
            self._turn += 1
            self._changed.notify_all()

    async def close(self) -> None:
        """Partitions that are on their way stay there, until the next start."""
        if self._moving is not None:
            self._moving.cancel()
            await asyncio.gather(self._moving, return_exceptions=True)
        self._others.close()
