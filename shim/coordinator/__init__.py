"""The group coordinator and the offset table: a pure state machine, driven with requests and the time."""

from shim.coordinator.coordinator import GroupCoordinator
from shim.coordinator.outcome import (
    Caller,
    Key,
    Outcome,
    Producer,
    Record,
    Response,
    RetentionStep,
    RowsOfTopic,
    Ticket,
    TopicDeletionStep,
    Transaction,
    Value,
)
from shim.coordinator.settings import CoordinatorSettings
from shim.coordinator.state.dump import StateDump
from shim.coordinator.state.group_memory import GroupMemory
from shim.coordinator.upkeep.followed import FollowedBatch, FollowedEnd, LostTransaction, Reset
from shim.coordinator.upkeep.topic_deletion import TopicDeletion

__all__ = [
    "Caller",
    "CoordinatorSettings",
    "FollowedBatch",
    "FollowedEnd",
    "GroupCoordinator",
    "GroupMemory",
    "Key",
    "LostTransaction",
    "Outcome",
    "Producer",
    "Record",
    "Reset",
    "Response",
    "RetentionStep",
    "RowsOfTopic",
    "StateDump",
    "Ticket",
    "TopicDeletion",
    "TopicDeletionStep",
    "Transaction",
    "Value",
]
