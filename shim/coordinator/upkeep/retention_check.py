"""The end of offsets not used for `offsets.retention.minutes`, and of groups without any (Kafka 4.3, KIP-211)."""

from collections.abc import Iterator
from typing import Final

from protocol.offsets_log import CommittedOffset, GroupMetadataKey, OffsetCommitKey
from shim.coordinator.decision import Decision
from shim.coordinator.outcome import NOBODY, Asker, Outcome, RetentionStep
from shim.coordinator.state.group import Group, GroupState
from shim.coordinator.state.partition_state import PartitionState
from shim.coordinator.upkeep.steps import AT_ONCE, DELETED, step

EXPIRED: Final = "it had expired (offsets.retention.minutes)"
"""The cause that the history has of it."""
_MINUTE_MS: Final = 60_000


class RetentionCheck:
    """One look at all groups and their offsets, in steps between which requests may be decided.

    Each step goes by what is there at its own time. A group whose offsets are so many that they take several may so
    lose some of those that have expired, and then be joined and keep the rest.
    """

    def __init__(self, state: PartitionState) -> None:
        self._state = state
        self._retention_ms = state.settings.offsets_retention_minutes * _MINUTE_MS
        self._decision = Decision(state, 0)
        self._offsets = self._groups = 0
        self._costs = self._look(list(state.groups))
        self.over = False

    def step(self, now: int, asker: Asker) -> Outcome:
        """The answer is a :class:`RetentionStep`."""
        self._decision = Decision(self._state, now)
        self._offsets = self._groups = 0
        self.over = not step(self._costs)
        self._decision.answer(asker, RetentionStep(self._offsets, self._groups, more=not self.over))
        return self._decision.outcome

    def _look(self, group_ids: list[str]) -> Iterator[int]:
        """Gives what each bit of work cost; the next one may belong to another step."""
        state = self._state
        for group_id in group_ids:
            if state.is_in_use_in_zookeeper(group_id):
                yield 1
                continue
            for topic in state.offsets.committed.topics(group_id):
                yield 1
                group = state.groups.get(group_id)
                if group is not None and self._may_have_expired(group, topic):
                    partitions = state.offsets.committed.partitions(group_id, topic)
                    for first in range(0, len(partitions), AT_ONCE):
                        yield self._delete_expired(group_id, topic, partitions[first : first + AT_ONCE])
            yield self._delete_unused_group(group_id)

    def _may_have_expired(self, group: Group, topic: str) -> bool:
        """False where no offset of the topic can have expired, as is soon said of most."""
        if not _may_expire(group, topic):
            return False
        since = _unused_since(group)
        return (
            since is None
            or self._decision.now - since >= self._retention_ms
            or self._state.offsets.committed.has_expire_timestamps(group.group_id, topic)
        )

    def _delete_expired(self, group_id: str, topic: str, partitions: list[int]) -> int:
        state, now = self._state, self._decision.now
        # Looked for anew: there may have been requests since the partitions were.
        group = state.groups.get(group_id)
        if group is None or not _may_expire(group, topic):
            return 1
        since = _unused_since(group)
        expired = [
            OffsetCommitKey(group_id, topic, partition)
            for partition in partitions
            if (committed := state.offsets.committed.get(group_id, topic, partition)) is not None
            and self._has_expired(committed, since, now, state.used_in_zookeeper_until(group_id))
        ]
        expired = [key for key in expired if not state.is_unstable(key)]
        for key in expired:
            self._decision.delete(key, EXPIRED, NOBODY)
        self._offsets += len(expired)
        return len(partitions) + DELETED * len(expired)

    def _has_expired(self, committed: CommittedOffset, since: int | None, now: int, used_until: int) -> bool:
        """``used_until``: by consumers of whom nothing is heard here."""
        if committed.expire_timestamp != -1:  # of a client that said how long, up to OffsetCommit v4
            return now >= committed.expire_timestamp
        # A broker lets what is committed for a group without members go by when it became empty: be it a minute ago.
        last = committed.commit_timestamp if since is None else max(committed.commit_timestamp, since)
        return now - max(last, used_until) >= self._retention_ms

    def _delete_unused_group(self, group_id: str) -> int:
        state = self._state
        group = state.groups.get(group_id)
        if group is None or group.state is not GroupState.EMPTY:
            return 1
        if state.offsets.has_group(group_id):
            return 1
        self._decision.write(GroupMetadataKey(group_id), None)
        self._decision.mark_served(group_id)
        self._groups += 1
        return DELETED


def _may_expire(group: Group, topic: str) -> bool:
    """Offsets expire of groups without members, and of consumers that are known not to read the topic (any more).

    While consumers rebalance, and of other groups with members, none does.
    """
    if group.protocol_type is None or group.state is GroupState.EMPTY:
        return True
    return (
        group.state is GroupState.STABLE and group.subscribed_topics is not None and not group.is_subscribed_to(topic)
    )


def _unused_since(group: Group) -> int | None:
    """Since when nobody is in the group; None when that says nothing: in groups that have no members by nature, or
    still have some, or of which an old broker has recorded no time. What is committed later is used from then on.
    """
    if group.protocol_type is None or group.state is not GroupState.EMPTY or group.state_timestamp == -1:
        return None
    return group.state_timestamp
