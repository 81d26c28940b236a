"""Counts of what goes through the shim, and the table of all metrics.

Counts are plain numbers that one event loop adds to and reads: there are no locks. What a thread of the log counts is
added to by that thread alone. Nothing is computed before somebody asks. This room imports nothing of ours, so that
every other may count.
"""

from shim.metrics.clients import ClientKind, ClientsSeen, Said
from shim.metrics.counts import (
    AnswerCounts,
    Before,
    CleaningCounts,
    FlushCounts,
    ForwardingCounts,
    NotForwarded,
    SoftwareSeen,
    StandbyCounts,
    Traffic,
)
from shim.metrics.histogram import LATENCY_SECONDS, Histogram
from shim.metrics.model import Distribution, Kind, Metric, Sample, Series

__all__ = [
    "LATENCY_SECONDS",
    "AnswerCounts",
    "Before",
    "CleaningCounts",
    "ClientKind",
    "ClientsSeen",
    "Distribution",
    "FlushCounts",
    "ForwardingCounts",
    "Histogram",
    "Kind",
    "Metric",
    "NotForwarded",
    "Said",
    "Sample",
    "Series",
    "SoftwareSeen",
    "StandbyCounts",
    "Traffic",
]
