"""Sequences by seed: honest clients mostly, and requests that no honest client sends among theirs."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from protocol.messages import (
    delete_groups,
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from tests.differential.steps import (
    ABSENT,
    NEXT,
    NONE,
    NOWHERE,
    OF,
    OLD,
    OTHER,
    OWN,
    PARTITIONS,
    SHORT_MS,
    TOPICS,
    WRONG,
    ZERO,
    Actor,
    Advance,
    Await,
    Commit,
    Delete,
    DeleteOffsets,
    Describe,
    Fetch,
    Find,
    Heartbeat,
    Join,
    Leave,
    ListAll,
    Offset,
    Pass,
    Sequence,
    Step,
    Sync,
    Timing,
    Topics,
    Versions,
)

Ranges = dict[int, tuple[int, int]]

_LONG_MS = 60_000
_PROTOCOL_TYPES = {
    "consumer": ("range", "roundrobin", "cooperative-sticky"),
    "connect": ("sessioned", "compatible", "default"),
    "sr": ("v0",),
    "something else": ("one", "two", "three"),
}
_STATIC_VERSIONS = Versions(5, 3, 3, 7)
_STATES = ("Stable", "empty", " PreparingRebalance", "CompletingRebalance", "Dead", "Assigning", "Unheard")
_TYPES = ("classic", "Classic", "consumer", "share", "unheard")
_METADATA = (None, "", "m", "some metadata", "\u00e4\u00f6\u00fc \U0001f600", "x" * 17, "x" * 5_000)
_CHANGES = {
    "": 10,
    "metadata": 8,
    "protocols": 5,
    "other protocols": 1,
    "no protocols": 1,
    "type": 1,
    "no type": 1,
    "short session": 1,
    "long session": 1,
    "no group": 1,
}
_OFFSETS = (0, 1, 42, 2**40, -1, -7)


def sequence_of(seed: int, ranges: Ranges, timing: Timing | None = None) -> Sequence:
    """`ranges`: the versions that the broker has, by API key. `timing`: by default the seed's own choice."""
    return _Generator(Random(seed), ranges).sequence(timing)


class _Generator:
    def __init__(self, random: Random, ranges: Ranges) -> None:
        self.random = random
        self.ranges = ranges
        self.timing = Timing.NONE
        self.in_time = False  # whether short time-outs are asked for when there is a group already
        self.actors: tuple[Actor, ...] = ()

    def sequence(self, timing: Timing | None) -> Sequence:
        random = self.random
        chosen = random.choices([Timing.NONE, Timing.SESSION, Timing.REBALANCE], [92, 4, 4])[0]
        self.timing = timing or chosen
        self.in_time = random.random() < 0.3
        protocol_type = random.choices(list(_PROTOCOL_TYPES), [6, 2, 1, 1])[0]
        count = random.choice((2, 2, 3, 3, 4, 5))
        alike = random.random() < 0.5
        first = self.actor(protocol_type, 0)
        self.actors = (first, *(first if alike else self.actor(protocol_type, n) for n in range(1, count)))
        if alike and self.timing is Timing.SESSION:
            self.actors = (first, *(first._replace(session_timeout_ms=_LONG_MS) for _ in range(1, count)))
        steps: list[Step] = []
        for _ in range(random.randint(4, 14)):
            steps += self.some()
        if self.timing is not Timing.NONE:
            for place in sorted(random.sample(range(len(steps) + 1), min(2, len(steps))), reverse=True):
                steps[place:place] = self.time_passes()
            shorter = [Join(actor, self.version(join_group.API.key), change="shorter") for actor in range(count)]
            if self.in_time:
                place = random.randrange(1 + len(steps) // 2)
                steps[place:place] = shorter[:1] if self.timing is Timing.SESSION else shorter
        return Sequence(protocol_type, self.timing, self.actors, tuple(steps))

    def actor(self, protocol_type: str, number: int) -> Actor:
        random = self.random
        names = _PROTOCOL_TYPES[protocol_type]
        protocols = tuple(random.sample(names, random.randint(1, len(names))))
        if random.random() < 0.7:
            protocols = names
        static = random.random() < 0.35
        versions = Versions(
            self.version(join_group.API.key),
            self.version(sync_group.API.key),
            self.version(heartbeat.API.key),
            self.version(offset_commit.API.key),
        )
        if static:
            versions = Versions(*(max(pair) for pair in zip(versions, _STATIC_VERSIONS, strict=True)))
        if self.timing is Timing.REBALANCE:
            versions = versions._replace(join=max(versions.join, 1))
        return Actor(
            random.choices(("own", "shared", "empty", "null"), [16, 2, 1, 1])[0],
            static,
            protocols,
            SHORT_MS if self.timing is Timing.SESSION and number == 0 and not self.in_time else _LONG_MS,
            SHORT_MS if self.timing is Timing.REBALANCE and not self.in_time else _LONG_MS,
            versions,
        )

    def version(self, key: int) -> int:
        first, last = self.ranges[key]
        return self.random.randint(first, last)

    def some(self) -> list[Step]:
        make = self.random.choices([each for each, _ in _KINDS], [weight for _, weight in _KINDS])[0]
        return make(self)

    def time_passes(self) -> list[Step]:
        """Until something expires; or so much that something would have, had nobody been heard of."""
        if self.timing is not Timing.SESSION or self.random.random() < 0.5:
            return [Await()]
        versions = self.actors[0].versions
        heard_of = self.random.choice(
            (
                Heartbeat(0, versions.heartbeat),
                Commit(0, versions.commit, self.offsets()),
                Advance(0),
                Join(0, versions.join, change="metadata"),
            )
        )
        return [*[Advance(0)] * self.random.randint(0, 3), Pass(), heard_of, Pass()]

    # -- honest clients

    def advance(self) -> list[Step]:
        return [Advance(self.one())]

    def rounds(self) -> list[Step]:
        """So much that all who can be are members of a Stable group."""
        steps: list[Step] = []
        for _ in range(self.random.randint(2, 4)):
            steps += [Advance(actor) for actor in self.random.sample(range(len(self.actors)), len(self.actors))]
        return steps

    # -- others

    def join(self) -> list[Step]:
        change = self.random.choices(list(_CHANGES), list(_CHANGES.values()))[0]
        version = self.version(join_group.API.key)
        return [Join(self.one(), version, self.member(), self.instance(), change)]

    def sync(self) -> list[Step]:
        return [
            Sync(
                self.one(),
                self.version(sync_group.API.key),
                self.member(),
                self.generation(),
                self.instance(),
                self.random.choices(("all", "some", "more", "none"), [4, 2, 2, 2])[0],
                self.random.choices((OWN, "none", "wrong", "type"), [8, 1, 1, 1])[0],
                self.random.choices((OWN, ABSENT, NONE), [20, 1, 1])[0],
            )
        ]

    def heartbeat(self) -> list[Step]:
        group = self.random.choices((OWN, ABSENT, NONE), [20, 1, 1])[0]
        version = self.version(heartbeat.API.key)
        return [Heartbeat(self.one(), version, self.member(), self.generation(), self.instance(), group)]

    def restart(self) -> list[Step]:
        """A static member comes back without its id, and perhaps the one that it was goes on as if it had not."""
        static = [number for number, actor in enumerate(self.actors) if actor.static]
        if not static:
            return self.rounds()
        actor = self.random.choice(static)
        together = self.rounds() if self.random.random() < 0.5 else []
        change = self.random.choices(("", "metadata", "protocols"), [5, 2, 3])[0]
        newest = self.ranges[join_group.API.key][1]
        _, sync, beat, commit = _STATIC_VERSIONS
        join = self.random.choice((newest, self.random.randint(_STATIC_VERSIONS.join, newest)))
        old: list[Step] = [
            Heartbeat(actor, beat, OLD),
            Sync(actor, sync, OLD),
            Commit(actor, commit, self.offsets(), OLD),
            Join(actor, join, OLD),
            Leave(3, ((actor, OLD, OWN),)),
        ]
        return [
            *together,
            Join(actor, join, NONE, OWN, change),
            *self.random.sample(old, self.random.choice((0, 0, 1, 2))),
        ]

    def give_up(self) -> list[Step]:
        """A new member leaves, or is late, before it joins with the id that it was given."""
        actor, version = self.one(), max(self.version(join_group.API.key), 4)
        leave = Leave(self.version(leave_group.API.key), ((actor, OWN, NONE),))
        steps: list[Step] = [Join(actor, version, NONE, NONE), Advance(self.one()), Advance(self.one()), leave]
        return self.random.choice((steps, [steps[0], leave], steps[:3]))

    def leave(self) -> list[Step]:
        who = tuple(
            (self.one(), self.member(), self.instance())
            for _ in range(self.random.choices((0, 1, 2, 3), [1, 9, 4, 2])[0])
        )
        version = self.version(leave_group.API.key)
        if version < 3 and not who:
            version = 3
        return [Leave(version, who, self.random.choices((OWN, ABSENT, NONE), [20, 1, 1])[0])]

    def commit(self) -> list[Step]:
        version = self.version(offset_commit.API.key)
        group = self.random.choices((OWN, OTHER, ABSENT, NONE), [20, 4, 1, 1])[0]
        return [
            Commit(
                self.one(),
                version,
                self.offsets(),
                self.member(),
                # No simple consumer's commit for a group that there never is, or that all sequences share.
                NEXT if group in (ABSENT, NONE) else self.generation(),
                self.instance(),
                self.random.choice((-1, 0, 3_600_000)) if 2 <= version <= 4 else -1,
                group,
            )
        ]

    def honest_commit(self) -> list[Step]:
        actor = self.one()
        return [Commit(actor, self.actors[actor].versions.commit, self.offsets())]

    def simple_commit(self) -> list[Step]:
        group = self.random.choice((OWN, OTHER))
        version = self.version(offset_commit.API.key)
        return [Commit(self.one(), version, self.offsets(), NONE, NONE, NONE, -1, group)]

    def fetch(self) -> list[Step]:
        version = self.version(offset_fetch.API.key)
        topics = None if version >= 2 and self.random.random() < 0.5 else self.topics()
        return [Fetch(version, self.groups(), topics, self.random.random() < 0.3)]

    def describe(self) -> list[Step]:
        return [Describe(self.version(describe_groups.API.key), self.groups(), self.random.random() < 0.3)]

    def list_all(self) -> list[Step]:
        random = self.random
        states = tuple(random.sample(_STATES, random.choice((0, 0, 1, 2))))
        types = tuple(random.sample(_TYPES, random.choice((0, 0, 1, 2))))
        return [ListAll(self.version(list_groups.API.key), states, types)]

    def find(self) -> list[Step]:
        return [Find(self.version(find_coordinator.API.key), self.groups())]

    def delete(self) -> list[Step]:
        delete = Delete(self.version(delete_groups.API.key), self.groups())
        if self.random.random() < 0.5:
            return [delete]
        # A group without members, that there is.
        offsets = Commit(self.one(), self.version(offset_commit.API.key), self.offsets(), NONE, NONE, NONE, -1, OTHER)
        return [offsets, delete._replace(groups=(OTHER, ABSENT))]

    def delete_offsets(self) -> list[Step]:
        group = self.random.choices((OWN, OTHER, ABSENT, NONE), [20, 4, 1, 1])[0]
        return [DeleteOffsets(self.version(offset_delete.API.key), self.topics(), group)]

    # -- parts of requests

    def one(self) -> int:
        return self.random.randrange(len(self.actors))

    def member(self) -> str:
        return self.random.choices((OWN, NONE, WRONG, OLD, f"{OF}{self.one()}"), [12, 3, 1, 2, 2])[0]

    def instance(self) -> str:
        return self.random.choices((OWN, NONE, WRONG, f"{OF}{self.one()}"), [16, 2, 1, 1])[0]

    def generation(self) -> str:
        return self.random.choices((OWN, OLD, NEXT, NONE, ZERO), [12, 1, 1, 2, 1])[0]

    def offsets(self) -> tuple[Offset, ...]:
        random = self.random
        places = [(topic, partition) for topic in TOPICS for partition in range(PARTITIONS)]
        if random.random() < 0.1:
            places += [(TOPICS[0], PARTITIONS), (NOWHERE, 0), (NOWHERE, 1)]
        return tuple(
            Offset(
                *place,
                random.choice(_OFFSETS),
                random.choice((-1, 0, 5)),
                random.choices(_METADATA, [4, 4, 4, 4, 2, 1, 1])[0],
            )
            for place in random.sample(places, random.randint(1, 4))
        )

    def topics(self) -> Topics:
        random = self.random
        more = random.random() < 0.2
        names = (*TOPICS, NOWHERE) if more else TOPICS
        return tuple(
            (topic, tuple(random.sample(range(PARTITIONS + more), random.randint(1, PARTITIONS))))
            for topic in random.sample(names, random.randint(1, len(names)))
        )

    def groups(self) -> tuple[str, ...]:
        random = self.random
        if random.random() < 0.6:
            return (OWN,)
        return tuple(random.sample((OWN, OTHER, ABSENT, NONE), random.randint(1, 4)))


_KINDS: tuple[tuple[Callable[[_Generator], list[Step]], int], ...] = (
    (_Generator.advance, 40),
    (_Generator.rounds, 14),
    (_Generator.join, 10),
    (_Generator.sync, 6),
    (_Generator.heartbeat, 5),
    (_Generator.restart, 7),
    (_Generator.give_up, 3),
    (_Generator.leave, 7),
    (_Generator.commit, 9),
    (_Generator.honest_commit, 6),
    (_Generator.simple_commit, 3),
    (_Generator.fetch, 5),
    (_Generator.describe, 3),
    (_Generator.list_all, 1),
    (_Generator.find, 1),
    (_Generator.delete, 2),
    (_Generator.delete_offsets, 3),
)
