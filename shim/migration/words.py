"""What is told of groups and of the hands that they are in, to whoever looks after them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, Literal, NamedTuple, TypeAlias

from protocol.group_kinds import CLASSIC
from protocol.own.state_log import Step

Move: TypeAlias = Literal["start", "advance", "rollback"]
"""What may be done with a group."""
StepMove: TypeAlias = Literal["advance", "rollback"]
"""What goes from one step to the next, or the one before."""


class Source(StrEnum):
    """Where the right offsets are of a group that both have."""

    ZOOKEEPER = "zookeeper"
    UPSTREAM = "upstream"


class Refused(Exception):
    """The group stays where it is; the message is one line that says why."""


class NotKnown(Exception):
    """Neither the shim nor the cluster knows such a group."""


_DUAL: Final = "+dual"
PASSED_THROUGH: Final = "upstream"
STEP_NAMES: Final[Mapping[Step | None, str]] = {
    Step.ZOOKEEPER: "zookeeper",
    Step.ZOOKEEPER_DUAL: "zookeeper+dual",
    Step.KAFKA_DUAL: "kafka+dual",
    Step.KAFKA: "kafka",
    Step.UPSTREAM_DUAL: "upstream+dual",
    None: PASSED_THROUGH,
}
"""Of the steps, in the order in which they are gone through: `offsets.storage`, and whether `dual.commit.enabled` is
true. "upstream" is the cluster's own; at None the group is passed through to its coordinator."""
STEPS: Final = tuple(STEP_NAMES.values())
"""As they are written."""


def step_name(storage: str, *, dual_commit: bool) -> str:
    """The one of :data:`STEPS` at which these two are so; see :class:`GroupStatus`."""
    return storage + _DUAL * dual_commit


UNKNOWN: Final = "Unknown"
"""The state of a group while its coordinator does not say."""


class GroupStatus(NamedTuple):
    """``step``: one of :data:`STEPS`. ``state`` and ``members``: of the coordinator in whose hands it is; UNKNOWN and
    None while that does not say: the alarm says why not. ``changed_ms``: since when, in milliseconds since the epoch,
    and ``cause``: why; None and "" where nobody knows.
    ``lag_seconds``: for how long the oldest change waits that another place is yet to have; None where none waits.
    ``alarm``: what is amiss with it, or not done yet, in a line: clients that go past the shim, why the lag is what it
    is, a broker that does not answer, members that are yet to join again for a move, or after it; "" for nothing.
    ``type``: Kafka's, of the group's protocol. ``state_since_ms``: when it came to its state, in milliseconds since the
    epoch; None where nobody knows, as of one that is passed through: its coordinator does not tell. ``silent_members``:
    how many of the members have missed heartbeats; 0 where nobody knows.
    """

    group: str
    step: str
    state: str
    members: int | None
    changed_ms: int | None
    cause: str
    lag_seconds: float | None = None
    alarm: str = ""
    type: str = CLASSIC.type
    state_since_ms: int | None = None
    silent_members: int = 0

    @property
    def storage(self) -> str:
        """Kafka's `offsets.storage`."""
        return self.step.removesuffix(_DUAL)

    @property
    def dual_commit(self) -> bool:
        """Kafka's `dual.commit.enabled`."""
        return self.step.endswith(_DUAL)


class Candidates(NamedTuple):
    """``groups``: that a start could be about, each once. ``unanswered``: a line for each broker, and for
    ZooKeeper, that has not said which groups it has, so that there may be others. ``left_alone``: of ``groups``, those
    that a start refuses, as their clients have another protocol than the classic one, each with why."""

    groups: Sequence[str]
    unanswered: Sequence[str] = ()
    left_alone: Mapping[str, str] = {}


class Planned(NamedTuple):
    """What a start would find. ``members_here``: of the members, how many have come through the shim
    lately. ``offsets``: partitions of which an offset would be adopted. ``hindrance``: "" where it would go through.
    ``storage``: where the offsets are; of a group that the shim serves it is what its status has, as the rest is. Its
    counts are None where who knows them does not say; then the hindrance says why.
    """

    group: str
    state: str
    members: int | None
    members_here: int | None
    offsets: int | None
    hindrance: str
    storage: str = "upstream"


class Difference(NamedTuple):
    """Of one partition, the offset in the log and in the other place (``where``: "zookeeper", "upstream"); None where
    it has none."""

    topic: str
    partition: int
    log: int | None
    elsewhere: int | None
    where: str

    def __str__(self) -> str:
        log, there = ("none" if each is None else each for each in (self.log, self.elsewhere))
        return f"{self.topic}-{self.partition} is {log} in the log and {there} in {self.where}"


class Verified(NamedTuple):
    """``offsets``: how many were compared, each with every place that its group's offsets are in."""

    group: str
    offsets: int
    differences: Sequence[Difference]


class Looked(NamedTuple):
    """What a move would do with a group now. ``at``, ``to``: two of :data:`STEPS`. ``hindrance``: why it would be
    refused, as far as it can be told without trying; "" for nothing. ``verified``: None of one that is passed through,
    of which the shim has nothing to compare."""

    group: str
    at: str
    to: str
    hindrance: str
    verified: Verified | None


_TO_START: Final = (PASSED_THROUGH, STEP_NAMES[Step.ZOOKEEPER])


def may_move(move: Move, status: GroupStatus) -> bool:
    """Whether ``move`` means this group, too, where groups are not named.

    None advances from `kafka` by itself: there a group can stay. One that is named is tried in any case.
    """
    if move == "start":
        return status.step in _TO_START
    if move == "advance":
        return status.dual_commit
    return status.step not in _TO_START
