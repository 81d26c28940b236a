"""What the cluster has that offsets here depend on: which topics there are, and what becomes of transactions."""

from shim.following.cluster_topics import ClusterTopics, Topic
from shim.following.offsets_of_topics import OffsetsOfTopics
from shim.following.topic_doubts import TopicInDoubt
from shim.following.topics import Topics
from shim.following.transactions import TransactionFollower

__all__ = ["ClusterTopics", "OffsetsOfTopics", "Topic", "TopicInDoubt", "Topics", "TransactionFollower"]
