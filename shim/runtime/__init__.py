"""Drives coordinator and log: load, append, hold, answer, timers."""

from shim.runtime.clock import Clock
from shim.runtime.flight import Ticket
from shim.runtime.runtime import Runtime

__all__ = ["Clock", "Runtime", "Ticket"]
