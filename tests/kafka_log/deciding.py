"""A coordinator whose every decision goes to a topic, and to a log on disk beside it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from protocol.commit_rows import API
from protocol.messages.offset_commit import API as CODEC
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue
from protocol.own.position import Position, Producer
from protocol.own.state_log import decode_state
from shim.coordinator import (
    CoordinatorSettings,
    FollowedBatch,
    GroupCoordinator,
    LostTransaction,
    Outcome,
    Reset,
    TransactionEnd,
)
from shim.kafka_log.writing.translating import SET_BYTES, state_sets, topic_sets
from shim.runtime.encoding import encoded
from shim.runtime.flight import Batch, Record
from shim.runtime.partition import Partition
from tests.coordinator.driving import CALLER, Driven, new_coordinator
from tests.kafka_log.topic_partition import LocalLog, TopicPartition

Key = tuple[str, str, int]


class Deciding(Driven):
    def __init__(self, settings: CoordinatorSettings | None = None, most_bytes: int = SET_BYTES) -> None:
        super().__init__(settings)
        self.most_bytes = most_bytes
        self.partition = Partition(0)
        self.partition.waiting = defaultdict(lambda: object())  # type: ignore[arg-type, return-value]
        self.topic = TopicPartition()
        self.local = LocalLog()
        self.batches: list[Batch] = []
        self.state_records: list[Record] = []
        self.read_at: dict[int, Position] = {}
        self.in_cluster: dict[tuple[Producer, Key], bool] = {}
        """What transactions have pending there, and whether something has come behind it here."""

    def take(self, outcome: Outcome) -> None:
        super().take(outcome)
        if outcome.transaction is None:
            written = {tuple(key) for key, _ in outcome.records}
            for commit, topic, rows, *_ in outcome.rows:
                written |= {(commit.group_id, topic, number) for number, *_ in rows.values()}
            self.in_cluster = {each: its or each[1] in written for each, its in self.in_cluster.items()}
        batches, _, _, state, _ = encoded(self.partition.waiting, outcome)
        self.state_records += state
        for record_set in state_sets(state, self.most_bytes) if state else ():
            self.topic.append(record_set)
        for batch in batches:
            self.batches.append(batch)
            self.local.append(batch)
            for record_set in topic_sets(batch, self.most_bytes):
                self.topic.append(record_set)

    def overruled_in_cluster(self) -> set[Key]:
        """What it has to be told of, where nobody has."""
        return {key for (_, key), is_overruled in self.in_cluster.items() if is_overruled}

    def load(self, coordinator: GroupCoordinator) -> None:
        """Go on with that one."""
        again = new_coordinator(self.settings, self.numbers)
        again.restore(coordinator.dump())
        again._state.hands = coordinator._state.hands
        again._state.written = coordinator._state.written
        again._state.with_stores = coordinator._state.with_stores
        again._state.closed = coordinator._state.closed
        again.loaded(self.now)
        for followed in again.followed:
            again.caught_up(followed)
        self.coordinator = again
        self.read_at = dict(again.followed)

    def from_local(self) -> GroupCoordinator:
        coordinator = self.local.replayed()
        for key, value in self.state_records:
            coordinator.replay_state(*decode_state(key, value))
        return coordinator

    # -- requests

    def commit_rows(self, group: str, topic: str, partitions: Sequence[int], offset: int) -> None:
        """As it comes over the wire."""
        rows = tuple(OffsetCommitRequestPartition(partition, offset) for partition in partitions)
        request = OffsetCommitRequest(group, topics=(OffsetCommitRequestTopic(topic, partitions=rows),))
        _, parsed = API.parse_request(8, CODEC.request_frame(8, 1, "client", request), 4)
        self.take(self.coordinator.offset_commit(self.now, CALLER, 8, parsed, self.ticket()))

    # -- what is read in the cluster's log

    def begin(self, producer: int, *keys: Key, offset: int, followed: int = 3) -> None:
        """A batch of that producer's transaction."""
        records = [(OffsetCommitKey(*key), OffsetCommitValue(offset, commit_timestamp=self.now)) for key in keys]
        self.follow(FollowedBatch(producer, 0, self._next(followed), records))

    def end(self, producer: int, *, committed: bool, followed: int = 3) -> None:
        self.follow(TransactionEnd(producer, 0, self._next(followed), committed, 7))

    def follow(self, read: FollowedBatch | TransactionEnd | LostTransaction | Reset | Position) -> None:
        match read:
            case FollowedBatch():
                producer = Producer(read.position.partition, read.producer_id)
                self.in_cluster |= {(producer, (key.group, key.topic, key.partition)): False for key, _ in read.records}
            case TransactionEnd() | LostTransaction():
                its_keys = {key for producer, key in self.in_cluster if producer == read.producer}
                # What it puts in force there may overtake others', there as well as here.
                gone = {each for each in self.in_cluster if each[0] == read.producer or each[1] in its_keys}
                self.in_cluster = {each: its for each, its in self.in_cluster.items() if each not in gone}
        self.take(self.coordinator.follow(self.now, read))

    def _next(self, followed: int) -> Position:
        """Where the cluster's log is read up to next; its epoch has begun there every third time."""
        at = self.read_at.get(followed, Position(followed, 0, 0, 0, bytes([followed] * 16)))
        next_offset = at.next_offset + 1
        if next_offset % 3 == 0:
            at = at._replace(leader_epoch=at.leader_epoch + 1, epoch_offset=at.next_offset)
        self.read_at[followed] = at._replace(next_offset=next_offset)
        return self.read_at[followed]


def known(coordinator: GroupCoordinator, *, compacted: bool = True) -> dict[str, Any]:
    """What the coordinator's dump says, and its state beside that, but for the order of what has none.

    Not in it are transactions of which nothing is pending. And where the log may have been compacted, neither are
    groups of which nothing is left: a log of either kind forgets them.
    """
    again = new_coordinator()
    again.restore(coordinator.dump())
    state = again._state
    offsets, transactions = state.offsets, state.offsets.transactions
    pending: dict[OffsetCommitKey, list[Any]] = {}
    for producer, of_producer in transactions.pending.items():
        for key, each in of_producer.items():
            pending.setdefault(key, []).append((each.value is not None, each.written, producer, each.value))
    return {
        "groups": {
            name: value
            for name, value in state.recorded.items()
            if not compacted or value is not None or offsets.has_group(name)
        },
        "offsets": {name: sorted(offsets.committed.of_group(name)) for name in offsets.committed.groups()},
        "positions": transactions.positions,
        # What is overtaken has no order.
        "in order": {key: [(its[2], its[3]) for its in sorted(each) if its[0]] for key, each in pending.items()},
        "overtaken": {key: {its[2] for its in each if not its[0]} for key, each in pending.items()},
        "begun": {producer: transactions.begun(producer) for producer in transactions.pending},
        "hands": coordinator._state.hands,
        "written": coordinator._state.written,
        "with_stores": coordinator._state.with_stores,
    }
