"""Drives coordinator and log: load, append, hold, answer, timers.

A request is handed over as an operation on the coordinator, so its names belong to this room's interface.
"""

from shim.coordinator import Caller, GroupCoordinator, Outcome
from shim.runtime.clock import Clock
from shim.runtime.flight import Ticket
from shim.runtime.runtime import Runtime

__all__ = ["Caller", "Clock", "GroupCoordinator", "Outcome", "Runtime", "Ticket"]
