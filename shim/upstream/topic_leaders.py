"""Who leads the partitions of a topic, as brokers say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

from protocol.errors import ErrorCode
from protocol.messages import metadata
from protocol.own.position import UNKNOWN_EPOCH
from shim.config import HostPort, Settings
from shim.counted import counted
from shim.upstream.cluster import Cluster
from shim.upstream.connection import BrokerConnection
from shim.upstream.errors import UpstreamError, raise_for
from shim.upstream.first_answer import first_answer

_NEXT_BROKER_S: Final = 0.3
"""When a broker has not said by then who the leaders are, the next one is asked, too."""


class TopicUnknown(UpstreamError):
    """The cluster has no such topic (yet)."""


class Leader(NamedTuple):
    """Which node leads a partition, and under which epoch: of each there is one. An epoch begins with each leader, and
    with what else the controller changes about the partition (before Kafka 3.6 each follower that falls behind)."""

    node_id: int = -1
    epoch: int = UNKNOWN_EPOCH

    def has_led_since(self, before: Leader) -> bool:
        """Whether nobody else has led since that one did, as far as the epochs tell."""
        return self.node_id == before.node_id and before.epoch <= self.epoch <= before.epoch + 1


class Place(NamedTuple):
    """A partition's leader, as a broker has named it, and since when it is: its epoch."""

    leader: HostPort | None
    leader_epoch: int
    node_id: int = -1


class LedTopic(NamedTuple):
    topic_id: bytes
    places: dict[int, Place]

    def leader_epoch(self, partition: int) -> int:
        return self.places[partition].leader_epoch if partition in self.places else UNKNOWN_EPOCH

    def leader(self, partition: int) -> Leader:
        place = self.places.get(partition)
        return Leader() if place is None else Leader(place.node_id, place.leader_epoch)

    def is_older(self, partition: int, epoch: int) -> bool:
        """Whether it names a leader from before that epoch. Of one without any (brokers before 2.1) nobody knows."""
        return UNKNOWN_EPOCH < self.leader_epoch(partition) < epoch

    def newer(self, before: LedTopic | None) -> LedTopic:
        """This, but for leaders of which newer ones were known before."""
        if before is None or before.topic_id != self.topic_id:
            return self
        newer = {
            number: place for number, place in before.places.items() if place.leader_epoch > self.leader_epoch(number)
        }
        return self._replace(places=self.places | newer)


class TopicLeaders:
    """Of one topic. Each look-up has connections of its own."""

    def __init__(self, cluster: Cluster, settings: Settings, topic: str) -> None:
        self._cluster = cluster
        self._settings = settings
        self._topic = topic

    async def look_up(self, patience: float, *, passed_over: int = 0) -> LedTopic:
        """As the first broker says that answers. ``passed_over``: so many come last instead of first, as what they said
        led to nothing: one that is cut off from the controllers tells who led. Raises TopicUnknown, UpstreamError."""
        known = self._cluster.any_address()
        first = passed_over % max(1, len(known))
        return await first_answer(
            (*known[first:], *known[:first]),
            lambda address: self._ask_for_leaders(address, patience),
            _NEXT_BROKER_S,
            (TopicUnknown,),
        )

    async def look_up_at_most_brokers(self, partition: int, patience: float) -> LedTopic:
        """What most brokers say, by the newest leader: one alone may be cut off from the others, and not know it.

        Raises UpstreamError, also where not enough of them answer, or agree.
        """
        addresses = list(self._cluster.brokers.values()) or list(self._cluster.any_address())
        asked = (self._ask_for_leaders(address, patience) for address in addresses)
        answers = await asyncio.gather(*asked, return_exceptions=True)
        topics = [answer for answer in answers if isinstance(answer, LedTopic)]
        for topic_id in {topic.topic_id for topic in topics}:
            agreeing = [topic for topic in topics if topic.topic_id == topic_id]
            if 2 * len(agreeing) > len(addresses):
                return max(agreeing, key=lambda topic: topic.leader_epoch(partition))
        failures = sorted(str(answer) for answer in answers if isinstance(answer, UpstreamError))
        needed, told = len(addresses) // 2 + 1, f"{len(topics)} of {len(addresses)} do"
        raise UpstreamError(
            "; ".join(
                (f"{self._topic}: {counted(needed, 'broker')} must say of one topic who leads it, {told}", *failures)
            )
        )

    async def look_up_as(self, fits: Callable[[LedTopic], bool], patience: float) -> LedTopic | None:
        """The first answer that fits, of all brokers that are asked at once; None where there is none."""
        addresses = list(self._cluster.any_address())
        asked = [asyncio.ensure_future(self._ask_for_leaders(address, patience)) for address in addresses]
        try:
            for answer in asyncio.as_completed(asked):
                try:
                    topic = await answer
                except UpstreamError:
                    continue
                if fits(topic):
                    return topic
        finally:
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
        return None

    async def _ask_for_leaders(self, address: HostPort, patience: float) -> LedTopic:
        # Not made by asking: a client's FindCoordinator makes the cluster's offsets topic, as it should be.
        request = metadata.MetadataRequest(
            (metadata.MetadataRequestTopic(name=self._topic),), allow_auto_topic_creation=False
        )
        connection = BrokerConnection(address, self._settings, patience)
        try:
            await connection.open()
            answer = await connection.ask(metadata.API, request)
        finally:
            connection.close()
        topic = next((each for each in answer.topics if each.name == self._topic), None)
        if topic is None:
            raise UpstreamError(f"{address}: Metadata of {self._topic} was answered with nothing")
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise TopicUnknown(f"there is no topic {self._topic}")  # the same line, whoever says so
        raise_for(topic.error_code, self._topic)
        brokers = {broker.node_id: HostPort(broker.host, broker.port) for broker in answer.brokers}
        return LedTopic(
            topic.topic_id,
            {
                each.partition_index: Place(brokers.get(each.leader_id), each.leader_epoch, each.leader_id)
                for each in topic.partitions
            },
        )
