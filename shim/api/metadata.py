"""Metadata (key 3): forwarded; in the response each broker stands at the shim's port for its node id."""

from __future__ import annotations

from protocol.errors import ErrorCode
from protocol.messages.metadata import API
from shim.api.call import SIZE_FIELD, Services
from shim.config import HostPort
from shim.upstream import Topic

VERSIONS = (0, 13)
_FIRST_WITH_IDS = 10


async def rewrite(services: Services, version: int, frame: bytes) -> bytes:
    correlation_id, response = API.parse_response(version, frame, SIZE_FIELD)
    # A client told of a broker comes to its port at once: have it open before.
    await services.cluster.learn(
        {broker.node_id: HostPort(broker.host, broker.port) for broker in response.brokers}, whole=True
    )
    # A topic that was made anew is known to be another one before anybody can commit an offset for that.
    there = [topic for topic in response.topics if topic.error_code == ErrorCode.NONE and topic.partitions]
    for topic in there:
        if topic.name is not None:
            services.topics.learn(topic.name, Topic(topic.topic_id, len(topic.partitions)))
    if version < _FIRST_WITH_IDS:
        await services.topics.learn_ids([topic.name for topic in there if topic.name is not None])
    brokers = services.ports.readdressed(response.brokers, lambda broker: broker.node_id)
    return API.response_frame(version, correlation_id, response._replace(brokers=brokers))


__all__ = ["API", "VERSIONS", "rewrite"]
