"""A group of the classic protocol and its members: the state that requests change and records restore."""

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import Enum, IntEnum
from itertools import islice
from sys import getsizeof
from types import MappingProxyType
from typing import Final, NamedTuple

from protocol.errors import ErrorCode
from protocol.offsets_log import GroupMetadataValue
from shim.coordinator.outcome import Asker
from shim.coordinator.state.group_memory import (
    MEMBER_BYTES,
    MemoryShare,
    group_size,
    metadata_size,
    pending_member_size,
    protocols_size,
)

CONSUMER: Final = "consumer"
"""The protocol type of consumers: the one whose subscriptions the coordinator can read."""


class GroupState(Enum):
    """The states of a classic group, by the names that ListGroups and DescribeGroups show."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


# Which states may follow a state (Kafka 4.3, `ClassicGroupState`). A group is Dead the moment it is deleted: it is
# no longer in the table of groups then, so that no request ever finds a dead one.
NEXT_STATES: dict[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.PREPARING_REBALANCE: frozenset({GroupState.COMPLETING_REBALANCE, GroupState.EMPTY, GroupState.DEAD}),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.STABLE, GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.STABLE: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.DEAD: frozenset(),
}


_REBALANCING: Final = frozenset({GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE})


# In place of an empty dict, of all groups in which nobody is pending.
_NOBODY: Final[Mapping[str, None]] = MappingProxyType({})


class DeadlineKind(IntEnum):
    """What happens when a deadline comes up."""

    SESSION = 0  # the member, or pending member, has not been heard of
    JOIN = 1  # the join phase ends, or the initial rebalance delay is looked at again
    SYNC = 2  # members that have not synced are removed
    TELL = 3  # it is told whom a rebalance still waits for

    # An Enum's own hash is that of its name, by a function in Python; every heartbeat looks a deadline up.
    __hash__ = int.__hash__


class Deadline(NamedTuple):
    """The key of a deadline; `member_id` is "" for those of the group."""

    kind: DeadlineKind
    group_id: str
    member_id: str = ""


class Protocol(NamedTuple):
    """A protocol (assignor) that a member offers, and its metadata for it (a subscription for `consumer`)."""

    name: str
    metadata: bytes


class Parked(NamedTuple):
    """A request that waits for its answer, the version it was asked in, and since when, in milliseconds since the
    epoch."""

    asker: Asker
    version: int
    since: int


class InitialDelay(NamedTuple):
    """The initial rebalance delay under way: this stretch of it, and what the rebalance timeout leaves after it."""

    delay_ms: int
    remaining_ms: int


class Member:
    """A member of a group. Times in milliseconds. `is_new` until its first join is answered. `heard_at`: when its last
    request came, since the epoch; None of one that was read from the log."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "group_instance_id",
        "heard_at",
        "is_new",
        "join",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_deadline",
        "session_timeout_ms",
        "sync",
    )

    def __init__(
        self,
        group_id: str,
        member_id: str,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: tuple[Protocol, ...],
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        self.is_new = False
        self.heard_at: int | None = None
        self.join: Parked | None = None
        self.sync: Parked | None = None
        self.session_deadline = Deadline(DeadlineKind.SESSION, group_id, member_id)

    @property
    def is_waiting(self) -> bool:
        """Whether a request of it is parked, so that it is alive, heard of or not. A new member's first join is parked
        for so long only that its client must be gone when its session ends: it cannot heartbeat before it knows its id.
        """
        return not self.is_new and (self.join is not None or self.sync is not None)

    def size(self) -> int:
        """What the member takes in memory, but for its assignment."""
        strings = (self.member_id, self.group_instance_id or "", self.client_id, self.client_host)
        return MEMBER_BYTES + sum(map(getsizeof, strings)) + protocols_size(self.protocols)

    def metadata(self, protocol_name: str | None) -> bytes:
        """The member's metadata for the protocol; empty when it does not offer that protocol."""
        return next((protocol.metadata for protocol in self.protocols if protocol.name == protocol_name), b"")


class Group:
    """A classic group. Fields that no record holds are those below the blank line in `__init__`.

    Most groups are empty most of their time, and take little then: there may be a million of them.
    """

    __slots__ = (
        "_memory",
        "_offered",
        "generation_id",
        "group_id",
        "initial_delay",
        "leader",
        "members",
        "new_member_added",
        "parked_joins",
        "pending_joins",
        "pending_syncs",
        "protocol_name",
        "protocol_type",
        "rebalance_reason",
        "rebalance_waited_for",
        "rebalancing_since",
        "recorded_size",
        "size",
        "state",
        "state_timestamp",
        "static_members",
        "subscribed_topics",
    )

    def __init__(self, group_id: str, memory: MemoryShare) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.state_timestamp = -1  # milliseconds since the epoch; -1 unknown
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.subscribed_topics: frozenset[str] | None = None  # of this generation, or of none yet; None: not known

        self.static_members: dict[str, str] = {}  # group instance id -> member id
        # Sets, as dicts: those keep their order.
        self.pending_joins: Mapping[str, None] = _NOBODY  # member ids given out with MEMBER_ID_REQUIRED
        self.pending_syncs: Mapping[str, None] = _NOBODY
        self.parked_joins = 0
        self.initial_delay: InitialDelay | None = None
        self.new_member_added = False
        self.rebalancing_since = -1  # milliseconds since the epoch; of one that `is_rebalancing`
        self.rebalance_reason = ""  # why the last one began, short; "" where nobody knows, or there are no members
        self.rebalance_waited_for = ""  # and whom it had waited for, short; "" where it went on as most do
        self._offered: dict[str, int] = {}  # protocol name -> how many members offer it
        self._memory = memory
        self.size = 0  # what the group takes of it
        self.recorded_size = 0  # of that, subscriptions and assignments in the last record
        self._take(group_size(group_id))

    @property
    def join_deadline(self) -> Deadline:
        return Deadline(DeadlineKind.JOIN, self.group_id)

    @property
    def sync_deadline(self) -> Deadline:
        return Deadline(DeadlineKind.SYNC, self.group_id)

    @property
    def tell_deadline(self) -> Deadline:
        return Deadline(DeadlineKind.TELL, self.group_id)

    def awaited(self) -> tuple[list[Member], Deadline]:
        """Whose JoinGroup is awaited in PreparingRebalance, whose SyncGroup in the other states; and which deadline
        ends that."""
        if self.state is GroupState.PREPARING_REBALANCE:
            return [member for member in self.members.values() if member.join is None], self.join_deadline
        return [self.members[member_id] for member_id in self.pending_syncs], self.sync_deadline

    # -- memory

    def _take(self, more: int) -> None:
        self.size += more
        self._memory.take(more)

    def count(self, record: GroupMetadataValue | None) -> None:
        """Work out the size anew, `record` being the group's last one."""
        self.recorded_size = metadata_size(record) if record is not None else 0
        size = (
            group_size(self.group_id)
            + sum(member.size() for member in self.members.values())
            + sum(map(pending_member_size, self.pending_joins))
            + self.recorded_size
        )
        self._take(size - self.size)

    def give_back(self) -> None:
        """It is gone, and takes nothing any more."""
        self._take(-self.size)

    # -- state

    @property
    def is_rebalancing(self) -> bool:
        """Whether there are members without the assignment of their generation: Stable it is as soon as the leader has
        brought that, and who has not asked for it has no partitions."""
        return self.state in _REBALANCING or bool(self.pending_syncs)

    def check_transition(self, state: GroupState) -> None:
        """Raises RuntimeError, before anything is changed, when `state` may not follow the present one."""
        if state not in NEXT_STATES[self.state]:
            raise RuntimeError(f"group {self.group_id!r} cannot go from {self.state.value} to {state.value}")

    def transition(self, state: GroupState, now: int) -> None:
        """Go to `state`. Raises RuntimeError when it may not follow the present one."""
        self.check_transition(state)
        if self.state is GroupState.EMPTY or self.state is GroupState.STABLE:
            self.rebalancing_since = now
        self.state = state
        self.state_timestamp = now

    # -- members

    def add(self, member: Member) -> None:
        """Add a member; the first one decides the leader."""
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        self.members[member.member_id] = member
        self._take(member.size())
        self._offer(member.protocols)
        self.forget_pending(member.member_id)
        if self.leader is None:
            self.leader = member.member_id

    def remove(self, member_id: str) -> Member | None:
        """Remove a member or pending member; the next member leads when it was the leader.

        Returns the member, whose parked requests are then the caller's to answer, or None.
        """
        self.forget_pending(member_id)
        self.forget_pending_sync(member_id)
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        self._take(-member.size())
        self._withdraw(member.protocols)
        if not self.members:
            # Emptied dicts would keep their size.
            self.members, self.pending_syncs, self._offered = {}, _NOBODY, {}
        if member.join is not None:
            self.parked_joins -= 1
        if member.group_instance_id is not None:
            self.static_members.pop(member.group_instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def add_pending(self, member_id: str) -> None:
        """A member id was given out; who has it may join."""
        if isinstance(self.pending_joins, dict):
            self.pending_joins[member_id] = None
        else:
            self.pending_joins = {member_id: None}
        self._take(pending_member_size(member_id))

    def forget_pending(self, member_id: str) -> None:
        """Nothing happens where it is none that was given out."""
        if isinstance(self.pending_joins, dict) and member_id in self.pending_joins:
            del self.pending_joins[member_id]
            self._take(-pending_member_size(member_id))
            if not self.pending_joins:
                self.pending_joins = _NOBODY

    def forget_pending_sync(self, member_id: str) -> None:
        """Nothing happens where its SyncGroup is not waited for."""
        if isinstance(self.pending_syncs, dict):
            self.pending_syncs.pop(member_id, None)

    def everybody_syncs(self) -> None:
        """All members are to send a SyncGroup."""
        self.pending_syncs = dict.fromkeys(self.members)

    def nobody_syncs(self) -> None:
        """No SyncGroup is waited for any more."""
        self.pending_syncs = _NOBODY

    def replace_static_member(self, member: Member, new_member_id: str) -> Member:
        """Give a static member's place (role, assignment, client) to a new member id; returns the new member."""
        was_leader = self.leader == member.member_id
        was_pending_sync = member.member_id in self.pending_syncs
        self.remove(member.member_id)
        replacement = Member(
            self.group_id,
            new_member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            member.rebalance_timeout_ms,
            member.session_timeout_ms,
            member.protocols,
            member.assignment,
        )
        self.add(replacement)
        if was_leader:
            self.leader = new_member_id
        if was_pending_sync:
            self.pending_syncs = {**self.pending_syncs, new_member_id: None}
        return replacement

    def set_protocols(self, member: Member, protocols: tuple[Protocol, ...]) -> None:
        """Replace what the member offers."""
        self._take(protocols_size(protocols) - protocols_size(member.protocols))
        self._withdraw(member.protocols)
        member.protocols = protocols
        self._offer(protocols)

    def _offer(self, protocols: Iterable[Protocol]) -> None:
        offered = self._offered
        for protocol in protocols:
            offered[protocol.name] = offered.get(protocol.name, 0) + 1

    def _withdraw(self, protocols: Iterable[Protocol]) -> None:
        offered = self._offered
        for protocol in protocols:
            offered[protocol.name] -= 1
            if not offered[protocol.name]:
                del offered[protocol.name]

    def validate(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """NONE when that is a member, under that instance id if one is given (KIP-345)."""
        if group_instance_id is not None:
            owner = self.static_members.get(group_instance_id)
            if owner is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if owner != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether the group reads the topic; consumers whose subscriptions are not known may read any."""
        if self.subscribed_topics is None:
            return self.protocol_type == CONSUMER
        return topic in self.subscribed_topics

    def next_generation_id(self) -> int:
        """The generation after this one; an int32 on the wire and in records, it starts again at 0 at its end."""
        return (self.generation_id + 1) & 0x7FFFFFFF

    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of the members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # -- parked requests

    def park_join(self, member: Member, parked: Parked) -> Parked | None:
        """Park a JoinGroup; returns the one it takes the place of, since when the member has waited."""
        replaced, member.join = member.join, parked
        if replaced is None:
            self.parked_joins += 1
        else:
            member.join = parked._replace(since=replaced.since)
        return replaced

    def take_join(self, member: Member) -> Parked | None:
        """Take the member's parked JoinGroup, if any, to answer it."""
        parked, member.join = member.join, None
        if parked is not None:
            self.parked_joins -= 1
        return parked

    def all_joined(self) -> bool:
        """True when every member's JoinGroup is parked and no pending member is left."""
        return self.parked_joins == len(self.members) and not self.pending_joins

    # -- protocols

    def common_protocols(self, most: int, looks_at: int = 1_000) -> list[str]:
        """Names of those that all members offer, so many at most, of the first that were offered: there may be a
        million."""
        everybody = len(self.members)
        common = (name for name, count in islice(self._offered.items(), looks_at) if count == everybody)
        return list(islice(common, most))

    def supports(self, protocol_type: str, protocols: Iterable[Protocol]) -> bool:
        """True when a member of that type, offering these protocols, can be in the group.

        Where the last member has left while others have only been given their ids, any protocol of the type will do.
        """
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and any(True for _ in protocols)
        everybody = len(self.members)
        return protocol_type == self.protocol_type and any(
            self._offered.get(protocol.name, 0) == everybody for protocol in protocols
        )

    def select_protocol(self) -> str:
        """The protocol for the next generation.

        Each member votes for the first protocol on its list that all members offer; most votes win. Among equals
        (Kafka leaves them undefined) the one voted for by the earliest member.
        """
        everybody = len(self.members)
        votes: Counter[str] = Counter()
        for member in self.members.values():
            votes[next(p.name for p in member.protocols if self._offered[p.name] == everybody)] += 1
        return max(votes, key=votes.__getitem__)

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader is a member that has joined; False when there is none."""
        leader = self.members.get(self.leader) if self.leader is not None else None
        if leader is None or leader.join is None:
            joined = next((member for member in self.members.values() if member.join is not None), None)
            if joined is None:
                return False
            self.leader = joined.member_id
        return True
