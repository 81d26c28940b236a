"""How often one event is logged, pure: so many times a minute, then it is counted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

MINUTE: Final = 60.0

MOST_OF_A_GROUP: Final = 30
"""In a minute, of one event: what happens to one group again and again leaves room for the others."""

_MOST_EVENTS: Final = 10_000
"""That are told apart at a time; beyond them those of one logger and level count as one event."""

_PLACEHOLDER: Final = re.compile(r"%(\(\w+\))?[-#0 +]*(\d+|\*)?(\.(\d+|\*))?[a-zA-Z%]")


class Event(NamedTuple):
    """``level``: of :mod:`logging`; ``template``: the message before its values are put in. ``group``: whose it is, of
    one that happens to many; "" of others, and of all of them together."""

    logger: str
    level: int
    template: str
    group: str = ""


class LeftOut(NamedTuple):
    """``groups``: of how many, where that was of some of them."""

    event: Event
    events: int
    groups: int = 0


class _Minute:
    __slots__ = ("began", "count")

    def __init__(self, began: float) -> None:
        self.began = began
        self.count = 0


class Repeats:
    """Times are in seconds, of any monotonic clock. A minute begins with the first of its events."""

    def __init__(self, most: int) -> None:
        """``most``: of one event in a minute; 0: no bound."""
        self.most = most
        self._minutes: dict[Event, _Minute] = {}

    def may_pass(self, event: Event, now: float) -> bool:
        """Count it. False: it is one too many in its minute: of its group, which is counted first, or of all."""
        if not self.most:
            return True
        if event.group and not self._may_pass(event, now):
            return False
        return self._may_pass(event._replace(group=""), now)

    def _may_pass(self, event: Event, now: float) -> bool:
        minute = self._minutes.get(event)
        if minute is None:
            if len(self._minutes) >= _MOST_EVENTS:
                event = Event(event.logger, event.level, "")
            minute = self._minutes.setdefault(event, _Minute(now))
        minute.count += 1
        return minute.count <= self._most_of(event)

    def _most_of(self, event: Event) -> int:
        return min(self.most, MOST_OF_A_GROUP) if event.group else self.most

    def over(self, now: float) -> Iterator[LeftOut]:
        """Forget the minutes that are over, oldest first; of each in which events were left out, how many. Of groups
        those of all of them together: there may be thousands."""
        of_groups: dict[Event, LeftOut] = {}
        while self._minutes:
            event, minute = next(iter(self._minutes.items()))
            if now - minute.began < MINUTE:
                break
            del self._minutes[event]
            if self.most > 0 and (left_out := minute.count - self._most_of(event)) > 0:
                if not event.group:
                    yield LeftOut(event, left_out)
                    continue
                of_all = event._replace(group="")
                before = of_groups.get(of_all, LeftOut(of_all, 0))
                of_groups[of_all] = LeftOut(of_all, before.events + left_out, before.groups + 1)
        yield from of_groups.values()

    def next_over(self) -> float | None:
        """When the oldest minute is over; None: there is none."""
        return next((minute.began + MINUTE for minute in self._minutes.values()), None)


def event_of(logger: str, level: int, template: str, message: str, group: str = "") -> Event:
    """A template that says nothing by itself, as ``%s``, is no event: its message is."""
    says = _PLACEHOLDER.sub("", template)
    return Event(logger, level, template if any(map(str.isalnum, says)) else message, group)
