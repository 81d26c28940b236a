"""The group coordinator and the offset table: a pure state machine, driven with requests and the time."""

from shim.coordinator.coordinator import GroupCoordinator
from shim.coordinator.followed import FollowedBatch, FollowedEnd, LostTransaction, Reset
from shim.coordinator.group_memory import GroupMemory
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
from shim.coordinator.snapshot import StateDump
from shim.coordinator.topic_deletion import TopicDeletion

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
