"""How long groups took to settle after each change, from their histories."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median

from tests.rebalancing.history import Event, Holdings

_SEVERAL = "several changes"

Times = Mapping[str, Sequence[float]]
"""Seconds, by what changed."""

_CHANGES = {
    "joining": "joins",
    "leaving": "closes",
    "killed": "is killed",
    "frozen": "is frozen",
    "thawed": "is thawed",
}


def settling(history: Sequence[Event], partitions: int, static: Iterable[str]) -> Iterator[tuple[str, float]]:
    """What changed, and the seconds until every member had partitions and every partition a member.

    A change is the moment when a member began to join, began to close, was killed, was frozen or thawed; `static`:
    those that do not leave by closing. Changes before the group had settled are one, from the last of them on.
    """
    static = set(static)
    holdings = Holdings(partitions)
    begun: tuple[str, int] | None = None
    missed: tuple[str, str] | None = None  # how the one member that is gone would come back
    for event in history:
        holdings.apply(event)
        if event.what in _CHANGES:
            of = "static member" if event.member in static else "member"
            what = f"{of} {_CHANGES[event.what]}"
            if begun is not None:
                what = f"{of} is back within its session" if (event.what, event.member) == missed else _SEVERAL
            silent = event.what == "killed" or (event.what == "leaving" and event.member in static)
            missed = ("joining", event.member) if silent and begun is None else None
            begun = (what, event.at)
        elif begun is not None and holdings.settled:
            what, at = begun
            yield what, (event.at - at) / 1e9
            begun, missed = None, None


def exchanging(history: Sequence[Event]) -> Iterator[float]:
    """Of each generation of an eager group: seconds from the first member's revoke to the last member's assignment."""
    last: dict[int, int] = {}
    for event in history:
        if event.what == "assigned":
            last[event.generation] = event.at
    until = sorted(last.values())
    revoked = sorted(event.at for event in history if event.what == "revoked")
    begins = 0
    for end in until:
        within = [at for at in revoked if begins < at < end]
        if within:
            yield (end - within[0]) / 1e9
        begins = end


def percentile(seconds: Sequence[float], share: float) -> float:
    """The nearest rank."""
    return sorted(seconds)[max(0, math.ceil(share * len(seconds)) - 1)]


def table(sides: Mapping[str, Times]) -> str:
    """Median and 95th percentile of each side, in Markdown."""
    names = list(sides)
    head = ["| |", *(f" {name}: n | median, s | p95, s |" for name in names)]
    lines = ["".join(head), "|---|" + "--:|--:|--:|" * len(names)]
    for row in sorted({row for times in sides.values() for row in times}):
        cells = [f"| {row} |"]
        for name in names:
            if seconds := sides[name].get(row):
                cells.append(f" {len(seconds)} | {median(seconds):.2f} | {percentile(seconds, 0.95):.2f} |")
            else:
                cells.append(" 0 | - | - |")
        lines.append("".join(cells))
    return "\n".join(lines)


def gathered(samples: Iterable[tuple[str, float]]) -> Times:
    times: dict[str, list[float]] = defaultdict(list)
    for what, seconds in samples:
        times[what].append(seconds)
    return times
