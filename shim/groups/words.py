"""What is told of groups, and asked to be done with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from enum import Enum
from typing import NamedTuple

from protocol.topic_partition import Partition
from shim.coordinator import Generation, Presence
from shim.counted import lasting
from shim.migration.words import NotKnown, Refused
from shim.upstream.log_ends import NO_OFFSET, lag_of


class NotCertain(Exception):
    """It was begun, and what became of it is not known in all places. The message is one line."""


class Kind(Enum):
    """Where offsets can be reset to, by Kafka's options. ``OFFSET`` and ``SHIFT`` need a number; ``TIME`` and
    ``HISTORY`` a time in milliseconds since the epoch; ``FILE`` an offset for each partition. ``UPSTREAM``: what the
    cluster itself has of a group that the shim serves."""

    OFFSET = "to-offset"
    EARLIEST = "to-earliest"
    LATEST = "to-latest"
    CURRENT = "to-current"
    TIME = "to-datetime"
    SHIFT = "shift-by"
    FILE = "from-file"
    HISTORY = "from-history"
    UPSTREAM = "from-upstream"
    UNDO = "undo"


class Target(NamedTuple):
    """``number``: as the kind needs it. ``offsets``: of FILE alone."""

    kind: Kind
    number: int = 0
    offsets: Mapping[Partition, int] = {}


class Scope(NamedTuple):
    """``topics``: of each the partitions, None for all of them; ``all_topics``: those that the group has offsets of.
    Neither: what the target is about by itself."""

    topics: Mapping[str, Sequence[int] | None] = {}
    all_topics: bool = False


class Change(NamedTuple):
    """``offset``: committed now, and ``new_offset``: to be (:data:`NO_OFFSET`: none). ``note``: what has to be known of
    it, a line, or ""."""

    topic: str
    partition: int
    offset: int
    new_offset: int
    note: str = ""


class Undone(NamedTuple):
    """A reset that is to be undone: when it was, for what cause, from where it was asked for, and of how many
    offsets."""

    time_ms: int
    cause: str
    client_host: str
    offsets: int


class Plan(NamedTuple):
    """``state``: of the group, "Dead" where there is none. ``hindrance``: why it would be refused now, or "".
    ``undoes``: None where it is no undo."""

    group: str
    state: str
    changes: Sequence[Change]
    hindrance: str = ""
    undoes: Undone | None = None


class Member(NamedTuple):
    """``partitions``: those assigned to it; None where its coordinator does not tell. ``heard_ms``,
    ``session_timeout_ms``, ``removed_ms``, ``is_silent``: as of its :class:`Presence`; None, and False, of a group that
    is passed through."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    partitions: Sequence[Partition] | None
    heard_ms: int | None = None
    session_timeout_ms: int | None = None
    removed_ms: int | None = None
    is_silent: bool = False


def last_heard(presence: Presence, now_ms: int) -> str:
    """``now_ms``: by the clock of its times."""
    if presence.heard_ms is None:
        return "not heard of since the shim began"
    return f"last heard of {lasting(now_ms - presence.heard_ms)} ago"


def awaited(presence: Presence, now_ms: int) -> str:
    """Who it is, when it was heard of, and when it is not waited for any more, if it stays silent."""
    who = [f"{presence.client_id} at {presence.client_host}"]
    if presence.leads:
        who.append("the leader")
    who.append(last_heard(presence, now_ms))
    if presence.removed_ms is not None:
        who.append(f"removed in {lasting(presence.removed_ms - now_ms)} unless it is heard of again")
    return f"{presence.member_id} ({', '.join(who)})"


class OffsetAt(NamedTuple):
    """Of a partition that is committed, or assigned to a member: then ``offset`` may be :data:`NO_OFFSET`.
    ``log_end_offset`` is None where the brokers do not tell, and ``why`` says so. ``committed_ms``: ms since the epoch,
    None where nobody knows."""

    topic: str
    partition: int
    offset: int
    log_end_offset: int | None
    committed_ms: int | None
    why: str = ""

    @property
    def lag(self) -> int | None:
        return lag_of(self.offset, self.log_end_offset)


class GroupLag(NamedTuple):
    """Of a group, in records, of all partitions with a committed offset together. ``lag`` is None where there is none,
    and where not all of them can be told: then ``why`` says why not."""

    lag: int | None
    why: str = ""


class Moved(NamedTuple):
    """That an offset was committed, or ``deleted``: then ``offset`` is :data:`NO_OFFSET`. ``before``: the one before
    it; None where nobody knows, :data:`NO_OFFSET` where there was none. ``cause``: "" of what clients commit."""

    time_ms: int
    topic: str
    partition: int
    before: int | None
    offset: int
    client_id: str
    client_host: str
    principal: str
    member_id: str
    generation_id: int
    cause: str
    deleted: bool = False

    @property
    def is_move(self) -> bool:
        """Clients commit again and again where they are. What somebody set for a cause he looks for, moved or not."""
        return self.offset != self.before or self.cause != ""


class Window(NamedTuple):
    """Which of the moves: ``since_ms`` in milliseconds since the epoch, None for all that there are; ``topics`` and
    ``partitions``: what is one of either, both empty for all; ``last``: so many of the newest, None for all;
    ``all_commits``: also those that moved nothing."""

    since_ms: int | None = None
    topics: Sequence[str] = ()
    last: int | None = None
    partitions: Set[Partition] = frozenset()
    all_commits: bool = False


class Details(NamedTuple):
    """``last_commit``: the newest that the history has; None where it has none, or was not asked, and of a group that
    is passed through: others commit at the cluster. ``generation``: None of one that is passed through, and
    of one that has offsets alone. ``now_ms``: when it was looked, by the clock of the members' times.
    ``zookeeper_consumers``: the ids of those that are there, in ZooKeeper, where the group's offsets are, too; None
    where that is not known now."""

    protocol_type: str
    members: Sequence[Member]
    offsets: Sequence[OffsetAt]
    last_commit: Moved | None
    generation: Generation | None
    now_ms: int
    zookeeper_consumers: Sequence[str] | None = ()


class Deleted(NamedTuple):
    """``offsets``: how many it had."""

    group: str
    offsets: int


__all__ = [
    "NO_OFFSET",
    "Change",
    "Deleted",
    "Details",
    "Generation",
    "Kind",
    "Member",
    "Moved",
    "NotCertain",
    "NotKnown",
    "OffsetAt",
    "Partition",
    "Plan",
    "Presence",
    "Refused",
    "Scope",
    "Target",
    "Undone",
    "Window",
    "awaited",
]
