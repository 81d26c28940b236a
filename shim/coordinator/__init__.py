"""The group coordinator and the offset table: a pure state machine, driven with requests and the time."""

from shim.coordinator.coordinator import GroupCoordinator
from shim.coordinator.history import HISTORY_TOPIC, HistoryRecord, decode_history, encode_history
from shim.coordinator.outcome import Caller, Key, Outcome, Record, Response, Ticket, Value
from shim.coordinator.settings import CoordinatorSettings
from shim.coordinator.snapshot import StateDump

__all__ = [
    "HISTORY_TOPIC",
    "Caller",
    "CoordinatorSettings",
    "GroupCoordinator",
    "HistoryRecord",
    "Key",
    "Outcome",
    "Record",
    "Response",
    "StateDump",
    "Ticket",
    "Value",
    "decode_history",
    "encode_history",
]
