"""TxnOffsetCommits that were checked and sent on to the cluster, and are not answered yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue
from protocol.own.history_log import Who
from protocol.own.position import Position
from protocol.topic_partition import Partition
from shim.coordinator.outcome import Asker
from shim.coordinator.state.group_memory import MemoryShare

_MOST_GIVEN_UP: Final = 10_000
"""So many producers and groups are told apart."""


class CommitDeadline(NamedTuple):
    """The key of the deadline of a parked commit."""

    asker: Asker


class ParkedCommit:
    """A commit that was sent on. ``committer``: for the history. ``errors``: what is known of each of its partitions;
    NONE in the end. ``room``: memory that is kept free for the group that it makes, until that is there.
    ``not_before``: its batch is behind that end of the cluster's log, where it had to be looked for.
    """

    __slots__ = ("asker", "committer", "errors", "is_written", "not_before", "request", "room", "sent_on", "told")

    def __init__(
        self,
        asker: Asker,
        committer: Who,
        request: TxnOffsetCommitRequest,
        sent_on: TxnOffsetCommitRequest,
        errors: dict[Partition, int],
        not_before: Position | None = None,
        room: int = 0,
    ) -> None:
        self.asker = asker
        self.committer = committer
        self.request = request
        self.sent_on = sent_on
        self.errors = errors
        self.not_before = not_before
        self.told = False
        self.is_written = False
        self.room = room

    @property
    def deadline(self) -> CommitDeadline:
        return CommitDeadline(self.asker)

    @property
    def keys(self) -> list[OffsetCommitKey]:
        """What it is about to make pending."""
        return [
            OffsetCommitKey(self.sent_on.group_id, topic.name, partition.partition_index)
            for topic in self.sent_on.topics
            for partition in topic.partitions
        ]

    def wrote(self, records: Mapping[OffsetCommitKey, OffsetCommitValue], position: Position) -> bool:
        """Whether that is what a batch with these records is, which ends at ``position``.

        Metadata is not looked at: of what is no UTF-8 the broker has written something else.
        """
        if self.not_before is not None and not self._may_stand(self.not_before, position):
            return False
        partitions = (partition for topic in self.sent_on.topics for partition in topic.partitions)
        wanted = {key: partition.committed_offset for key, partition in zip(self.keys, partitions, strict=True)}
        return all(wanted.get(key) == value.offset for key, value in records.items())

    @staticmethod
    def _may_stand(not_before: Position, position: Position) -> bool:
        return position.partition == not_before.partition and position.next_offset > not_before.next_offset


class ParkedCommits:
    """Those that were sent on and are not answered, by asker."""

    def __init__(self, memory: MemoryShare) -> None:
        self._memory = memory
        self._parked: dict[Asker, ParkedCommit] = {}
        self._keys: Counter[OffsetCommitKey] = Counter()
        self._given_up: set[tuple[int, str]] = set()
        self._any_given_up = False
        self.overdue = 0
        """So many had not been answered by the cluster, or not been read in its log, when their deadlines came up."""

    def park(self, parked: ParkedCommit) -> None:
        self._memory.take(parked.room)
        self._parked[parked.asker] = parked
        self._keys.update(parked.keys)

    def get(self, asker: Asker) -> ParkedCommit | None:
        return self._parked.get(asker)

    def take(self, asker: Asker) -> ParkedCommit | None:
        parked = self._parked.pop(asker, None)
        if parked is not None:
            self._memory.take(-parked.room)
            for key in parked.keys:
                self._keys[key] -= 1
                if not self._keys[key]:
                    del self._keys[key]
        return parked

    def __contains__(self, key: OffsetCommitKey) -> bool:
        return key in self._keys

    def __bool__(self) -> bool:
        return bool(self._parked)

    def has_group(self, group: str) -> bool:
        return any(parked.sent_on.group_id == group for parked in self._parked.values())

    def lost(self, producer_id: int) -> None:
        """What was read of that producer's is not in the cluster's log any more."""
        for parked in self._parked.values():
            if parked.sent_on.producer_id == producer_id:
                parked.is_written = False

    # -- those that were answered before they were read, and may have been written

    def give_up(self, parked: ParkedCommit) -> None:
        if len(self._given_up) < _MOST_GIVEN_UP:
            self._given_up.add(_whose(parked))
        else:
            self._any_given_up = True

    def read(self, parked: ParkedCommit) -> None:
        """Its batch was read, and has made its group. Where that batch is surely its own, all has been read that the
        producer had written for the group before.
        """
        parked.is_written = True
        self._memory.take(-parked.room)
        parked.room = 0
        if parked.not_before is not None:
            self._given_up.discard(_whose(parked))

    def was_given_up(self, producer_id: int, group: str) -> bool:
        """Whether a batch of that producer for the group may yet be read that nobody waits for."""
        return self._any_given_up or (producer_id, group) in self._given_up

    def of(self, producer_id: int, producer_epoch: int, group: str) -> list[ParkedCommit]:
        """Those of a producer for the group that nothing has been read of."""
        return [
            parked
            for parked in self._parked.values()
            if not parked.is_written
            and (parked.sent_on.producer_id, parked.sent_on.producer_epoch) == (producer_id, producer_epoch)
            and parked.sent_on.group_id == group
        ]


def _whose(parked: ParkedCommit) -> tuple[int, str]:
    return parked.sent_on.producer_id, parked.sent_on.group_id
