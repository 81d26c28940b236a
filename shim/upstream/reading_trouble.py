"""What keeps partitions of a topic from being read, in few lines of the log: a broker that hangs holds up all that it
leads."""

from __future__ import annotations

import logging
from typing import Final, TypeAlias

from protocol.own.position import Position
from shim.counted import counted

Reading: TypeAlias = object
"""Of one partition: whatever is the same for as long as it is read."""

_MEANWHILE: Final = "nothing is served here from there on"
"""Whoever reads is a standby, takes a partition over, or waits for what a transaction or the history has there."""


class ReadingTrouble:
    """Of one topic. What is wrong is told of the first partition that has it, and once more with how many have it by
    then; that it is over is told when it is over of all. What else there is to say of each is DEBUG."""

    def __init__(self, log: logging.Logger, topic: str) -> None:
        self._log = log
        self._topic = topic
        self._why: dict[Reading, str] = {}
        """What is wrong now."""
        self._had: set[Reading] = set()
        """With which something was wrong since nothing was."""
        self._uncounted: set[str] = set()
        """Of what is wrong, that of which it was not told yet how many have it."""

    def failed(self, reading: Reading, position: Position, error: Exception) -> None:
        """It is tried again from there."""
        # Brokers are named in it, and the partition may be.
        why = str(error).replace(f"{self._topic}-{position.partition}", self._topic)
        before = self._why.get(reading)
        is_first = why not in self._why.values()
        self._why[reading] = why
        self._had.add(reading)
        if is_first:
            self._uncounted.add(why)
        if why != before:
            self._uncounted.intersection_update(self._why.values())
            level = logging.WARNING if is_first else logging.DEBUG
            line = "the cluster's %s-%d at offset %d (%s), trying again: %s"
            self._log.log(level, line, self._topic, *position[:2], _MEANWHILE, error)
        elif why in self._uncounted and (count := list(self._why.values()).count(why)) > 1:
            self._uncounted.remove(why)
            line = "the cluster's %s, %s (%s), trying again: %s"
            self._log.warning(line, self._topic, counted(count, "partition"), _MEANWHILE, why)

    def went_well(self, reading: Reading, position: Position) -> None:
        """It is read from there."""
        if reading not in self._why:
            return
        had = len(self._had)
        level = logging.INFO if had == 1 else logging.DEBUG
        self._log.log(level, "the cluster's %s-%d is read again from offset %d on", self._topic, *position[:2])
        self.ended(reading)
        if had > 1 and not self._why:
            self._log.info("the cluster's %s is read again, all of %s", self._topic, counted(had, "partition"))

    def ended(self, reading: Reading) -> None:
        """Nothing is wrong with it, or it is not read any more."""
        if self._why.pop(reading, None) is not None:
            self._uncounted.intersection_update(self._why.values())
        if not self._why:
            self._had.clear()
