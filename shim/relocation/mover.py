"""One offsets partition, that nobody is served meanwhile, from one log into the other: docs/decisions/0022.

What counts is in exactly one place at any moment, and known from what is durable alone: where the directory's note of
the partition is settled, what that says; while it is on its way, what the topic says of itself, in a record that only
the shim writes that has the directory; and where the topic says nothing, where it was before.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import Enum, auto
from itertools import islice
from typing import Final, TypeVar

from protocol.own import topic_log
from protocol.own.topic_log import PlaceKey, encode_own
from shim.coordinator import Contents
from shim.disk_log import DiskBackend
from shim.kafka_log.backend import KafkaBackend
from shim.kafka_log.taking_over.taking_over import Found
from shim.log.directory.places import Place, Places
from shim.relocation.records import Changes, in_directory, on_topic, state_in_directory
from shim.relocation.words import NotMoved
from shim.runtime.backend import Loaded

log = logging.getLogger(__name__)

_SETS_AT_ONCE: Final = 16

Item = TypeVar("Item")


class Stage(Enum):
    """What is over by then, of either direction. ``SAID``: that the place where it comes to does not count yet.
    ``TOLD``: that it does."""

    READ = auto()
    NOTED = auto()
    SAID = auto()
    WRITTEN = auto()
    COMPARED = auto()
    TOLD = auto()
    SETTLED = auto()


class Mover:
    """For the event loop. Of each partition one call at a time, and nobody decides anything about it meanwhile."""

    def __init__(self, local: DiskBackend, kafka: KafkaBackend, places: Places, own_id: Callable[[], str]) -> None:
        """``own_id``: of the data directory, `shim.instance.id`; asked for once the cluster is known."""
        self._local = local
        self._kafka = kafka
        self._places = places
        self._own_id = own_id
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="log-move")
        self.reached: Callable[[int, Stage], None] = lambda number, stage: None
        """Called after each stage, with the partition's number."""

    async def settled(self, number: int) -> Place:
        """Where the partition is: of one that was on its way, too, from now on. Raises LogError, OSError, Fenced,
        UpstreamError."""
        before = self._places[number]
        if before.is_settled:
            return before
        async with self._kafka.apart(number):
            said = (await self._kafka.read_back(number)).place
            if said is not None and said.here:
                place = Place.TOPIC
            elif said is not None and said.directory == self._own_id():
                place = Place.DIRECTORY
            else:  # this shim has not said anything yet
                place = _BEFORE[before]
            await self._found(number, place)
            log.warning("__consumer_offsets-%d was on its way, and counts here: %s", number, place)
            if place is Place.DIRECTORY:
                await self._kafka.release(number)
        return place

    async def keep_others_off(self, number: int) -> None:
        """Of one that is in the directory, say so on the topic, which may be served by others else: a shim that has its
        log there would find nothing, and begin with that. Raises NotMoved, LogError, OSError, Fenced, UpstreamError."""
        async with self._kafka.apart(number):
            try:
                there = await self._kafka.read_back(number)
                self._check_may_come(there)
                if there.place is None:
                    await self._say(number, here=False)
            finally:
                await self._kafka.release(number)

    async def to_topic(self, number: int) -> Loaded:
        """Of one that is in the directory. Raises NotMoved, and what either log raises: :meth:`settled` says
        then where it is."""
        async with self._kafka.apart(number):
            try:
                return await self._to_topic(number)
            except Exception:
                if self._places[number] is Place.DIRECTORY:
                    await self._kafka.release(number)  # what happens there is no concern of its any more
                raise

    async def _to_topic(self, number: int) -> Loaded:
        kafka = self._kafka
        there = await kafka.read_back(number)
        self._check_may_come(there)
        changes = await self._local.changes(number)
        contents = (await self._from_directory(number)).coordinator.contents
        self.reached(number, Stage.READ)
        await self._note(number, Place.TO_TOPIC)
        self.reached(number, Stage.NOTED)
        try:
            await self._say(number, here=False)
            self.reached(number, Stage.SAID)
            record_sets = on_topic(contents, changes, there.coordinator.contents)
            while some := await self._some(record_sets):
                await kafka.write_apart(number, some)
            self.reached(number, Stage.WRITTEN)
            found = await kafka.read_back(number)
            if found.place is None or found.place.here or found.place.directory != self._own_id():
                raise NotMoved("another shim has written to the topic")
            await self._compare(contents, changes, found.coordinator.contents, found.changes)
            self._check_goes_on()
        except Exception:
            await self._found(number, Place.DIRECTORY)  # the topic does not say anything else
            raise
        self.reached(number, Stage.COMPARED)
        await self._say(number, here=True)
        self.reached(number, Stage.TOLD)
        await self._found(number, Place.TOPIC)
        self.reached(number, Stage.SETTLED)
        return kafka.served(number, found)

    async def to_directory(self, number: int) -> Loaded:
        """Of one that is on the topic. Raises as :meth:`to_topic`."""
        local, kafka = self._local, self._kafka
        async with kafka.apart(number):
            found = await kafka.read_back(number)
            if found.place is not None and not found.place.here:
                raise NotMoved(f"it is in the data directory of another shim, {found.place.directory}")
            contents = found.coordinator.contents
            before = (await self._from_directory(number)).coordinator.contents
            self.reached(number, Stage.READ)
            await self._note(number, Place.TO_DIRECTORY)
            self.reached(number, Stage.NOTED)
            try:
                self.reached(number, Stage.SAID)  # the topic counts until it says something else
                offsets = in_directory(contents, before)
                while some := await self._some(offsets):
                    await local.write_apart(number, some, [])
                state = state_in_directory(contents, found.changes, before)
                while some_state := await self._some(state):
                    await local.write_apart(number, [], some_state)
                self.reached(number, Stage.WRITTEN)
                changes = await local.changes(number)
                loaded = await self._from_directory(number)
                await self._compare(contents, found.changes, loaded.coordinator.contents, changes)
                self._check_goes_on()
            except Exception:
                await self._found(number, Place.TOPIC)
                raise
            self.reached(number, Stage.COMPARED)
            await self._say(number, here=False)
            self.reached(number, Stage.TOLD)
            await self._found(number, Place.DIRECTORY)
            self.reached(number, Stage.SETTLED)
            await kafka.release(number)
            return loaded

    # -- parts of a step

    def _check_may_come(self, there: Found) -> None:
        said = there.place
        if said is None:
            if not there.coordinator.contents.is_empty or there.changes:
                raise NotMoved("the topic has offsets of its own, of shims with offsets.log=kafka")
        elif said.here and said.directory == self._own_id():
            raise NotMoved("it was moved to the topic from this data directory, which is an older copy by now")
        elif said.here:
            raise NotMoved(f"the topic has what was moved there from the data directory {said.directory}")
        elif said.directory != self._own_id():
            raise NotMoved(f"it is in the data directory of another shim, {said.directory}")

    async def _from_directory(self, number: int) -> Loaded:
        loaded = await self._local.load(number)
        self._check_goes_on()  # what is read of it at a stop is not all
        return loaded

    def _check_goes_on(self) -> None:
        if self._local.is_stopping:
            raise NotMoved("the shim stops")

    async def _say(self, number: int, *, here: bool) -> None:
        """On the topic, which place counts."""
        record = encode_own((PlaceKey(), topic_log.Place(self._own_id(), here)))
        await self._kafka.write_apart(number, [[record]])

    async def _compare(self, contents: Contents, changes: Changes, others: Contents, other_changes: Changes) -> None:
        """Raises NotMoved, ValueError."""
        if changes != other_changes:
            raise NotMoved(f"{len(changes)} changes of groups are {len(other_changes)} there")
        loop = asyncio.get_running_loop()
        if (difference := await loop.run_in_executor(self._thread, contents.difference, others)) is not None:
            raise NotMoved(f"what was read back is not what was written: {difference}")

    async def _some(self, record_sets: Iterator[Item]) -> Sequence[Item]:
        return await asyncio.get_running_loop().run_in_executor(self._thread, _next, record_sets)

    async def _note(self, number: int, place: Place) -> None:
        await self._local.writes.in_thread(self._places.note, number, place)

    async def _found(self, number: int, place: Place) -> None:
        """Its topic says so, or does not say anything else. It is served from there whether that can be noted or not:
        the disk may be full."""
        try:
            await self._local.writes.in_thread(self._places.found, number, place)
        except OSError as error:
            log.error("__consumer_offsets-%d counts here: %s, which cannot be noted for now: %s", number, place, error)

    async def assure(self) -> None:
        """Where partitions are is noted. Raises OSError."""
        await self._local.writes.in_thread(self._places.assure)

    def close(self) -> None:
        """Whatever is compared is of no more use; nobody waits for it."""
        self._thread.shutdown(wait=False, cancel_futures=True)


_BEFORE: Final = {Place.TO_TOPIC: Place.DIRECTORY, Place.TO_DIRECTORY: Place.TOPIC}


def _next(record_sets: Iterable[Item]) -> list[Item]:
    return list(islice(record_sets, _SETS_AT_ONCE))
