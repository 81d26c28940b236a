"""Drives coordinator and log: load, append, hold, answer, timers."""

from shim.runtime.clock import Clock
from shim.runtime.flight import Ticket
from shim.runtime.following import Following
from shim.runtime.offsets_of_topics import OffsetsOfTopics
from shim.runtime.retention import OffsetsRetention
from shim.runtime.runtime import Runtime
from shim.runtime.topics import open_log

__all__ = ["Clock", "Following", "OffsetsOfTopics", "OffsetsRetention", "Runtime", "Ticket", "open_log"]
