"""Where each offset is to be set to, from what is known of group and logs: as Kafka's ConsumerGroupCommand plans it
(Kafka 4.3, `prepareOffsetsToReset`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Set
from typing import Final, NamedTuple

from shim.groups.words import NO_OFFSET, Change, Kind, Partition, Refused, Target


class Known(NamedTuple):
    """``committed``: what the group has. ``starts``, ``ends``: of the logs, of all partitions in question. ``at_time``:
    the first offset at or after the target's time, where there is one. ``before``: for HISTORY, UNDO and UPSTREAM, what
    is to be had, NO_OFFSET for none; ``doubtful``: of these, what may not be what was committed then; ``deleted``:
    since then; ``other_topics``: of which it is none; ``moved``: what is to be told of an undo."""

    committed: Mapping[Partition, int]
    starts: Mapping[Partition, int]
    ends: Mapping[Partition, int]
    at_time: Mapping[Partition, int] = {}
    before: Mapping[Partition, int] = {}
    doubtful: Set[Partition] = frozenset()
    deleted: Set[Partition] = frozenset()
    other_topics: Set[str] = frozenset()
    moved: Mapping[Partition, str] = {}


class _To(NamedTuple):
    offset: int
    note: str = ""


def planned(target: Target, partitions: Collection[Partition], known: Known) -> list[Change]:
    """By topic and partition. Raises Refused where an offset cannot be told."""
    to = _TO[target.kind]
    changes = []
    for at in sorted(partitions):
        found = to(target, at, known)
        changes.append(Change(*at, known.committed.get(at, NO_OFFSET), found.offset, found.note))
    return changes


def _clipped(offset: int, at: Partition, known: Known) -> _To:
    """What is out of range becomes the nearest that is not."""
    start, end = known.starts[at], known.ends[at]
    if offset < start:
        return _To(start, f"{offset} is before the log's start")
    if offset > end:
        return _To(end, f"{offset} is beyond the log's end")
    return _To(offset)


def _current(_: Target, at: Partition, known: Known) -> _To:
    if at in known.committed:
        return _To(known.committed[at])
    return _To(known.ends[at], "no offset is committed: the log's end")


def _shifted(target: Target, at: Partition, known: Known) -> _To:
    if at not in known.committed:
        raise Refused(f"{at[0]}-{at[1]}: there is no committed offset to shift")
    return _clipped(known.committed[at] + target.number, at, known)


def _at_time(_: Target, at: Partition, known: Known) -> _To:
    if at in known.at_time:
        return _To(known.at_time[at])
    return _To(known.ends[at], "no record is so new: the log's end")


def _from_history(_: Target, at: Partition, known: Known) -> _To:
    if at not in known.before:
        raise Refused(f"{at[0]}-{at[1]}: the history has nothing of it at that time, or before")
    if at[0] in known.other_topics:
        raise Refused(
            f"{at[0]}-{at[1]}: its topic was deleted after that time, and what was committed is no offset of this one: "
            "name the other topics (--topic)"
        )
    none = _To(NO_OFFSET, "it had been deleted by then")
    to = none if known.before[at] == NO_OFFSET else _clipped(known.before[at], at, known)
    notes = [to.note] if to.note else []
    if at in known.doubtful:
        notes.append("the cluster had the group after that, and what it changed is not in the history")
    if at not in known.committed and at not in known.deleted and to is not none:
        notes.append("none is committed now, and when it was deleted is not in the history")
    return _To(to.offset, "; ".join(notes))


def _from_upstream(_: Target, at: Partition, known: Known) -> _To:
    if at not in known.before:
        raise Refused(f"{at[0]}-{at[1]}: the cluster has no offset of it")
    return _clipped(known.before[at], at, known)


_TO: Final[Mapping[Kind, Callable[[Target, Partition, Known], _To]]] = {
    Kind.OFFSET: lambda target, at, known: _clipped(target.number, at, known),
    Kind.EARLIEST: lambda _, at, known: _To(known.starts[at]),
    Kind.LATEST: lambda _, at, known: _To(known.ends[at]),
    Kind.CURRENT: _current,
    Kind.TIME: _at_time,
    Kind.SHIFT: _shifted,
    Kind.FILE: lambda target, at, known: _clipped(target.offsets[at], at, known),
    Kind.HISTORY: _from_history,
    Kind.UPSTREAM: _from_upstream,
    Kind.UNDO: lambda _, at, known: _To(known.before[at], known.moved.get(at, "")),
}
