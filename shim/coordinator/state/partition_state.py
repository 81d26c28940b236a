"""The state of one offsets partition, and the one function that applies records to it.

Whatever is in a record changes here and nowhere else, at the moment of a decision as well as in recovery. What no
record holds (parked requests, deadlines, pending members, a rebalance under way) is changed by the requests directly,
and `replay` leaves it alone.
"""

import sys
from collections.abc import Callable, Collection

from protocol.commit_rows import CommitRows
from protocol.offsets_log import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from protocol.own.position import Position
from shim.coordinator.outcome import Key, Producer, Value
from shim.coordinator.settings import CoordinatorSettings
from shim.coordinator.state.deadlines import Deadlines
from shim.coordinator.state.group import Deadline, DeadlineKind, Group, GroupState, Member, Protocol
from shim.coordinator.state.group_memory import GroupMemory, group_size
from shim.coordinator.state.offset_table import CommittedOffset, OffsetTable
from shim.coordinator.state.parked_commits import CommitDeadline, Committer, ParkedCommits
from shim.coordinator.state.subscription import topics_of_generation
from shim.coordinator.state.transactions import Settled, Transactions


class PartitionState:
    """Groups, offsets and deadlines of one offsets partition."""

    __slots__ = (
        "behind",
        "commits",
        "committers",
        "deadlines",
        "group_bytes",
        "groups",
        "memory",
        "new_uuid",
        "offsets",
        "recorded",
        "settings",
        "transactions",
    )

    def __init__(self, settings: CoordinatorSettings, new_uuid: Callable[[], str]) -> None:
        self.settings = settings
        self.new_uuid = new_uuid
        self.groups: dict[str, Group] = {}
        self.recorded: dict[str, GroupMetadataValue | None] = {}
        """The groups that the log knows, in the order in which it makes them: the last record of each; None of a simple
        group, which is known by its offsets only."""
        self.offsets = OffsetTable()
        self.transactions = Transactions()
        self.behind: set[int] = set()
        """The partitions of the cluster's of which it is not known what was written there while nobody read."""
        self.commits = ParkedCommits()
        self.committers: dict[Producer, dict[str, Committer]] = {}
        """By group, who has made its offsets pending, as far as this process knows: for the history."""
        self.deadlines: Deadlines[Deadline | CommitDeadline] = Deadlines()
        self.memory = GroupMemory(settings.group_memory_max_bytes)
        self.group_bytes = 0
        """This partition's share of what is used of `memory`."""

    def count(self, group: Group) -> None:
        """The group has changed, and may take more or less memory."""
        self._count(group.size - group.counted_size)
        group.counted_size = group.size

    def _count(self, more: int) -> None:
        self.group_bytes += more
        self.memory.used += more

    def has_room_for_group(self, group_id: str) -> bool:
        """Whether a group without members may be made."""
        return self.memory.has_room(group_size(group_id))

    def reserve(self, more: int) -> None:
        """Have so much of the memory counted as taken, or, below 0, as free again."""
        self._count(more)

    def share(self, memory: GroupMemory) -> None:
        """Have the limit on memory in common with other partitions."""
        self.memory.used -= self.group_bytes
        self.memory = memory
        memory.used += self.group_bytes

    def replay(self, key: Key, value: Value | None) -> None:
        """Apply a record. Raises TypeError when the value is not of the key's kind."""
        match key, value:
            case OffsetCommitKey(), OffsetCommitValue():
                self._commit(key, value)
            case OffsetCommitKey(), None:
                self.offsets.delete(key.group, key.topic, key.partition)
                if self.transactions.pending:
                    self.transactions.forget(key)
            case GroupMetadataKey(), GroupMetadataValue():
                self.restore_group(key.group, value)
            case GroupMetadataKey(), None:
                self._delete_group(key.group)
            case _:
                raise TypeError(f"{type(value).__name__} is no value for {type(key).__name__}")

    def replay_rows(self, group: str, topic: str, rows: CommitRows, commit_timestamp: int) -> None:
        """:meth:`replay` of the records of these offsets, without metadata and expire timestamp."""
        if group not in self.recorded:
            self._make_group(group)
        if self.transactions.pending:
            for partition, _, _ in rows.values():
                self.transactions.overtake(OffsetCommitKey(group, topic, partition))
        self.offsets.set_rows(group, topic, rows, commit_timestamp)

    def pending_offsets(self, group_id: str) -> Collection[tuple[str, int]]:
        """Every (topic, partition) for which a commit in a transaction is not settled."""
        return self.transactions.of_group(group_id)

    def is_unstable(self, key: OffsetCommitKey) -> bool:
        """Whether a commit in a transaction of that offset is not settled, or is on its way."""
        return key in self.transactions or key in self.commits

    def replay_pending(
        self, producer: Producer, position: Position | None, key: OffsetCommitKey, value: OffsetCommitValue
    ) -> None:
        """Apply a record of a transaction."""
        self._make_group(key.group)
        self.transactions.taken_over(position)
        self.transactions.add(producer, key, value, position)

    def replay_end(self, producer: Producer, position: Position | None, *, committed: bool) -> list[Settled]:
        """Apply a marker. Gives what it has put in force."""
        self.transactions.taken_over(position)
        settled = self.transactions.end(producer, committed=committed)
        for key, value in settled:
            self._make_group(key.group)
            self._set(key, value)
        return settled

    def _commit(self, key: OffsetCommitKey, value: OffsetCommitValue) -> None:
        self._make_group(key.group)
        if self.transactions.pending:
            self.transactions.overtake(key)
        self._set(key, value)

    def _make_group(self, group_id: str) -> None:
        # Offsets of a group without a record of its own make a simple group: Empty, without a protocol type.
        if group_id not in self.recorded:
            self.restore_group(group_id, None)

    def _set(self, key: OffsetCommitKey, value: OffsetCommitValue) -> None:
        self.offsets.set(
            key.group,
            key.topic,
            key.partition,
            CommittedOffset(
                value.offset, value.leader_epoch, value.metadata, value.commit_timestamp, value.expire_timestamp
            ),
        )

    def restore_group(self, group_id: str, value: GroupMetadataValue | None) -> None:
        """Make the group what its last record says; None where there is none, and only offsets make the group."""
        self.recorded[group_id] = value
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = Group(group_id)
        if value is None:
            group.count(None)
            self.count(group)
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
        self.count(group)

    def _delete_group(self, group_id: str) -> None:
        self.recorded.pop(group_id, None)
        group = self.groups.pop(group_id, None)
        if group is None:
            return
        group.state = GroupState.DEAD
        self._count(-group.counted_size)
        for deadline in (group.join_deadline, group.sync_deadline):
            self.deadlines.cancel(deadline)
        for member in group.members.values():
            self.deadlines.cancel(member.session_deadline)
        for member_id in group.pending_joins:
            self.deadlines.cancel(Deadline(DeadlineKind.SESSION, group_id, member_id))
        # Deleting a group writes the tombstones of its offsets first. A tombstone of the group alone is written when
        # the group changes its protocol (KIP-848): its offsets live on and must go on being served.
        if self.offsets.has_offsets(group_id) or self.transactions.has_group(group_id):
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
