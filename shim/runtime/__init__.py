"""Drives coordinator and log, whichever log it is (backend.py): load, append, hold, answer, timers."""

from shim.runtime.backend import Backend
from shim.runtime.clock import Clock
from shim.runtime.flight import Ticket
from shim.runtime.offsets_of_topics import OffsetsOfTopics
from shim.runtime.offsets_retention import OffsetsRetention
from shim.runtime.runtime import Runtime

__all__ = [
    "Backend",
    "Clock",
    "OffsetsOfTopics",
    "OffsetsRetention",
    "Runtime",
    "Ticket",
]
