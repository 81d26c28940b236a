"""Drives coordinator and log: load, append, hold, answer, timers."""

from shim.runtime.clock import Clock
from shim.runtime.flight import Ticket
from shim.runtime.offsets_of_topics import OffsetsOfTopics
from shim.runtime.offsets_retention import OffsetsRetention
from shim.runtime.opening import open_log
from shim.runtime.runtime import Runtime

__all__ = ["Clock", "OffsetsOfTopics", "OffsetsRetention", "Runtime", "Ticket", "open_log"]
