"""What an offsets partition on a topic makes of a coordinator that is not asked, as far as it was read."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from protocol.own.record_sets import LoggedRecord
from protocol.own.state_log import GroupChangeKey, GroupHandsValue
from protocol.own.topic_log import Place
from protocol.records.batches import BatchHeader
from protocol.topic_partition import TopicPartition
from shim.boottime import boottime
from shim.coordinator import CoordinatorSettings, GroupCoordinator
from shim.kafka_log.copies.replaying import TopicReplay
from shim.kafka_log.reading.read_part import ReadPart
from shim.runtime.replaying import Home

log = logging.getLogger(__name__)


class PartitionCopy:
    """Whoever takes the partition over goes on with it; from the beginning, where nobody has followed it.

    ``is_whole``: what was replayed is what ``part`` says was read, no less and no more. ``up_to_date_at``: a time, of
    CLOCK_BOOTTIME, at which nothing had been compacted yet that is not read. An earlier one is safe, a later one not.
    """

    def __init__(self, coordinator: GroupCoordinator, replay: TopicReplay, part: ReadPart) -> None:
        self.coordinator = coordinator
        self.part = part
        self.is_whole = True
        self.up_to_date_at = boottime()
        self._replay = replay

    @property
    def place(self) -> Place | None:
        """What it says last of which place counts; None: nothing."""
        return self._replay.place

    @property
    def changes(self) -> Mapping[GroupChangeKey, GroupHandsValue]:
        """Where groups stood before, which no coordinator knows."""
        return self._replay.changes

    def apply(self, records: Sequence[LoggedRecord]) -> None:
        """Records that ``part`` has taken. Raises LogError."""
        self._replay.apply(records)

    def take(self, batches: Iterable[tuple[BatchHeader, bytes]]) -> None:
        """Batches as they were fetched, of which the first is the next. Raises LogError, NotWhole; it is not whole any
        more then."""
        self.is_whole = False
        self.part.take_all(batches, self.apply)
        self.coordinator.take_touched()  # nobody else does, and they would become more and more
        self.is_whole = True


class NewCopies:
    """Of partitions of one topic, as whoever follows them or takes them over begins with them."""

    def __init__(self, topic: str, num_partitions: int, settings: Callable[[], CoordinatorSettings]) -> None:
        """``settings``: of the coordinators of those that are made from now on."""
        self._topic = topic
        self._num_partitions = num_partitions
        self._settings = settings

    def of(self, number: int, part: ReadPart | None = None) -> PartitionCopy:
        """Of nothing yet, or of what ``part`` says was read, once that is restored."""
        place = TopicPartition(self._topic, number)

        def skipped(offset: int, type_: int) -> None:
            log.warning("%s offset %d: key type %d skipped", place, offset, type_)

        coordinator = GroupCoordinator(self._settings())
        replay = TopicReplay(coordinator, self.home(number), skipped)
        return PartitionCopy(coordinator, replay, part or ReadPart(self._topic, number))

    def home(self, number: int) -> Home:
        """What may be in the partition."""
        return Home(number, self._num_partitions, str(TopicPartition(self._topic, number)))
