"""What is told of partitions that are moved between the log in the data directory and the one on topics."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol


class NotMoved(Exception):
    """Why a partition stays where it is, in a line."""


class CannotMove(Exception):
    """Why none is moved, in a line."""


class Side(StrEnum):
    """Where partitions are, as `offsets.log` says it: in the data directory, or on topics of the cluster."""

    LOCAL = "local"
    KAFKA = "kafka"


class PartitionPlace(NamedTuple):
    """``log``: one of :class:`Side`, or "moving". ``trouble``: why the last try to move it went wrong; "" where it
    did not, or there was none."""

    partition: int
    log: str
    trouble: str = ""


class LogPlaces(NamedTuple):
    """``to``: where partitions are being moved at the moment; None: nowhere. ``changes``: how many there have been of
    all this since the start. ``warning``: what is to be known of the place that they were last moved to, in a line; ""
    for nothing."""

    partitions: Sequence[PartitionPlace]
    to: Side | None
    changes: int
    warning: str = ""


class Relocates(Protocol):
    """Who moves partitions. For the event loop."""

    def places(self) -> LogPlaces: ...

    async def changed(self, changes: int, seconds: float) -> LogPlaces:
        """As :meth:`places`, once their number is not ``changes`` (any more), or the time is over."""

    async def begin(self, to: Side) -> LogPlaces:
        """Have all partitions moved there that are not; nothing more where that goes on already. Raises CannotMove."""
