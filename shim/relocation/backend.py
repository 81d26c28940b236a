"""The log in the data directory and the one on topics as one, each partition in one of them; and partitions moved."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final

from shim.config import Settings
from shim.coordinator import CoordinatorSettings, GroupCoordinator
from shim.counted import counted
from shim.disk_log import DiskBackend
from shim.kafka_log.backend import KafkaBackend
from shim.log import LogError
from shim.log.directory.places import Place, Places
from shim.metrics import FlushCounts, StandbyCounts
from shim.relocation.mover import Mover
from shim.relocation.words import NotMoved
from shim.runtime.backend import Backend, Loaded, OwnedElsewhere, Reports, Writes, nothing
from shim.runtime.snapshots import Retired
from shim.upstream import UpstreamError

log = logging.getLogger(__name__)


_EXPECTED: Final = (NotMoved, LogError, UpstreamError, OSError)


class _Wish:
    """That a partition be moved. ``trouble``: why it was not, once that was tried; ``over`` has it when the partition
    is served again, or cannot be."""

    def __init__(self, to: Place) -> None:
        self.to = to
        self.trouble: str | None = None
        self.is_tried = False
        self.over: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()

    def end(self, trouble: str | None) -> None:
        if not self.over.done():
            self.over.set_result(trouble)


class TwoLogs:
    """See :class:`shim.runtime.backend.Backend`. For the event loop."""

    is_divided: Final = False
    is_among_shims: Final = False
    loads_at_once: Final = KafkaBackend.loads_at_once
    passing: Final = (UpstreamError, OSError)

    flushes: FlushCounts
    """Of both logs: who measures is told of all as one."""

    def __init__(
        self,
        local: DiskBackend,
        kafka: KafkaBackend,
        places: Places,
        mover: Mover,
        others: Callable[[], Awaitable[Sequence[str]]],
        claimed: asyncio.Event,
    ) -> None:
        """``others``: who else has the topics now, once the cluster is known to be the right one, which sets
        ``claimed``; raises UpstreamError. Both logs have the same progress."""
        self._claimed = claimed
        self._local = local
        self._kafka = kafka
        self._places = places
        self._mover = mover
        self._others = others
        self._wishes: dict[int, _Wish] = {}
        self.num_partitions = local.num_partitions
        self.progress = local.progress
        self.cleaning = local.cleaning

    def attach(self, reports: Reports) -> None:
        def in_directory(number: int) -> GroupCoordinator | None:
            # Of what is on a topic the directory gets no snapshots.
            return reports.coordinator(number) if self._places[number] is Place.DIRECTORY else None

        self._local.attach(reports._replace(coordinator=in_directory))
        self._kafka.attach(reports)
        self.flushes = self._kafka.writes.flushes = self._local.writes.flushes

    def writes_of(self, number: int) -> Writes:
        return self._side(self._places[number]).writes_of(number)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as both:
            both.create_task(self._local.run())
            both.create_task(self._kafka.run())

    def name_of(self, number: int) -> str:
        return self._side(self._places[number]).name_of(number)

    def remedy(self, number: int) -> str:
        # Where one is that was on its way, its topic says: what cannot be read is that.
        side = self._local if self._is_in_directory(number) else self._kafka
        return side.remedy(number)

    @property
    def standbys(self) -> StandbyCounts:
        return self._kafka.standbys

    @property
    def complaints(self) -> Sequence[str]:
        return self._kafka.complaints

    def coordinator_settings(self, settings: Settings) -> CoordinatorSettings:
        """What is decided fits into either log."""
        return self._kafka.coordinator_settings(settings)

    def take_settings(self, settings: Settings) -> None:
        self._local.take_settings(settings)
        self._kafka.take_settings(settings)

    @property
    def is_stopping(self) -> bool:
        """From :meth:`stop` on."""
        return self._local.is_stopping

    # -- loading

    async def open(self) -> None:
        await self._local.open()
        if self._places.elsewhere_than(Place.DIRECTORY):
            await self._claimed.wait()
            await self.check_alone()
            await self.open_topics()

    async def open_topics(self) -> None:
        """Makes them where they are not there yet. Raises LogError, UpstreamError."""
        if not self._kafka.is_open:
            await self._kafka.open()

    async def check_alone(self) -> None:
        """Raises LogError where other shims share the topics, UpstreamError."""
        if others := await self._others():
            share, them = ("shares", "it") if len(others) == 1 else ("share", "them")
            raise LogError(
                f"{counted(len(others), 'other shim')} {share} the topics of the log ({', '.join(others)}): stop "
                f"{them} first, as a shim with offsets.log=moving has all partitions to itself"
            )

    async def size(self) -> int | None:
        return await self._local.size() if not self._places.elsewhere_than(Place.DIRECTORY) else None

    async def sizes(self) -> Sequence[int]:
        sizes = await self._local.sizes()
        return [size if self._is_in_directory(number) else 0 for number, size in enumerate(sizes)]

    def expect(self, numbers: Collection[int]) -> None:
        self._kafka.expect([number for number in numbers if self._stays_on_topic(number)])

    def stand_by(self, numbers: Collection[int]) -> None:
        """Nobody else has any."""

    def _stays_on_topic(self, number: int) -> bool:
        return self._places[number] is Place.TOPIC and number not in self._wishes

    def _is_in_directory(self, number: int) -> bool:
        return self._places[number] is Place.DIRECTORY

    async def load(self, number: int) -> Loaded:
        """Moves it, too, where that is wished for and was not tried yet."""
        wish = self._wishes.get(number)
        try:
            if wish is not None and not wish.is_tried:
                # What was on its way, or is now, is tried until it is known where it is.
                place = await self._mover.settled(number)
                wish.is_tried = True
                if place is not wish.to:
                    try:
                        return await self._moved(number, wish.to)
                    except _EXPECTED as error:
                        wish.trouble = str(error) or type(error).__name__
                        log.error("__consumer_offsets-%d is not moved: %s", number, wish.trouble)
                    except Exception as error:  # whatever it is, the partition is to be served from where it was
                        wish.trouble = f"{type(error).__name__}: {error}"
                        log.exception("__consumer_offsets-%d is not moved", number)
            place = await self._mover.settled(number)
            if wish is not None and place is wish.to:
                wish.trouble = None  # its last word was written, as is known now
            return await self._side(place).load(number)
        except OwnedElsewhere as error:  # which nobody tries again by himself
            self._end_wish(number, str(error))
            raise
        except self.passing:
            raise
        except Exception as error:
            self._end_wish(number, str(error))
            raise

    def _end_wish(self, number: int, why: str) -> None:
        wish = self._wishes.pop(number, None)
        if wish is not None:
            wish.end(wish.trouble or why)

    async def _moved(self, number: int, to: Place) -> Loaded:
        if to is Place.TOPIC:
            return await self._mover.to_topic(number)
        return await self._mover.to_directory(number)

    def _side(self, place: Place) -> Backend:
        return self._kafka if place is Place.TOPIC else self._local

    def loaded(self, number: int, loaded: Loaded) -> None:
        self._side(self._places[number]).loaded(number, loaded)
        wish = self._wishes.get(number)
        if wish is not None and wish.is_tried:
            del self._wishes[number]
            wish.end(wish.trouble)

    async def assure_places(self) -> None:
        """What could not be noted of them is. Raises OSError."""
        await self._mover.assure()

    async def keep_others_off(self, number: int) -> None:
        """See :meth:`Mover.keep_others_off`."""
        await self._mover.keep_others_off(number)

    def wish(self, number: int, to: Place) -> asyncio.Future[str | None]:
        """Have the partition moved when it is loaded next, once. Gives why it is not moved, None where it is, when it
        is served again, or cannot be."""
        wish = self._wishes[number] = _Wish(to)
        return wish.over

    async def release(self, number: int) -> None:
        """Nobody else is to have any."""

    def begin_cleaning(self) -> None:
        self._local.begin_cleaning()

    # -- the end

    def stop(self) -> None:
        self._local.stop()
        self._kafka.stop()
        for wish in self._wishes.values():
            wish.end("the shim stops")
        self._wishes.clear()

    async def close(
        self, last: Retired, timeout_seconds: float, _given_up: Callable[[], Awaitable[None]] = nothing
    ) -> None:
        in_directory = [its for its in last if self._is_in_directory(its[0])]
        try:
            await self._kafka.close([its for its in last if its not in in_directory], timeout_seconds)
        finally:
            self._mover.close()
            await self._local.close(in_directory, timeout_seconds)
