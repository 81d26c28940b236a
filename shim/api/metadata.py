"""Metadata (key 3): passed on; in the response each broker stands at the shim's port for its node id."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from protocol.errors import ErrorCode
from protocol.messages.metadata import API, MetadataResponseTopic
from shim.api.call import SIZE_FIELD, Services
from shim.api.topics_elsewhere import FIRST_WITH_IDS, looked_at
from shim.config import HostPort
from shim.upstream import readdressed

VERSIONS = (0, 13)


async def rewrite(services: Services, version: int, frame: bytes) -> bytes:
    correlation_id, response = API.parse_response(version, frame, SIZE_FIELD)
    # A client told of a broker comes to its port at once: have it open before.
    await services.cluster.hear(
        {broker.node_id: HostPort(broker.host, broker.port) for broker in response.brokers}, whole=True
    )
    # A topic that was made anew is known to be another one before anybody can commit an offset for that.
    ids = {
        topic.name: topic.topic_id
        for topic in response.topics
        if topic.error_code == ErrorCode.NONE and topic.partitions and topic.name is not None
    }
    unseen = await _unseen(services, ids, has_ids=version >= FIRST_WITH_IDS)
    if unseen:
        topics = tuple(_not_now(topic) if topic.name in unseen else topic for topic in response.topics)
        response = response._replace(topics=topics)
    brokers = readdressed(services.ports, response.brokers, lambda broker: broker.node_id)
    return API.response_frame(version, correlation_id, response._replace(brokers=brokers))


async def _unseen(services: Services, ids: Mapping[str, bytes], *, has_ids: bool) -> set[str]:
    """Those that clients may not be told of yet."""
    if services.elsewhere is None:
        return await looked_at(services.topics, ids, has_ids=has_ids)
    here, there = await asyncio.gather(
        looked_at(services.topics, ids, has_ids=has_ids), services.elsewhere.looked_at(ids, has_ids=has_ids)
    )
    return here | there


def _not_now(topic: MetadataResponseTopic) -> MetadataResponseTopic:
    """At this clients ask again."""
    return topic._replace(error_code=ErrorCode.LEADER_NOT_AVAILABLE, partitions=())


__all__ = ["API", "VERSIONS", "rewrite"]
