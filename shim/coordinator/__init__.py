"""The group coordinator and the offset table: a pure state machine, driven with requests and the time."""

from shim.coordinator.coordinator import GroupCoordinator
from shim.coordinator.followed import FollowedBatch, FollowedEnd
from shim.coordinator.outcome import (
    Caller,
    Key,
    Outcome,
    Producer,
    Record,
    Response,
    RetentionStep,
    Ticket,
    Transaction,
    Value,
)
from shim.coordinator.settings import CoordinatorSettings
from shim.coordinator.snapshot import StateDump

__all__ = [
    "Caller",
    "CoordinatorSettings",
    "FollowedBatch",
    "FollowedEnd",
    "GroupCoordinator",
    "Key",
    "Outcome",
    "Producer",
    "Record",
    "Response",
    "RetentionStep",
    "StateDump",
    "Ticket",
    "Transaction",
    "Value",
]
