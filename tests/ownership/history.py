"""What clients asked of one register, and were answered, and whether one register can have answered that."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

NOTHING: Final = -1
"""What is told where nothing was committed yet."""


class Operation(NamedTuple):
    """One request with its answer. ``is_commit``, or it is a fetch. ``value``: what it committed, which no other does,
    or was told. ``place``: the number of the shim that was asked. ``begun`` and ``ended``: seconds of one clock, before
    the request was sent and after the answer had come; infinity where nobody knows what came of a commit."""

    is_commit: bool
    value: int
    place: int
    begun: float
    ended: float


class Span(NamedTuple):
    """In a register that answered so, ``value`` was there from ``first`` to ``last`` at least. Where ``first`` is
    later, all that is known is that it was there at some time between them."""

    value: int
    first: float
    last: float


def spans(operations: Iterable[Operation]) -> dict[int, Span]:
    """By value; without commits that nobody was told of, and of which nobody knows what came of them. Raises
    ValueError where one was told that nobody had committed by then."""
    begun: dict[int, float] = {NOTHING: -math.inf}
    found: dict[int, Span] = {NOTHING: Span(NOTHING, -math.inf, -math.inf)}
    told: list[Operation] = []
    for each in operations:
        if not each.is_commit:
            told.append(each)
            continue
        if each.value in begun:
            raise ValueError(f"two commits of {each.value}: they cannot be told apart")
        begun[each.value] = each.begun
        found[each.value] = Span(each.value, each.ended, each.begun)
    for each in told:
        if begun.get(each.value, math.inf) > each.ended:
            raise ValueError(f"{each} was told, and nobody had committed it")
        had = found[each.value]
        found[each.value] = Span(each.value, min(had.first, each.ended), max(had.last, each.begun))
    return {value: span for value, span in found.items() if span.first < math.inf}


def wrong_in(operations: Iterable[Operation]) -> list[str]:
    """Why no register can have answered so; nothing where one can, one request after the other, each at some time while
    it was waited for: an offset that was told is no older than one that was acknowledged, or told, before it was asked
    for, and what was acknowledged is not lost.

    Where each value is committed once, that is so if no two values have to have been there at the same time, and none
    while another one has to have been there all the time (Gibbons and Korach, Testing Shared Memories, 1997).
    """
    try:
        found = spans(operations).values()
    except ValueError as error:
        return [str(error)]
    held = sorted((span for span in found if span.first < span.last), key=lambda span: span.first)
    wrong = [
        f"{one.value} was there until {one.last:.6f}, when {other.value} had been there since {other.first:.6f}"
        for one, other in pairwise(held)
        if other.first < one.last
    ]
    firsts = [span.first for span in held]
    for span in found:
        if span.first < span.last:
            continue
        # Those that are held do not overlap: the last one that begins before this one can have is the only one.
        place = bisect_right(firsts, span.last) - 1
        if place >= 0 and held[place].first < span.last and span.first < held[place].last:
            around = held[place]
            wrong.append(
                f"{span.value} was there at some time from {span.last:.6f} to {span.first:.6f}, "
                f"when {around.value} was from {around.first:.6f} to {around.last:.6f}"
            )
    return wrong


class Told(NamedTuple):
    """What one fetch was told of some partitions, in their order."""

    offsets: tuple[int, ...]
    place: int
    begun: float
    ended: float


def gone_back(told: Iterable[Told], written: Sequence[Sequence[int]]) -> list[str]:
    """Where one was told an offset that stands in the log before one that another was told, which had its answer before
    it asked; or one that is not there. ``written``: of each partition what was committed, in the order in which it is
    in the log. An offset need not be greater than the one before: of two commits that are under way when the
    coordinator moves, librdkafka sends the older one again last."""
    stood = [(NOTHING, *its) for its in written]
    fetches = list(told)
    at_least = [0] * len(stood)
    done = iter(sorted(fetches, key=lambda each: each.ended))
    upcoming = next(done, None)
    places: dict[Told, list[int]] = {}
    wrong = []
    for each in sorted(fetches, key=lambda each: each.begun):
        while upcoming is not None and upcoming.ended < each.begun:
            at_least = list(map(max, at_least, places[upcoming]))
            upcoming = next(done, None)
        places[each] = list(at_least)
        for partition, (its, offset, first) in enumerate(zip(stood, each.offsets, at_least, strict=True)):
            if offset in its[first:]:
                places[each][partition] = its.index(offset, first)
            else:
                behind = its[first + 1 :][:5]
                wrong.append(f"{each}: partition {partition}, when {its[first]} had been told, then came {behind}")
    return wrong


def wrong_order(operations: Iterable[Operation], places: Mapping[int, int]) -> list[str]:
    """Where the log has the commits that were acknowledged in an order in which nobody can have made them. ``places``:
    of each value where it is in the log. One that is not there was lost."""
    acknowledged = [each for each in operations if each.is_commit and each.ended < math.inf]
    wrong = [f"{each} was acknowledged, and is not in the log" for each in acknowledged if each.value not in places]
    there = [each for each in acknowledged if each.value in places]
    done = iter(sorted(there, key=lambda each: each.ended))
    upcoming = next(done, None)
    last: Operation | None = None
    for each in sorted(there, key=lambda each: each.begun):
        while upcoming is not None and upcoming.ended < each.begun:
            if last is None or places[upcoming.value] > places[last.value]:
                last = upcoming
            upcoming = next(done, None)
        if last is not None and places[last.value] > places[each.value]:
            wrong.append(f"{each} was asked for after {last} was acknowledged, and is before it in the log")
    return wrong
