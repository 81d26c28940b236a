"""What somebody should look at, group by group, until it is over."""

from __future__ import annotations

import logging
import time
from typing import NamedTuple

log = logging.getLogger(__name__)


class _Alarm(NamedTuple):
    line: str
    advice: str
    seen_at: float


class Alarms:
    """Of one kind. Each is logged at ERROR when it is raised, and at INFO when it is over."""

    def __init__(self) -> None:
        self._raised: dict[str, _Alarm] = {}

    def __contains__(self, group: str) -> bool:
        return group in self._raised

    def groups(self) -> list[str]:
        return list(self._raised)

    def line(self, group: str) -> str:
        """What was seen last, and what to do of it; "" where there is no alarm."""
        alarm = self._raised.get(group)
        return "" if alarm is None else "; ".join(filter(None, (alarm.line, alarm.advice)))

    def seen_seconds_ago(self, group: str) -> float:
        return time.monotonic() - self._raised[group].seen_at

    def saw(self, group: str, line: str, advice: str = "") -> None:
        """``advice``: is not said any more when it is over."""
        is_new = group not in self._raised
        self._raised[group] = _Alarm(line, advice, time.monotonic())
        if is_new:
            log.error("group %s: %s", group, self.line(group))

    def over(self, group: str) -> None:
        alarm = self._raised.pop(group, None)
        if alarm is not None:
            log.info("group %s: this is over: %s", group, alarm.line)
