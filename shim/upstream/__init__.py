"""Everything about the cluster behind: connections, its brokers, and which node id is which port."""

from shim.upstream.acls import NO_ACLS
from shim.upstream.cluster import Cluster
from shim.upstream.cluster_topics import ClusterTopics, Topic
from shim.upstream.connection import is_own
from shim.upstream.errors import AuthenticationFailed, UpstreamError, reason_of
from shim.upstream.kept_log_ends import LogEnds
from shim.upstream.link import BrokerLink
from shim.upstream.ports import ClientPorts, PortMap, readdressed, stable_choice
from shim.upstream.read_buffer import READ_BUFFER, worth_keeping
from shim.upstream.topic_leaders import TopicUnknown
from shim.upstream.topic_reader import Read, TopicReader
from shim.upstream.turns_of_loop import before_each_turn, turns_of_loop
from shim.upstream.unanswered_links import UnansweredLinks

__all__ = [
    "NO_ACLS",
    "READ_BUFFER",
    "AuthenticationFailed",
    "BrokerLink",
    "ClientPorts",
    "Cluster",
    "ClusterTopics",
    "LogEnds",
    "PortMap",
    "Read",
    "Topic",
    "TopicReader",
    "TopicUnknown",
    "UnansweredLinks",
    "UpstreamError",
    "before_each_turn",
    "is_own",
    "readdressed",
    "reason_of",
    "stable_choice",
    "turns_of_loop",
    "worth_keeping",
]
