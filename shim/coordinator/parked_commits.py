"""TxnOffsetCommits that were checked and sent on to the cluster, and are not answered yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition
from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue
from shim.coordinator.outcome import Caller, Ticket

TopicPartition = tuple[str, int]

_UTF8_MAX: Final = 4  # bytes of a character


class Committer(NamedTuple):
    """Who commits, for the history."""

    caller: Caller
    generation_id: int
    member_id: str
    group_instance_id: str | None

    @property
    def size(self) -> int:
        """At most so many bytes does it take in a record of the history."""
        return _UTF8_MAX * sum(map(len, (*self.caller, self.member_id, self.group_instance_id or "")))


class ParkedCommit:
    """A commit that was sent on. ``errors``: what is known of each of its partitions; NONE in the end. ``room``: memory
    that is kept free for the group that it makes."""

    __slots__ = ("committer", "errors", "is_written", "request", "room", "sent_on", "ticket", "told")

    def __init__(
        self,
        ticket: Ticket,
        committer: Committer,
        request: TxnOffsetCommitRequest,
        sent_on: TxnOffsetCommitRequest,
        errors: dict[TopicPartition, int],
    ) -> None:
        self.ticket = ticket
        self.committer = committer
        self.request = request
        self.sent_on = sent_on
        self.errors = errors
        self.told = False
        self.is_written = False
        self.room = 0

    @property
    def keys(self) -> list[OffsetCommitKey]:
        """What it is about to make pending."""
        return [
            OffsetCommitKey(self.sent_on.group_id, topic.name, partition.partition_index)
            for topic in self.sent_on.topics
            for partition in topic.partitions
        ]

    def wrote(self, records: Mapping[OffsetCommitKey, OffsetCommitValue]) -> bool:
        """Whether that is what a batch with these records is."""
        wanted = dict(zip(self.keys, (p for topic in self.sent_on.topics for p in topic.partitions), strict=True))
        return all(key in wanted and _says(wanted[key], value) for key, value in records.items())


class ParkedCommits:
    """Those that were sent on and are not answered, by ticket."""

    def __init__(self) -> None:
        self._parked: dict[Ticket, ParkedCommit] = {}
        self._keys: Counter[OffsetCommitKey] = Counter()

    def park(self, parked: ParkedCommit) -> None:
        self._parked[parked.ticket] = parked
        self._keys.update(parked.keys)

    def get(self, ticket: Ticket) -> ParkedCommit | None:
        return self._parked.get(ticket)

    def take(self, ticket: Ticket) -> ParkedCommit | None:
        parked = self._parked.pop(ticket, None)
        if parked is not None:
            for key in parked.keys:
                self._keys[key] -= 1
                if not self._keys[key]:
                    del self._keys[key]
        return parked

    def __contains__(self, key: OffsetCommitKey) -> bool:
        return key in self._keys

    def __bool__(self) -> bool:
        return bool(self._parked)

    def tickets(self) -> list[Ticket]:
        return list(self._parked)

    def of(self, producer_id: int, producer_epoch: int, group: str) -> list[ParkedCommit]:
        """Those of a producer for the group that nothing has been read of."""
        return [
            parked
            for parked in self._parked.values()
            if not parked.is_written
            and (parked.sent_on.producer_id, parked.sent_on.producer_epoch) == (producer_id, producer_epoch)
            and parked.sent_on.group_id == group
        ]


def _says(partition: TxnOffsetCommitRequestPartition, value: OffsetCommitValue) -> bool:
    return (partition.committed_offset, partition.committed_metadata or "") == (value.offset, value.metadata)
