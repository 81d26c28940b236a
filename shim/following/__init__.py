"""What the cluster has that offsets here depend on: which topics there are, where their partitions
end, and what becomes of transactions."""

from shim.following.lag import Lags
from shim.following.topics.doubts import TopicInDoubt
from shim.following.topics.topics import Topics
from shim.following.transactions.follower import TransactionFollower

__all__ = ["Lags", "TopicInDoubt", "Topics", "TransactionFollower"]
