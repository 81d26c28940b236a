"""The group coordinator and the offset table: a pure state machine, driven with requests and the time."""

from shim.coordinator.coordinator import GroupCoordinator
from shim.coordinator.outcome import (
    Asker,
    Caller,
    GroupEvent,
    Key,
    OffsetReset,
    OffsetsReset,
    Outcome,
    Record,
    Response,
    RetentionStep,
    RowsOfTopic,
    TopicDeletionStep,
    TransactionBatch,
    TransactionEnd,
    Value,
)
from shim.coordinator.readable import NotServed, ReadablePartition
from shim.coordinator.replayed import ReplayedPartition
from shim.coordinator.requests.listing import Generation, Presence
from shim.coordinator.settings import CoordinatorSettings
from shim.coordinator.state.contents import Contents
from shim.coordinator.state.dump import StateDump
from shim.coordinator.state.group_memory import GroupMemory
from shim.coordinator.upkeep.followed import FollowedBatch, LostTransaction, Reset
from shim.coordinator.upkeep.topic_deletion import TopicDeletion

__all__ = [
    "Asker",
    "Caller",
    "Contents",
    "CoordinatorSettings",
    "FollowedBatch",
    "Generation",
    "GroupCoordinator",
    "GroupEvent",
    "GroupMemory",
    "Key",
    "LostTransaction",
    "NotServed",
    "OffsetReset",
    "OffsetsReset",
    "Outcome",
    "Presence",
    "ReadablePartition",
    "Record",
    "ReplayedPartition",
    "Reset",
    "Response",
    "RetentionStep",
    "RowsOfTopic",
    "StateDump",
    "TopicDeletion",
    "TopicDeletionStep",
    "TransactionBatch",
    "TransactionEnd",
    "Value",
]
