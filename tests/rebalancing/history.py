"""What the members of one group have said, in the order of one clock, and what has to be true of it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

Number = tuple[int, int, int]  # partition, offset, the number that is the record's value


class Event(NamedTuple):
    """`at`: CLOCK_MONOTONIC, nanoseconds. `what`: as in members.py, or what was done to it: killed, frozen, thawed."""

    at: int
    member: str
    what: str
    generation: int = -1
    partitions: frozenset[int] = frozenset()
    records: tuple[Number, ...] = ()
    committed: Mapping[int, int] = {}
    why: str = ""


def parse(line: str) -> Event:
    """A line of members.py or Members.java. Raises ValueError, and KeyError where something is missing."""
    said = json.loads(line)
    return Event(
        said["t"],
        said["m"],
        said["e"],
        said["g"],
        frozenset(said.get("p", ())),
        tuple((partition, offset, number) for partition, offset, number in said.get("r", ())),
        {int(partition): offset for partition, offset in said.get("c", {}).items()},
        said.get("why", ""),
    )


class Holdings:
    """Who holds what, event by event."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._away: dict[str, set[int] | None] = {}  # frozen members, with what they think they hold
        self.of: dict[str, set[int] | None] = {}  # by member; None: it holds nothing, and waits

    def apply(self, event: Event) -> None:
        member = event.member
        match event.what:
            case "joining":
                self.of[member] = None
            case "assigned":
                self.of[member] = set(event.partitions)
            case "revoked" | "lost" if member in self.of:  # as it closes it is not there any more
                self.of[member] = ((self.of[member] or set()) - event.partitions) or None
            case "leaving" | "killed":
                self.of.pop(member, None)
                self._away.pop(member, None)
            case "frozen":
                self._away[member] = self.of.pop(member, None)
            case "thawed":
                self.of[member] = self._away.pop(member, None)

    @property
    def settled(self) -> bool:
        """Every member has been given what is its, be it nothing; every partition is with one."""
        held = [partitions for partitions in self.of.values() if partitions is not None]
        return len(held) == len(self.of) and sorted(p for of in held for p in of) == list(range(self._partitions))


def unprocessed(history: Iterable[Event], produced: Iterable[Number]) -> list[str]:
    """Records that nobody has processed, or that came with another value."""
    processed = {record for event in history for record in event.records}
    return [
        f"partition {partition}, offset {offset}: {number} was not processed"
        for partition, offset, number in sorted(set(produced) - processed)
    ]


def shared(history: Iterable[Event]) -> list[str]:
    """Partitions that two members had in one generation: as they were assigned, processed or committed."""
    owners: dict[tuple[int, int], set[str]] = defaultdict(set)
    for event in history:
        if event.generation >= 0 and event.what in ("assigned", "records", "committed"):
            for partition in event.partitions | {record[0] for record in event.records} | event.committed.keys():
                owners[event.generation, partition].add(event.member)
    return [
        f"generation {generation}, partition {partition}: {', '.join(sorted(members))}"
        for (generation, partition), members in sorted(owners.items())
        if len(members) > 1
    ]


class Overlap(NamedTuple):
    """One member was given a partition while another still held it. Their generations, as each knew it.

    `frozen`: the other one has stood still since it was given the partition.
    """

    partition: int
    earlier: str
    earlier_generation: int
    later: str
    later_generation: int
    frozen: bool


def overlaps(history: Iterable[Event]) -> list[Overlap]:
    """In time: in two generations where a member that was thrown out does not know yet, in one never."""
    found = []
    held: dict[str, set[int]] = {}
    generations: dict[str, int] = {}
    frozen: set[str] = set()
    for event in history:
        if event.what in ("joining", "leaving", "killed"):
            held[event.member] = set()
        elif event.what in ("revoked", "lost"):
            held[event.member] -= event.partitions
        elif event.what == "frozen":
            frozen.add(event.member)
        elif event.what == "assigned":
            frozen.discard(event.member)
            for other in held.keys() - {event.member}:
                found += [
                    Overlap(partition, other, generations[other], event.member, event.generation, other in frozen)
                    for partition in sorted(held[other] & event.partitions)
                ]
            held[event.member] = set(event.partitions)
        if event.what in ("assigned", "records", "committed"):
            generations[event.member] = event.generation
    return found


def beyond(history: Iterable[Event]) -> list[str]:
    """Acknowledged commits of what had not been processed by then: of some record before that offset."""
    found = []
    processed: dict[int, set[int]] = defaultdict(set)
    until: dict[int, int] = defaultdict(int)  # by partition, the first offset that has not been processed
    for event in history:
        for partition, offset, _ in event.records:
            processed[partition].add(offset)
            while until[partition] in processed[partition]:
                processed[partition].remove(until[partition])
                until[partition] += 1
        found += [
            f"partition {partition}: {event.member} committed {offset}, processed until {until[partition]}"
            for partition, offset in event.committed.items()
            if offset > until[partition]
        ]
    return found


def taken_back(history: Iterable[Event]) -> list[str]:
    """Members that began before what had been committed, and acknowledged, when the partition was assigned to them."""
    found = []
    acknowledged: dict[int, int] = defaultdict(int)
    least: dict[tuple[str, int], int] = {}
    held: dict[str, set[int]] = defaultdict(set)
    for event in history:
        if event.what in ("joining", "leaving", "killed"):
            held[event.member] = set()
        elif event.what in ("revoked", "lost"):
            held[event.member] -= event.partitions
        elif event.what == "assigned":
            for partition in event.partitions - held[event.member]:
                least[event.member, partition] = acknowledged[partition]
            held[event.member] = set(event.partitions)
        for partition, offset, _ in event.records:
            begins_at = least.pop((event.member, partition), 0)
            if offset < begins_at:
                found.append(f"partition {partition}: {event.member} began at {offset}, {begins_at} had been committed")
        for partition, offset in event.committed.items():
            acknowledged[partition] = max(acknowledged[partition], offset)
    return found


def not_its_own(history: Iterable[Event]) -> list[str]:
    """Records that a member has processed while it did not hold their partition, by what it had been told."""
    found = []
    held: dict[str, set[int]] = defaultdict(set)
    for event in history:
        if event.what in ("joining", "leaving", "killed"):
            held[event.member] = set()
        elif event.what in ("revoked", "lost"):
            held[event.member] -= event.partitions
        elif event.what == "assigned":
            held[event.member] = set(event.partitions)
        found += [
            f"{event.member} processed records of partition {partition} in generation {event.generation}"
            for partition in sorted({record[0] for record in event.records} - held[event.member])
        ]
    return found


def backwards(history: Iterable[Event]) -> list[str]:
    """Members that were assigned partitions in an older generation than before."""
    found = []
    generations: dict[str, int] = {}
    for event in history:
        if event.what == "assigned":
            before = generations.get(event.member, -1)
            if event.generation < before:
                found.append(f"{event.member}: generation {event.generation} after {before}")
            generations[event.member] = event.generation
    return found


def violations(history: Sequence[Event], produced: Iterable[Number]) -> list[str]:
    """All that must not be, of one group's history in the order of its times."""
    in_one_generation = [f"{o}" for o in overlaps(history) if o.earlier_generation == o.later_generation]
    return [
        *unprocessed(history, produced),
        *shared(history),
        *in_one_generation,
        *beyond(history),
        *taken_back(history),
        *not_its_own(history),
        *backwards(history),
    ]
