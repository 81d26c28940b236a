"""Everything about the cluster behind: connections, its brokers, and which node id is which port."""

from shim.upstream.cluster import Cluster
from shim.upstream.cluster_topics import ClusterTopics, Topic
from shim.upstream.errors import UpstreamError, reason_of
from shim.upstream.link import BrokerLink
from shim.upstream.ports import PortMap, stable_choice
from shim.upstream.topic_reader import Read, TopicReader, TopicUnknown

__all__ = [
    "BrokerLink",
    "Cluster",
    "ClusterTopics",
    "PortMap",
    "Read",
    "Topic",
    "TopicReader",
    "TopicUnknown",
    "UpstreamError",
    "reason_of",
    "stable_choice",
]
