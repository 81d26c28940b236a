"""Whether two places agree about an offset: pure, a row at a time.

Nothing here, ZooKeeper least of all, gives a consistent snapshot, so an offset that moves differs from itself a moment
later. What differs at the first look is looked at again, and judged by both.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from pipeline.audit.words import (
    LOG,
    PAIRS,
    PLACES,
    UPSTREAM,
    UPSTREAM_LOG,
    ZOOKEEPER_LOG,
    ZOOKEEPER_UPSTREAM,
    Pair,
    Verdict,
)

_BOTH: Final = frozenset({ZOOKEEPER_LOG, UPSTREAM_LOG})
_ALL: Final = frozenset(PAIRS)
NOT_KNOWN: Final = ""
"""The step of a group that the shim has not heard of."""

JUDGED: Final[Mapping[str | None, frozenset[Pair]]] = {
    "zookeeper": _BOTH,
    "zookeeper+dual": _BOTH,
    "kafka+dual": _BOTH,
    "kafka": frozenset({UPSTREAM_LOG}),
    "upstream+dual": frozenset({UPSTREAM_LOG}),
    "upstream": frozenset({UPSTREAM_LOG}),
    NOT_KNOWN: frozenset({ZOOKEEPER_UPSTREAM}),
    None: _ALL,
}
"""By a group's step: which places it keeps; None where the steps are not known. The cluster's own offsets are a copy at
every step (the mirror). At a step that is not among them, a later shim's, every pair is judged."""

MIRRORED: Final = frozenset({"zookeeper", "zookeeper+dual", "kafka+dual", "kafka"})
"""Steps at which it is the mirror alone that keeps the cluster's own offsets."""


class Offsets(NamedTuple):
    """What each place has of one partition; None for none."""

    zookeeper: int | None
    log: int | None
    upstream: int | None

    def of(self, place: str) -> int | None:
        found: int | None = getattr(self, place)
        return found


class Judged(NamedTuple):
    """A verdict of each pair; None where there is nothing to compare, or the step does not keep the place."""

    zookeeper_log: Verdict | None
    upstream_log: Verdict | None
    zookeeper_upstream: Verdict | None


class Rules(NamedTuple):
    """``places``: those that were read. ``mirror``: False where the shim keeps no copy upstream of the groups that it
    serves (``offsets.mirror.upstream=false``)."""

    places: Collection[str]
    mirror: bool = True

    def pairs(self, step: str | None) -> frozenset[Pair]:
        """What is to be alike at a step."""
        found = {pair for pair in JUDGED.get(step, _ALL) if {*pair} <= {*self.places}}
        if not self.mirror and (step is None or step in MIRRORED):
            found -= {UPSTREAM_LOG}
        return frozenset(found)


def judge(
    rules: Rules,
    step: str | None,
    now: Offsets,
    before: Offsets | None = None,
    unreadable: Collection[str] = (),
) -> Judged:
    """``step``: None where it is not known. ``before``: what the first look has found, at the second. ``unreadable``:
    places whose word for this partition could not be read."""
    judged = rules.pairs(step)
    if step != NOT_KNOWN and now.log is not None:
        judged -= {ZOOKEEPER_UPSTREAM}  # each of them is held against the log
    return Judged(*(_of_pair(pair, now, before, unreadable) if pair in judged else None for pair in PAIRS))


def _of_pair(pair: Pair, now: Offsets, before: Offsets | None, unreadable: Collection[str]) -> Verdict | None:
    if pair.place in unreadable or pair.other in unreadable:
        return Verdict.UNREADABLE
    if pair == ZOOKEEPER_UPSTREAM and (now.zookeeper is None or now.upstream is None):
        return None  # a group that the shim does not serve need not be in both
    verdict = compare(now.of(pair.place), now.of(pair.other))
    if before is None or verdict in (None, Verdict.EQUAL):
        return verdict
    place, other = (_Span.of(before.of(each), now.of(each)) for each in pair)
    return Verdict.MOVING if place.may_have_met(other) else verdict


def compare(place: int | None, other: int | None) -> Verdict | None:
    """The one held against the other; None where neither has anything."""
    match place, other:
        case None, None:
            return None
        case None, _:
            return Verdict.MISSING
        case _, None:
            return Verdict.ONLY_HERE
    assert place is not None
    assert other is not None
    if place == other:
        return Verdict.EQUAL
    return Verdict.BEHIND if place < other else Verdict.AHEAD


class _Span(NamedTuple):
    """All that a place can have had between two looks, if it moved in one direction; None stands below all offsets."""

    first: int
    last: int

    @classmethod
    def of(cls, before: int | None, now: int | None) -> _Span:
        return cls(*sorted(-1 if each is None else each for each in (before, now)))

    def may_have_met(self, other: _Span) -> bool:
        moved = self.first != self.last or other.first != other.last
        return moved and self.first <= other.last and other.first <= self.last


def why_left_out(rules: Rules, step: str | None, places: Collection[str], *, is_share: bool = False) -> str:
    """Of what has no verdict of any pair. ``places``: those that have an offset of it."""
    if is_share:
        return "a share group, which has no committed offsets"
    if not places:
        return "no place has an offset of it"
    if step == NOT_KNOWN:  # what it passes on is asked for at the shim, too
        where = "the cluster" if UPSTREAM in places else " and ".join(places)
        return f"only {where} has it, and the shim does not know the group"
    only = f"only {' and '.join(each for each in PLACES if each in places)} {'has' if len(places) == 1 else 'have'} it"
    if not rules.mirror and not {LOG, UPSTREAM}.isdisjoint(places):
        return f"{only}, which is not compared with --no-mirror"
    return f"{only}, which is not compared at step {step}"


def position(committed: Offsets) -> int | None:
    """Where its consumers would go on: what the shim serves, else the cluster, else ZooKeeper."""
    return next((each for each in (committed.log, committed.upstream, committed.zookeeper) if each is not None), None)


def lag(committed: Offsets, log_end: int | None) -> int | None:
    """How many offsets lie between there and the log's end; negative for one beyond it."""
    at = position(committed)
    return None if at is None or log_end is None else log_end - at
