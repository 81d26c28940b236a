"""Drives coordinator and log: load, append, hold, answer, timers."""

from shim.runtime.backend import Backend
from shim.runtime.clock import Clock
from shim.runtime.flight import Ticket
from shim.runtime.local import LocalBackend
from shim.runtime.offsets_of_topics import OffsetsOfTopics
from shim.runtime.offsets_retention import OffsetsRetention
from shim.runtime.opening import open_log, open_share, open_whole
from shim.runtime.runtime import Runtime

__all__ = [
    "Backend",
    "Clock",
    "LocalBackend",
    "OffsetsOfTopics",
    "OffsetsRetention",
    "Runtime",
    "Ticket",
    "open_log",
    "open_share",
    "open_whole",
]
