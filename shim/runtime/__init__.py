"""Drives coordinator and log: load, append, hold, answer, timers."""

from shim.runtime.clock import Clock
from shim.runtime.flight import Ticket
from shim.runtime.runtime import Runtime
from shim.runtime.topics import open_log

__all__ = ["Clock", "Runtime", "Ticket", "open_log"]
