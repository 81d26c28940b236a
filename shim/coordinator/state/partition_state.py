"""The state of one offsets partition, and the functions that apply records to it.

What a record says is so from here on, at the moment of a decision as well as in recovery; what that does to offsets,
:mod:`offsets <shim.coordinator.state.offsets>` says. Offsets change in no other way. A group amid a rebalance runs
ahead of its last record (members, leader, generation), and its next record brings it in line.

What no record holds (parked requests, deadlines, pending members, who has yet to sync) is changed by the requests
directly. A record leaves it alone, but that it ends with what it belongs to: with a member that the record does not
name, the deadline of its session; with a deleted group, all of that group's.
"""

import sys
from collections.abc import Callable

from protocol.commit_rows import CommitRows
from protocol.offsets_log import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from protocol.own.history_log import Who
from protocol.own.position import Position, Producer
from protocol.own.state_log import ZOOKEEPER_IS_RIGHT, GroupHandsValue, Hands, Step, WrittenKey, WrittenValue
from protocol.own.topic_log import Settled
from shim.coordinator.outcome import Key, Value
from shim.coordinator.settings import CoordinatorSettings
from shim.coordinator.state.deadlines import Deadlines
from shim.coordinator.state.group import Deadline, DeadlineKind, Group, GroupState, Member, Protocol
from shim.coordinator.state.group_memory import GroupMemory, MemoryShare, group_size
from shim.coordinator.state.offsets import Offsets
from shim.coordinator.state.parked_commits import CommitDeadline, ParkedCommits
from shim.coordinator.state.subscription import topics_of_generation


class PartitionState:
    """Groups, offsets and deadlines of one offsets partition."""

    __slots__ = (
        "behind",
        "closed",
        "commits",
        "committers",
        "deadlines",
        "groups",
        "hands",
        "memory",
        "new_uuid",
        "offsets",
        "rebalances",
        "recorded",
        "settings",
        "unused_in_zookeeper",
        "with_stores",
        "written",
    )

    def __init__(self, settings: CoordinatorSettings, new_uuid: Callable[[], str]) -> None:
        self.settings = settings
        self.new_uuid = new_uuid
        self.groups: dict[str, Group] = {}
        self.recorded: dict[str, GroupMetadataValue | None] = {}
        """The groups that the log knows, in the order in which it makes them: the last record of each; None of a simple
        group, which is known by its offsets only."""
        self.hands: dict[str, GroupHandsValue] = {}
        """What the log of the shim's own state says of groups, those that are deleted included."""
        self.written: dict[str, dict[tuple[str, int], WrittenValue]] = {}
        """By group, topic and partition: what ZooKeeper has by the shim's hand, or is about to have."""
        self.with_stores: set[str] = set()
        """Groups that are served and at another step than KAFKA."""
        self.unused_in_zookeeper: dict[str, int] = {}
        """Of the groups whose offsets are in ZooKeeper, too: those of which no consumer is there, as far as this
        process knows, and since when."""
        self.closed: set[str] = set()
        """Groups about which nothing is decided: the cluster's, and those that change hands."""
        self.offsets = Offsets()
        self.behind: set[int] = set()
        """The partitions of the cluster's of which it is not known what was written there while nobody read."""
        self.committers: dict[Producer, dict[str, Who]] = {}
        """By group, who has made its offsets pending, as far as this process knows: for the history."""
        self.deadlines: Deadlines[Deadline | CommitDeadline] = Deadlines()
        self.memory = MemoryShare(GroupMemory(settings.group_memory_max_bytes))
        self.commits = ParkedCommits(self.memory)
        self.rebalances = 0
        """New generations since this object was made, for whoever counts."""

    def hands_of(self, group_id: str) -> Hands | None:
        """None where nobody has asked yet whose the group is."""
        known = self.hands.get(group_id)
        if known is not None:
            return Hands.SERVED if known.hands == Hands.SERVED else Hands.PASSED_THROUGH
        # From before there were such records, when every group was served.
        return Hands.SERVED if group_id in self.groups else None

    def step_of(self, group_id: str) -> Step:
        """Of a group that is served."""
        known = self.hands.get(group_id)
        return Step.KAFKA if known is None else Step(known.step)

    def is_in_use_in_zookeeper(self, group_id: str) -> bool:
        """Whether somebody may go by its offsets of whom nothing is heard here. In ZooKeeper none expires."""
        step = self.step_of(group_id)
        return step in ZOOKEEPER_IS_RIGHT or (step is Step.KAFKA_DUAL and group_id not in self.unused_in_zookeeper)

    def from_zookeeper(self, group_id: str) -> bool:
        """Whether the group's offsets were in ZooKeeper at first."""
        word = self.hands.get(group_id)
        return word is not None and bool(word.from_zookeeper)

    def used_in_zookeeper_until(self, group_id: str) -> int:
        """When somebody may have gone by its offsets last of whom nothing is heard here; 0 where nobody may have."""
        word = self.hands.get(group_id)
        if word is None or not word.from_zookeeper:
            return 0
        return max(word.time, self.unused_in_zookeeper.get(group_id, 0))

    def replay_written(self, key: WrittenKey, value: WrittenValue | None) -> None:
        """Apply a record of the shim's own state."""
        group, topic, partition, _ = key
        if value is not None:
            self.written.setdefault(group, {})[topic, partition] = value
        elif group in self.written:
            self.written[group].pop((topic, partition), None)
            if not self.written[group]:
                del self.written[group]

    def replay_hands(self, group_id: str, value: GroupHandsValue) -> None:
        """Apply a record of the shim's own state."""
        self.hands[group_id] = value
        self.unused_in_zookeeper.pop(group_id, None)
        if value.hands == Hands.SERVED and value.step != Step.KAFKA:
            self.with_stores.add(group_id)
        else:
            self.with_stores.discard(group_id)
        self.close(group_id, closed=value.hands != Hands.SERVED)

    def close(self, group_id: str, *, closed: bool) -> None:
        """Decide nothing about the group from here on, or no longer so."""
        if closed:
            self.closed.add(group_id)
        else:
            self.closed.discard(group_id)

    def has_room_for_group(self, group_id: str) -> bool:
        """Whether a group without members may be made."""
        return self.memory.has_room(group_size(group_id))

    def replay(self, key: Key, value: Value | None) -> None:
        """Apply a record. Raises TypeError when the value is not of the key's kind."""
        match key, value:
            case OffsetCommitKey(), OffsetCommitValue():
                if key.group not in self.recorded:
                    self.restore_group(key.group, None)
                self.offsets.commit(key, value)
            case OffsetCommitKey(), None:
                self.offsets.delete(key)
            case GroupMetadataKey(), GroupMetadataValue():
                self.restore_group(key.group, value)
            case GroupMetadataKey(), None:
                self._delete_group(key.group)
            case _:
                raise TypeError(f"{type(value).__name__} is no value for {type(key).__name__}")

    def replay_rows(self, group: str, topic: str, rows: CommitRows, commit_timestamp: int) -> None:
        """:meth:`replay` of the records of these offsets, without metadata and expire timestamp."""
        if group not in self.recorded:
            self.restore_group(group, None)
        self.offsets.commit_rows(group, topic, rows, commit_timestamp)

    def is_unstable(self, key: OffsetCommitKey) -> bool:
        """Whether a commit in a transaction of that offset is not settled, or is on its way."""
        return key in self.offsets.transactions or key in self.commits

    def is_in_transaction(self, group_id: str) -> bool:
        """Whether one that has not ended may yet change its offsets: they are pending, or on their way to be."""
        return self.offsets.transactions.has_group(group_id) or self.commits.has_group(group_id)

    def replay_pending(
        self,
        producer: Producer,
        position: Position | None,
        key: OffsetCommitKey,
        value: OffsetCommitValue,
    ) -> None:
        """Apply a record of a transaction."""
        if key.group not in self.recorded:
            self.restore_group(key.group, None)
        self.offsets.add_pending(producer, position, key, value)

    def replay_end(self, producer: Producer, position: Position | None, *, committed: bool) -> list[Settled]:
        """Apply a marker. Gives what was pending, and what has become of it."""
        return self.offsets.end(producer, position, committed=committed)

    def restore_group(self, group_id: str, value: GroupMetadataValue | None) -> None:
        """Make the group what its last record says; None where there is none: offsets alone make a simple group, which
        is Empty and has no protocol type."""
        self.recorded[group_id] = value
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = Group(group_id, self.memory)
        if value is None:
            group.count(None)
            return
        members = {m.member_id: restored_member(group, value.protocol, m) for m in value.members}
        for gone in [member for member_id, member in group.members.items() if member_id not in members]:
            if gone.join is not None or gone.sync is not None:
                raise RuntimeError(
                    f"a record of group {group_id!r} drops a member with a parked request: {gone.member_id}"
                )
            group.remove(gone.member_id)
            self.deadlines.cancel(gone.session_deadline)
        for member in members.values():
            if member.member_id not in group.members:
                group.add(member)
        group.members = members  # in the record's order
        group.static_members = {
            member.group_instance_id: member.member_id
            for member in members.values()
            if member.group_instance_id is not None
        }
        group.state = GroupState.STABLE if members else GroupState.EMPTY
        group.state_timestamp = value.current_state_timestamp
        group.generation_id = value.generation
        group.protocol_type = sys.intern(value.protocol_type) or None
        group.protocol_name = value.protocol
        group.leader = value.leader if value.leader in group.members else next(iter(group.members), None)
        group.subscribed_topics = topics_of_generation(group)
        group.count(value)

    def _delete_group(self, group_id: str) -> None:
        self.recorded.pop(group_id, None)
        group = self.groups.pop(group_id, None)
        if group is None:
            return
        group.state = GroupState.DEAD
        group.give_back()
        for deadline in (group.join_deadline, group.sync_deadline):
            self.deadlines.cancel(deadline)
        for member in group.members.values():
            self.deadlines.cancel(member.session_deadline)
        for member_id in group.pending_joins:
            self.deadlines.cancel(Deadline(DeadlineKind.SESSION, group_id, member_id))
        # Deleting a group writes the tombstones of its offsets first. A tombstone of the group alone is written when
        # the group changes its protocol (KIP-848): its offsets live on and must go on being served.
        if self.offsets.has_group(group_id):
            self.restore_group(group_id, None)


def restored_member(group: Group, protocol_name: str | None, metadata: MemberMetadata) -> Member:
    """The member that a group metadata record speaks of: the live one, brought in line, or a new one.

    Raises nothing; a rebalance timeout of -1 (value v0) means the session timeout.
    """
    rebalance_timeout_ms = metadata.rebalance_timeout if metadata.rebalance_timeout != -1 else metadata.session_timeout
    protocols = (Protocol(protocol_name or "", metadata.subscription),)
    member = group.members.get(metadata.member_id)
    if member is None:
        return Member(
            group.group_id,
            metadata.member_id,
            metadata.group_instance_id,
            metadata.client_id,
            metadata.client_host,
            rebalance_timeout_ms,
            metadata.session_timeout,
            protocols,
            metadata.assignment,
        )
    # A live member offers more protocols than the chosen one, which is all that the record holds of them.
    if protocols[0] not in member.protocols:
        group.set_protocols(member, protocols)
    member.group_instance_id = metadata.group_instance_id
    member.client_id = metadata.client_id
    member.client_host = metadata.client_host
    member.rebalance_timeout_ms = rebalance_timeout_ms
    member.session_timeout_ms = metadata.session_timeout
    member.assignment = metadata.assignment
    return member


def group_metadata(group: Group, state_timestamp: int, assignments: dict[str, bytes]) -> GroupMetadataValue:
    """The value that records the group as Stable (or, without members, Empty) since `state_timestamp`.

    `assignments` are by member id; a member that is missing gets an empty one.
    """
    return GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation_id,
        protocol=group.protocol_name,
        leader=group.leader,
        current_state_timestamp=state_timestamp,
        members=tuple(
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata(group.protocol_name),
                assignment=assignments.get(member.member_id, b""),
            )
            for member in group.members.values()
        ),
    )
