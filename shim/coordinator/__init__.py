"""The group coordinator and the offset table: a pure state machine, driven with requests and the time."""

from shim.coordinator.coordinator import GroupCoordinator
from shim.coordinator.outcome import Caller, Key, Outcome, Record, Response, Ticket, Value
from shim.coordinator.settings import CoordinatorSettings
from shim.coordinator.snapshot import StateDump

__all__ = [
    "Caller",
    "CoordinatorSettings",
    "GroupCoordinator",
    "Key",
    "Outcome",
    "Record",
    "Response",
    "StateDump",
    "Ticket",
    "Value",
]
