"""Which offsets a batch reads. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pipeline.errors import NotDone
from pipeline.load.offsets import Offsets, Range, TopicPartition

_SHOWN = 3  # partitions in one line


@dataclass(frozen=True)
class Plan:
    """``ranges`` are read, ``gaps`` passed over: retention had deleted them. ``ends``: where the partitions of either
    go on after it; ``starts``: where they began."""

    ranges: tuple[Range, ...]
    gaps: tuple[Range, ...]

    @property
    def starts(self) -> dict[TopicPartition, int]:
        found = {each.at: each.start for each in self.ranges}
        return found | {gap.at: gap.start for gap in self.gaps}

    @property
    def ends(self) -> dict[TopicPartition, int]:
        found = {gap.at: gap.end for gap in self.gaps}
        return found | {each.at: each.end for each in self.ranges}

    @property
    def offsets(self) -> int:
        """How many are read; there may be fewer records, as of a compacted topic, or one with transactions."""
        return sum(len(each) for each in self.ranges)

    def __bool__(self) -> bool:
        return bool(self.ranges or self.gaps)


def check_ends(starts: Offsets, ends: Offsets) -> None:
    """Raises NotDone where a partition ends before its start: it is not the topic that the start was taken from."""
    beyond = [at for at, start in sorted(starts.items()) if at in ends and start > ends[at]]
    if beyond:
        at = beyond[0]
        raise NotDone(
            f"{at} ends at offset {ends[at]}, and is to be read from {starts[at]} on"
            f"{_and_more(beyond)}: was the topic made anew, or the group set ahead of it?"
        )


def plan_batch(
    starts: Offsets, earliest: Offsets, ends: Offsets, *, most: int | None = None, allow_gaps: bool = False
) -> Plan:
    """The next batch of all partitions of ``starts``: up to ``ends``, or at most ``most`` offsets of each.

    Raises NotDone where records between a start and the earliest offset are gone, unless ``allow_gaps``.
    """
    ranges = []
    gaps = []
    for at, start in sorted(starts.items()):
        end = ends[at]
        # Of a partition whose end is before its earliest offset for now (read_committed), nothing can be read.
        first = min(max(start, earliest[at]), max(end, start))
        if first > start:
            gaps.append(Range(at, start, first))
        last = end if most is None else min(end, first + most)
        if last > first:
            ranges.append(Range(at, first, last))
    if gaps and not allow_gaps:
        raise NotDone(told_gaps(gaps))
    return Plan(tuple(ranges), tuple(gaps))


def told_gaps(gaps: Iterable[Range]) -> str:
    """One line: which records are gone."""
    told = [f"{gap.at} offsets {gap.start} to {gap.end - 1}" for gap in gaps]
    more = f"; and {len(told) - _SHOWN} more partitions" if len(told) > _SHOWN else ""
    return f"deleted by retention before they were loaded: {'; '.join(told[:_SHOWN])}{more}. --allow-gaps passes them"


def _and_more(found: list[TopicPartition]) -> str:
    return f" ({len(found) - 1} more like it)" if len(found) > 1 else ""
