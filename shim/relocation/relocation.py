"""Partitions are moved, one after the other, at the word of whoever looks after the shim, and it is told how far that
is."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import Final

from shim.counted import counted
from shim.log import LogError
from shim.log.directory.places import Place, Places
from shim.logged_once import LoggedOnce
from shim.relocation.backend import TwoLogs
from shim.relocation.others import OtherShims
from shim.relocation.words import CannotMove, LogPlaces, NotMoved, PartitionPlace, Side
from shim.runtime import Runtime
from shim.upstream import UpstreamError
from shim.upstream.topic_leaders import TopicLeaders

log = logging.getLogger(__name__)

_AGAIN_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 3.0
_TAKEN_AWAY: Final = "partitions that somebody else has had are not taken again"

_PLACES: Final = {Side.LOCAL: Place.DIRECTORY, Side.KAFKA: Place.TOPIC}
_SIDES: Final = {place: str(side) for side, place in _PLACES.items()}


class Relocation:
    """For the event loop."""

    def __init__(
        self, logs: TwoLogs, runtime: Runtime, places: Places, others: OtherShims, clusters_offsets: TopicLeaders
    ) -> None:
        """``clusters_offsets``: of the cluster's own `__consumer_offsets`."""
        self._clusters_offsets = clusters_offsets
        self._warning = ""
        self._logs = logs
        self._runtime = runtime
        self._places = places
        self._others = others
        self._trouble: dict[int, str] = {}
        self._to: Side | None = None
        self._moving: asyncio.Task[None] | None = None
        self.under_way: int | None = None
        """The partition that is being moved, which nobody is served meanwhile, for as long as that takes."""
        self._changes = 0
        self._changed = asyncio.Condition()
        self._taking_again: asyncio.Task[None] | None = None
        self._troubles = LoggedOnce(log)
        runtime.lost = self._lost

    def places(self) -> LogPlaces:
        partitions = [
            PartitionPlace(number, _SIDES.get(self._places[number], "moving"), self._trouble.get(number, ""))
            for number in range(len(self._places))
        ]
        return LogPlaces(partitions, self._to, self._changes, self._warning)

    async def changed(self, changes: int, seconds: float) -> LogPlaces:
        """See :class:`Relocates`."""
        try:
            async with asyncio.timeout(seconds), self._changed:
                await self._changed.wait_for(lambda: self._changes != changes)
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
                self._warning = await self._other_number() if to is Side.KAFKA else ""
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
            await self._logs.assure_places()
        except (LogError, UpstreamError, OSError) as error:
            raise CannotMove(str(error)) from error

    async def _other_number(self) -> str:
        """What it means where the cluster's own offsets have another number of partitions: whose groups are led where
        by its brokers says nothing then of where they are here. "" where it is the same, or not known."""
        try:
            theirs = len((await self._clusters_offsets.look_up(_LOOK_SECONDS)).places)
        except UpstreamError as error:  # where there is none yet, too
            log.info("how many partitions the cluster's own offsets have is not known: %s", error)
            return ""
        if theirs == len(self._places):
            return ""
        warning = (
            f"this log has {counted(len(self._places), 'partition')}, the cluster's __consumer_offsets {theirs}: with "
            "offsets.log=kafka one shim will have all groups, and others stand by"
        )
        log.warning("%s", warning)
        return warning

    async def _move_all(self, to: Side) -> None:
        place, moved = _PLACES[to], 0
        wanted = self._places.elsewhere_than(place)
        log.info("%s of %d to be moved to %s", counted(len(wanted), "partition"), len(self._places), to)
        try:
            if to is Side.KAFKA and not await self._keep_others_off(wanted):
                return
            for number in wanted:
                if self._logs.is_stopping:
                    break  # the next start goes on with it when it is told to
                try:
                    trouble = await self._move(number, place)
                except Exception as error:
                    log.exception("__consumer_offsets-%d could not be moved", number)
                    trouble = f"failed, the shim's log says why: {type(error).__name__}"
                if trouble is not None:
                    self._trouble[number] = trouble
                elif (coordinator := self._runtime.coordinator(number)) and (offsets := coordinator.offset_count):
                    log.info("__consumer_offsets-%d is moved to %s: %s", number, to, counted(offsets, "offset"))
                    moved += offsets
                await self._has_changed()
        finally:
            self._to = None
            if left := len(self._places.elsewhere_than(place)):
                log.warning("%s of %d not moved to %s", counted(left, "partition"), len(self._places), to)
            else:
                had = counted(moved, "offset")
                log.info("all %s are at %s; %s moved just now", counted(len(self._places), "partition"), to, had)
            await self._has_changed()

    async def _keep_others_off(self, wanted: Collection[int]) -> bool:
        """Before the first one is there: from then on there is something that others could have on topics. Gives
        whether the topics say of all of them where they are. Otherwise nothing is to be moved, and of each is told why:
        one of which the topic says nothing could be taken by a shim that finds the others there. What has been said is
        true whatever comes, and need not be taken back."""
        for number in wanted:
            if self._logs.is_stopping:
                return False
            if self._places[number] is not Place.DIRECTORY:  # it was on its way, and its topic was told before that
                continue
            try:
                await self._logs.keep_others_off(number)
            except NotMoved as error:
                self._not_told(number, str(error))
            except (LogError, UpstreamError, OSError) as error:
                self._not_told(number, str(error) or type(error).__name__)
                break  # of the next one it would be the same, after as long
            except Exception as error:
                log.exception("__consumer_offsets-%d", number)
                self._not_told(number, f"failed, the shim's log says why: {type(error).__name__}")
                break
        if not self._trouble:
            return True
        why = f"none is moved before each topic partition says where it is: see __consumer_offsets-{min(self._trouble)}"
        self._trouble = dict.fromkeys(wanted, why) | self._trouble
        return False

    def _not_told(self, number: int, why: str) -> None:
        log.error("__consumer_offsets-%d: its topic cannot be told where it is, so none is moved: %s", number, why)
        self._trouble[number] = why

    async def _move(self, number: int, place: Place) -> str | None:
        """Why it is not moved; None where it is."""
        if self._runtime.coordinator(number) is None:
            return "it is not served: see the shim's log"
        self.under_way = number
        try:
            over = self._logs.wish(number, place)
            self._runtime.reload(number)
            return await over
        finally:
            self.under_way = None

    def _lost(self) -> None:
        """Somebody else has a partition, or had it: nobody but this one is to have any."""
        if self._taking_again is None or self._taking_again.done():
            self._taking_again = asyncio.create_task(self._take_again())

    async def _take_again(self) -> None:
        while True:
            await asyncio.sleep(_AGAIN_SECONDS)
            try:
                await self._logs.check_alone()
                break
            except (LogError, UpstreamError, OSError) as error:
                self._troubles.failed(_TAKEN_AWAY, error)
        self._troubles.went_well(_TAKEN_AWAY)
        self._runtime.own(range(len(self._places)))

    async def _has_changed(self) -> None:
        async with self._changed:
            self._changes += 1
            self._changed.notify_all()

    async def close(self) -> None:
        """Partitions that are on their way stay there, until the next start."""
        tasks = [each for each in (self._moving, self._taking_again) if each is not None]
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._others.close()
