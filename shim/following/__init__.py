"""What the cluster has that offsets here depend on: which topics there are, and what becomes of transactions."""

from shim.following.offsets_of_topics import OffsetsOfTopics
from shim.following.topic_source import ClusterTopics
from shim.following.topics import Topic, TopicInDoubt, Topics
from shim.following.transactions import Following

__all__ = ["ClusterTopics", "Following", "OffsetsOfTopics", "Topic", "TopicInDoubt", "Topics"]
