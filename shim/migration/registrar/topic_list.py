"""All topics that the cluster has for clients, with their partitions and who leads them."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from itertools import islice
from typing import Final

from compat.registration import Partition, Partitions
from protocol.errors import ErrorCode
from protocol.messages import metadata
from shim.config import HostPort, Settings
from shim.logged_once import LoggedOnce
from shim.upstream import Cluster, ClusterTopics, Topic, UpstreamError
from shim.upstream.cluster_topics import TOPICS_AT_ONCE
from shim.upstream.first_answer import NEXT_AFTER_SECONDS, first_answer
from shim.upstream.kept_connection import KeptConnections

log = logging.getLogger(__name__)

_WITH_NULL_FOR_ALL = 1
"""The version of Metadata from which on that is how to ask for all topics."""

_NOT_ALL_SAY: Final = "topics that one broker does not have stay registered"


class TopicList:
    """Keeps a connection to one broker. What the shim may not describe is not in the list.

    ``internal``: topics that are not for clients, and that brokers do not know as such.
    """

    def __init__(
        self, cluster: Cluster, cluster_topics: ClusterTopics, settings: Settings, internal: Collection[str]
    ) -> None:
        self._cluster = cluster
        self._cluster_topics = cluster_topics
        self._connections = KeptConnections(settings)
        self._answered: HostPort | None = None  # who is asked first the next time
        self._internal = internal
        self._trouble = LoggedOnce(log)

    async def look(self, known: Mapping[str, Partitions]) -> dict[str, Partitions]:
        """As one broker says, without internal topics. Raises :class:`UpstreamError`.

        That one of ``known`` is gone, or has fewer partitions than it had, is believed when all brokers say so: one
        that has just started, or lost touch, knows too little.
        """
        seen = listed(await self._answer(), self._internal)
        shrunk = [
            name
            for name, partitions in known.items()
            if name not in self._internal and len(seen.get(name, ())) < len(partitions)
        ]
        if not shrunk:
            self._trouble.went_well(_NOT_ALL_SAY)
        else:
            said = await self._said_by_all(sorted(shrunk))
            for name in shrunk:
                now = said.get(name, _UNSAID)
                if now is None:
                    seen.pop(name, None)
                elif now is _UNSAID or name not in seen or now.partitions > len(seen[name]):
                    seen[name] = known[name]
        return seen

    async def _said_by_all(self, names: list[str]) -> dict[str, Topic | None]:
        said: dict[str, Topic | None] = {}
        left = iter(names)
        try:
            while some := list(islice(left, TOPICS_AT_ONCE)):
                said.update(await self._cluster_topics.all(some))
        except UpstreamError as error:
            why = UpstreamError(f"{names[0]} and perhaps others, as not all brokers say: {error}")
            self._trouble.failed(_NOT_ALL_SAY, why)
        else:
            self._trouble.went_well(_NOT_ALL_SAY)
        return said

    async def _answer(self) -> metadata.MetadataResponse:
        """As the first broker says that answers (:func:`first_answer`)."""
        known = sorted(self._cluster.any_address(), key=lambda each: each != self._answered)
        self._connections.close_others(known)
        address, answer = await first_answer(known, self._ask, NEXT_AFTER_SECONDS)
        self._answered = address
        self._connections.close_others((address,))
        return answer

    async def _ask(self, address: HostPort) -> tuple[HostPort, metadata.MetadataResponse]:
        wanted = metadata.MetadataRequest(topics=None)
        answer = await self._connections.to(address).ask(metadata.API, wanted, at_least=_WITH_NULL_FOR_ALL)
        # One that starts may know nothing yet, and at an address there may be another cluster by now.
        if not answer.brokers or answer.cluster_id != self._cluster.cluster_id:
            raise UpstreamError(f"{address}: knows no broker yet, or is of another cluster")
        return address, answer

    def close(self) -> None:
        self._connections.close()


_UNSAID = Topic(b"", -1)
"""Of which nothing can be said."""


def listed(answer: metadata.MetadataResponse, internal: Collection[str]) -> dict[str, Partitions]:
    """Nothing of a topic with an error that may pass, nor of internal ones, these included."""
    return {
        topic.name: {
            each.partition_index: Partition(
                each.leader_id, max(0, each.leader_epoch), each.replica_nodes, each.isr_nodes
            )
            for each in topic.partitions
        }
        for topic in answer.topics
        if topic.name is not None and topic.error_code == ErrorCode.NONE and topic.partitions
        if not topic.is_internal and topic.name not in internal
    }
