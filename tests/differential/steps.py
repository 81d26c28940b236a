"""What a sequence of requests is made of. A step names members, generations and groups by their part in the sequence
("own", "old", …), since the coordinators give out member ids of their own: the request is made when its turn comes.

Whatever a step means at that moment, it means the same for both coordinators; one that means nothing is left out.
So every selection of a sequence's steps is a sequence, too.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, TypeAlias

TOPICS = ("alpha", "beta", "gamma")
"""The topics that there are, with PARTITIONS each."""
PARTITIONS = 3
NOWHERE = "nowhere"
"""A topic that there is not."""

# Of a member id, instance id or group: whose.
OWN, NONE, WRONG, OLD = "own", "none", "wrong", "old"
OF = "of:"  # and the number of an actor
# Of groups: the one that the sequence is about, one of offsets alone, one that there never is.
OTHER, ABSENT = "other", "absent"
# Of a generation.
NEXT, ZERO = "next", "zero"


SHORT_MS = 700
"""Of whatever time-out is to be over soon. No other is met by chance: a sequence takes less than a minute."""


def exists(topic: str, partition: int) -> bool:
    """Whether there is such a topic and partition."""
    return topic in TOPICS and partition in range(PARTITIONS)


class Timing(Enum):
    """What may expire in a sequence."""

    NONE = "none"
    SESSION = "session"  # actor 0 has a short session time-out, or asks for one in time
    REBALANCE = "rebalance"  # all have a short rebalance time-out, or ask for one in time
    DELAY = "delay"  # the initial rebalance delay is not 0, and groups are small


class Versions(NamedTuple):
    """Which version of each API an actor's client speaks."""

    join: int
    sync: int
    heartbeat: int
    commit: int


class Actor(NamedTuple):
    """A client that joins the group. `client`: what its client id is ("own", "shared", "empty", "null")."""

    client: str
    static: bool
    protocols: tuple[str, ...]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    versions: Versions


class Advance(NamedTuple):
    """What an honest client does next: join, rejoin, sync, or heartbeat. Nothing while it waits for an answer."""

    actor: int


class Join(NamedTuple):
    """`change`: what it does otherwise than an honest client would (see `requests.py`)."""

    actor: int
    version: int
    member: str = OWN
    instance: str = OWN
    change: str = ""


class Sync(NamedTuple):
    """`assign`: whom the request has an assignment for ("all", "some", "more", "none")."""

    actor: int
    version: int
    member: str = OWN
    generation: str = OWN
    instance: str = OWN
    assign: str = "all"
    protocol: str = OWN
    group: str = OWN


class Heartbeat(NamedTuple):
    actor: int
    version: int
    member: str = OWN
    generation: str = OWN
    instance: str = OWN
    group: str = OWN


class Leave(NamedTuple):
    """`who`: (actor, member, instance) of each that is to leave; before version 3 the first alone."""

    version: int
    who: tuple[tuple[int, str, str], ...]
    group: str = OWN


class Offset(NamedTuple):
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str | None


class Commit(NamedTuple):
    actor: int
    version: int
    offsets: tuple[Offset, ...]
    member: str = OWN
    generation: str = OWN
    instance: str = OWN
    retention_ms: int = -1
    group: str = OWN


Topics: TypeAlias = tuple[tuple[str, tuple[int, ...]], ...]


class Fetch(NamedTuple):
    """`topics`: None for all. Before version 8 of the first group alone."""

    version: int
    groups: tuple[str, ...]
    topics: Topics | None
    require_stable: bool = False


class Describe(NamedTuple):
    version: int
    groups: tuple[str, ...]
    operations: bool = False


class ListAll(NamedTuple):
    version: int
    states: tuple[str, ...] = ()
    types: tuple[str, ...] = ()


class Find(NamedTuple):
    """Before version 4 of the first group alone."""

    version: int
    groups: tuple[str, ...]


class Delete(NamedTuple):
    version: int
    groups: tuple[str, ...]


class DeleteOffsets(NamedTuple):
    version: int
    topics: Topics
    group: str = OWN


class Await(NamedTuple):
    """Until what is about to expire has expired."""


class Pass(NamedTuple):
    """So much time that actor 0 is gone, unless it has been heard of since the last time, or its request is parked."""


Step: TypeAlias = (
    Advance
    | Join
    | Sync
    | Heartbeat
    | Leave
    | Commit
    | Fetch
    | Describe
    | ListAll
    | Find
    | Delete
    | DeleteOffsets
    | Await
    | Pass
)


class Sequence(NamedTuple):
    protocol_type: str
    timing: Timing
    actors: tuple[Actor, ...]
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        lines = [f"protocol type {self.protocol_type!r}, timing {self.timing.value}"]
        lines += [f"  actor {number}: {tuple(actor)}" for number, actor in enumerate(self.actors)]
        lines += [f"  {number:2} {step!r}" for number, step in enumerate(self.steps)]
        return "\n".join(lines)
