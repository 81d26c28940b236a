"""What is compared: places, readings, rows; and what is said of them."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

ZOOKEEPER: Final = "zookeeper"
LOG: Final = "log"
UPSTREAM: Final = "upstream"
PLACES: Final = (ZOOKEEPER, LOG, UPSTREAM)
"""``log``: what the shim serves; ``upstream``: the cluster's own `__consumer_offsets`."""

NO_PARTITION: Final = -1
"""Of a reading that is about a group or a topic as a whole, and has a problem."""

NO_LEADER: Final = -1
"""Instead of the broker that lists a group: none can, as its partition of `__consumer_offsets` has no leader."""


class CannotRead(Exception):
    """A place does not answer, or does not do what it is asked. The message is one line that names the place."""


class Verdict(StrEnum):
    """Of one place's offset, held against another's.

    ``MISSING``: it has none where the other has one; ``ONLY_HERE``: the reverse. ``MOVING``: the two differ, and one of
    them has moved between two looks such that they may have been alike in between. ``UNREADABLE``: what stands there is
    no offset, or could not be read.
    """

    EQUAL = "equal"
    BEHIND = "behind"
    AHEAD = "ahead"
    MISSING = "missing"
    ONLY_HERE = "only here"
    MOVING = "moving"
    UNREADABLE = "unreadable"


DIFFERENCES: Final = (Verdict.BEHIND, Verdict.AHEAD, Verdict.MISSING, Verdict.ONLY_HERE, Verdict.UNREADABLE)
"""Those that make the exit status 1."""


class Pair(NamedTuple):
    """``place`` is held against ``other``."""

    place: str
    other: str

    @property
    def column(self) -> str:
        """Its column in the outputs."""
        return f"{self.place}_{self.other}"


ZOOKEEPER_LOG: Final = Pair(ZOOKEEPER, LOG)
UPSTREAM_LOG: Final = Pair(UPSTREAM, LOG)
ZOOKEEPER_UPSTREAM: Final = Pair(ZOOKEEPER, UPSTREAM)
PAIRS: Final = (ZOOKEEPER_LOG, UPSTREAM_LOG, ZOOKEEPER_UPSTREAM)


class Reading(NamedTuple):
    """What one place has for one partition. ``offset``: None with ``problem``, a line. ``mzxid``, ``mtime_ms``: of the
    znode, the transaction that set it last and when, by the ensemble's clock. ``read_ms``: when it was read, by the
    reader's clock. Times are in milliseconds since 1970."""

    place: str
    group: str
    topic: str
    partition: int
    offset: int | None
    mzxid: int | None
    mtime_ms: int | None
    read_ms: int
    problem: str | None = None


class LogEnds(NamedTuple):
    """Of one partition: the first offset of its log, and the one after its last."""

    topic: str
    partition: int
    log_start: int | None
    log_end: int | None


class WhereGroup(NamedTuple):
    """Where a group's offsets are to be looked for. ``log_node``, ``upstream_node``: id of the broker that lists it at
    the shim and at the brokers, None where none does, NO_LEADER where none can. ``step``: its step at the shim, such as
    ``kafka+dual``; "" where the shim has not heard of it, None where the steps were not asked for. ``is_share``: it is
    a share group, whose offsets at the brokers are no committed ones."""

    group: str
    in_zookeeper: bool
    log_node: int | None
    upstream_node: int | None
    step: str | None
    is_share: bool = False
