"""What is asked of an offsets partition: answers that decide nothing, as of the latest outcome, durable or not."""

from collections import Counter
from collections.abc import KeysView, Mapping, Sequence, Set

from protocol.messages.describe_groups import DescribedGroup
from protocol.messages.list_groups import ListedGroup
from protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from protocol.own.position import Position, Producer
from protocol.own.state_log import GroupHandsValue, Hands, Step, WrittenValue
from shim.coordinator.replayed import ReplayedPartition
from shim.coordinator.requests import listing
from shim.coordinator.requests.listing import Generation, Presence
from shim.coordinator.requests.offset_fetch import offset_fetch
from shim.coordinator.state.overruled import Overruled

_OLD_DESCRIPTION = 5
"""The newest version of DescribeGroups to which a group that there is not is no error."""


class NotServed(Exception):
    """What was asked is about a group that is not the shim's to decide about, or not now."""


class ReadablePartition(ReplayedPartition):
    """What its log has made of it, for whoever asks."""

    def offset_fetch(
        self, request: OffsetFetchRequestGroup, *, require_stable: bool = False
    ) -> OffsetFetchResponseGroup:
        """The offsets of one group."""
        self._check_served(request.group_id)
        return offset_fetch(self._state, request, require_stable=require_stable)

    def describe_group(self, group_id: str, version: int) -> DescribedGroup:
        """One group of a DescribeGroups request of that version, authorized operations left out."""
        self._check_served(group_id)
        return listing.describe_group(self._state.groups, group_id, version)

    def list_groups(
        self, states_filter: Sequence[str] = (), types_filter: Sequence[str] = ()
    ) -> tuple[ListedGroup, ...]:
        """The groups that pass both filters of a ListGroups request."""
        return listing.list_groups(self._state.groups.values(), states_filter, types_filter)

    def group_ids(self) -> KeysView[str]:
        """The groups that there are, in whatever state."""
        return self._state.groups.keys()

    def topics(self) -> set[str]:
        """Those for which there are offsets, also of transactions that have not ended."""
        return self._state.offsets.topics()

    def _check_served(self, group_id: str) -> None:
        if group_id in self._state.closed:
            raise NotServed(group_id)

    # -- of a group that is closed, too

    def own_offsets(self, group_id: str) -> OffsetFetchResponseGroup:
        """All that are committed."""
        return offset_fetch(self._state, OffsetFetchRequestGroup(group_id, topics=None))

    def commit_times(self, group_id: str) -> dict[tuple[str, int], int]:
        """Of all that are committed, by topic and partition, the commit timestamps (ms since the epoch)."""
        return {
            (topic, at): each.commit_timestamp for topic, at, each in self._state.offsets.committed.of_group(group_id)
        }

    def own_description(self, group_id: str) -> DescribedGroup:
        """As :meth:`describe_group`."""
        return listing.describe_group(self._state.groups, group_id, _OLD_DESCRIPTION)

    def generation(self, group_id: str) -> Generation | None:
        """None where there is no such group."""
        group = self._state.groups.get(group_id)
        return None if group is None else listing.generation(group, self._state.deadlines)

    def in_state_since(self, group_id: str) -> int | None:
        """Milliseconds since the epoch; None where there is no such group, and where nobody knows."""
        group = self._state.groups.get(group_id)
        return None if group is None or group.state_timestamp < 0 else group.state_timestamp

    def presences(self, group_id: str) -> list[Presence]:
        """Of its members; none where there is no such group."""
        group = self._state.groups.get(group_id)
        return [] if group is None else listing.presences(group, self._state.deadlines)

    # -- in whose hands groups are, and where else offsets are kept

    def hands_of(self, group_id: str) -> Hands | None:
        """None where it is still to be found out."""
        return self._state.hands_of(group_id)

    def hands(self) -> Mapping[str, GroupHandsValue]:
        """Of the groups of which the log says so, those that are deleted included."""
        return self._state.hands

    def step_of(self, group_id: str) -> Step:
        """Of a group that is served."""
        return self._state.step_of(group_id)

    def has_stores(self, group_id: str) -> bool:
        """Whether the group is served, and its offsets are in another place beside the log, too."""
        return group_id in self._state.with_stores

    def from_zookeeper(self, group_id: str) -> bool:
        """Whether the group's offsets were in ZooKeeper at first."""
        return self._state.from_zookeeper(group_id)

    def written(self, group_id: str) -> Mapping[tuple[str, int], WrittenValue]:
        """By topic and partition, what ZooKeeper has by the shim's hand, or is about to have."""
        return self._state.written.get(group_id, {})

    # -- transactions

    def producers_in_transaction(self) -> set[int]:
        """Of transactions that have not ended, with offsets of groups that are served: these came through the shim."""
        return {producer.producer_id for producer in self._state.offsets.transactions.pending}

    def has_pending(self, group_id: str) -> bool:
        """Whether a transaction that has not ended may yet change its offsets."""
        return self._state.is_in_transaction(group_id)

    def pending_offsets(self, group_id: str) -> Set[tuple[str, int, int]]:
        """Every (topic, partition, offset) that such a transaction may put in force."""
        return self._state.offsets.transactions.offsets_of(group_id)

    def overruled(self, group_id: str) -> Mapping[tuple[str, int], Overruled]:
        """By topic and partition, what such a transaction had, and a later commit or deletion here has overruled: so
        long as nobody has said that the cluster has that, too."""
        return self._state.offsets.overruled.of(group_id)

    def was_given_up(self, producer_id: int, group_id: str) -> bool:
        """Whether a batch of that producer for the group may yet be read that was written for another request."""
        return self._state.commits.was_given_up(producer_id, group_id)

    def left_open(self) -> list[Producer]:
        """Whose transactions the log has not ended, though all that was pending of them was deleted."""
        return self._state.offsets.transactions.left_open()

    @property
    def followed(self) -> Mapping[int, Position]:
        """How far each partition of the cluster's `__consumer_offsets` has been taken over."""
        return self._state.offsets.transactions.positions

    @property
    def is_behind(self) -> bool:
        """Whether there is a partition that it has not caught up with yet."""
        return bool(self._state.behind)

    # -- for whoever measures

    @property
    def rebalances(self) -> int:
        """New generations of its groups, since it was made."""
        return self._state.rebalances

    def rebalancing_since(self) -> int | None:
        """Since when that group rebalances which does so for longest, in milliseconds since the epoch; None where none
        does. One that is Stable does, too, until all its members have their assignments."""
        served = (group for name, group in self._state.groups.items() if name not in self._state.closed)
        return min((group.rebalancing_since for group in served if group.is_rebalancing), default=None)

    def count_states(self) -> Counter[str]:
        """How many groups are in each state, by the names that ListGroups shows."""
        served = (group for name, group in self._state.groups.items() if name not in self._state.closed)
        return Counter(group.state.value for group in served)

    def count_members(self) -> int:
        """Of all groups."""
        return sum(len(group.members) for name, group in self._state.groups.items() if name not in self._state.closed)

    def count_steps(self) -> Counter[Step | None]:
        """How many groups are at each step, those that were deleted among them; None of those that are passed through
        to the cluster."""
        state = self._state
        counts = Counter(Step(word.step) if word.hands == Hands.SERVED else None for word in state.hands.values())
        counts[Step.KAFKA] += sum(name not in state.hands for name in state.groups)
        return counts

    @property
    def offset_count(self) -> int:
        """How many offsets there are, of all groups."""
        return len(self._state.offsets.committed)

    @property
    def overdue_commits(self) -> int:
        """How many were answered COORDINATOR_NOT_AVAILABLE as the cluster's answer, or their batch, came too late."""
        return self._state.commits.overdue

    @property
    def group_bytes(self) -> int:
        """What the groups take in memory, as the limit counts it."""
        return self._state.memory.used
