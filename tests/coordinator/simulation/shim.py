"""A shim with one offsets partition, as `shim.runtime` drives it: flights, held answers, failed writes, crashes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count, pairwise
from typing import Any, NamedTuple, Protocol

from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.offset_delete import OffsetDeleteRequest
from protocol.messages.offset_fetch import OffsetFetchRequestGroup
from protocol.messages.sync_group import SyncGroupRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from protocol.offsets_log import (
    GroupMetadataKey,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from protocol.own.position import Position
from shim.coordinator import (
    Caller,
    CoordinatorSettings,
    FollowedBatch,
    GroupCoordinator,
    GroupMemory,
    Outcome,
    Record,
    RetentionStep,
    StateDump,
    TopicDeletion,
    TopicDeletionStep,
    TransactionBatch,
    TransactionEnd,
)
from tests.coordinator.driving import CALLER, parked

from .events import Events

COMMIT_TIMEOUT_MS = 5_000
FOLLOWED = 3
"""The partition of the cluster's that has the groups."""

Followed = TxnOffsetCommitRequest | tuple[int, int, bool]
"""An entry of the cluster's log: a batch of offsets, or a marker: producer id, epoch, committed."""


class DeleteGroup(NamedTuple):
    group_id: str


class CheckRetention(NamedTuple):
    """One step of a look for expired offsets."""


class DeleteTopic(NamedTuple):
    """One step of a deletion of a topic's offsets."""

    deletion: TopicDeletion
    topic: str


class Fetch(NamedTuple):
    wanted: OffsetFetchRequestGroup
    require_stable: bool


Request = (
    JoinGroupRequest
    | SyncGroupRequest
    | HeartbeatRequest
    | LeaveGroupRequest
    | OffsetCommitRequest
    | OffsetDeleteRequest
    | TxnOffsetCommitRequest
    | DeleteGroup
    | CheckRetention
    | DeleteTopic
    | Fetch
)


class Call:
    """A request on its way; it is told once: the response, an error of the shim's, or None where the connection broke.

    It is the coordinator's ticket.
    """

    __slots__ = ("caller", "heard", "note", "request", "version", "who")

    def __init__(self, who: str, version: int, request: Request, heard: Callable[[Any], None]) -> None:
        self.who = who
        self.caller = Caller(who, "/10.0.0.1")
        self.version = version
        self.request = request
        self.heard = heard
        self.note: Any = None
        """The witness's, from the decision to the answer."""


class Batch(NamedTuple):
    """Of the log, as it is read back: records, or a marker."""

    records: tuple[Record, ...]
    transaction: TransactionBatch | TransactionEnd | None


class Observer(Protocol):
    """Who sees what the shim does. A cause of None is a deadline, or what was read in the cluster's log."""

    def asked(self, now: int, call: Call) -> None: ...

    def decided(self, now: int, cause: Call | None, outcome: Outcome) -> None: ...

    def fetched(self, now: int, call: Call, response: Any) -> None: ...

    def told(self, now: int, call: Call, response: Any) -> None: ...

    def loaded(self, now: int, log: list[Batch], coordinator: GroupCoordinator) -> None: ...


class Flight:
    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.held: list[tuple[Call, Any]] = []
        self.timed_out = False


class Faults(NamedTuple):
    """How often, in one flight, one answer or one message."""

    write_fails: float = 0.01
    disk_hangs: float = 0.002
    answer_lost: float = 0.01


class Shim:
    def __init__(
        self, events: Events, settings: CoordinatorSettings, observer: Observer, cluster: list[Followed]
    ) -> None:
        self.events = events
        self.settings = settings
        self.observer = observer
        self.cluster = cluster
        self.faults = Faults()
        self.log: list[Batch] = []
        self.coordinator: GroupCoordinator | None = None
        self.crashed = True
        self.memory = GroupMemory(settings.group_memory_max_bytes)
        self.waiting: dict[Call, None] = {}
        self.topics_in_doubt: set[str] = set()
        self.loads = 0
        self._numbers = count(1)
        self._next = Flight()
        self._flying: Flight | None = None
        self._life = 0
        self._clock_is_off_by = 0
        self._timer_at: int | None = None
        self._cursor = 0
        self._end_at_load = 0
        self._following = False
        self._dump: tuple[int, StateDump] | None = None
        self._dump_is_over = False
        self._snapshot: tuple[int, bytes] | None = None

    @property
    def now(self) -> int:
        """By the shim's clock. A restart may find another one."""
        return self.events.now + self._clock_is_off_by

    # -- requests

    def submit(self, call: Call) -> None:
        if self.crashed:
            self._tell(call, None)
        elif self.coordinator is None:
            heartbeat = isinstance(call.request, HeartbeatRequest)
            self._tell(call, None if heartbeat else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        elif isinstance(call.request, Fetch):
            response = self.coordinator.offset_fetch(call.request.wanted, require_stable=call.request.require_stable)
            self.observer.fetched(self.now, call, response)
            self._hold([(call, response)], self._flight())
        else:
            self.waiting[call] = None
            self.observer.asked(self.now, call)
            outcome = self._ask(self.coordinator, call)
            self._carry_out(call, outcome, hold=not isinstance(call.request, HeartbeatRequest))

    def _ask(self, coordinator: GroupCoordinator, call: Call) -> Outcome:
        now, caller, version = self.now, call.caller, call.version
        match call.request:
            case JoinGroupRequest() as request:
                return coordinator.join_group(now, caller, version, request, call)
            case SyncGroupRequest() as request:
                return coordinator.sync_group(now, caller, version, request, call)
            case HeartbeatRequest() as request:
                return coordinator.heartbeat(now, caller, version, request, call)
            case LeaveGroupRequest() as request:
                return coordinator.leave_group(now, caller, version, request, call)
            case OffsetCommitRequest() as request:
                return coordinator.offset_commit(now, caller, version, request, call)
            case OffsetDeleteRequest() as request:
                return coordinator.offset_delete(now, caller, version, request, call)
            case DeleteGroup(group_id):
                return coordinator.delete_group(now, CALLER, group_id, call)
            case CheckRetention():
                return coordinator.check_retention(now, call)
            case DeleteTopic(deletion):
                return deletion.step(now, call)
            case TxnOffsetCommitRequest() as request:
                given_up = coordinator.was_given_up(request.producer_id, request.group_id)
                not_before = Position(FOLLOWED, len(self.cluster)) if given_up else None
                outcome, sent_on = coordinator.txn_offset_commit(now, caller, request, call, not_before)
                if sent_on is not None:
                    self._send_on(call, sent_on)
                return outcome
        raise TypeError(call.request)

    def decide(self, decision: Callable[[GroupCoordinator, int], Outcome]) -> None:
        """What nobody has asked for."""
        if self.coordinator is not None:
            self._carry_out(None, decision(self.coordinator, self.now), hold=True)

    def _carry_out(self, cause: Call | None, outcome: Outcome, *, hold: bool) -> None:
        for call, _ in outcome.answers:
            assert isinstance(call, Call)
            assert call in self.waiting, f"an answer to nobody who waits: {call.request}"
            del self.waiting[call]
        self.observer.decided(self.now, cause, outcome)
        records = [_through_bytes(record) for record in outcome.records]
        ends = (0, *outcome.cuts, len(records))
        batches = [Batch(tuple(records[a:b]), outcome.transaction) for a, b in pairwise(ends) if a < b]
        if not records and outcome.transaction is not None:
            batches = [Batch((), outcome.transaction)]
        for batch in batches:
            self._next.batches.append(batch)
        if batches:
            self._begin_write()
        self._hold(outcome.answers, self._flight() if hold or batches else None)
        if self._dump is not None and not self._dump_is_over:
            self._dump_is_over = not self._dump[1].step()
        self._arm()

    def _flight(self) -> Flight | None:
        return self._next if self._next.batches else self._flying

    def _hold(self, answers: Any, flight: Flight | None) -> None:
        for call, response in answers:
            if flight is None:
                self._tell(call, response)
            elif flight.timed_out:
                self._tell(call, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            else:
                flight.held.append((call, response))

    def _tell(self, call: Call, response: Any) -> None:
        if response is not None:
            self.observer.told(self.now, call, response)
        if self.events.chance(self.faults.answer_lost):
            response = None
        self.events.within(20, lambda: call.heard(response))

    # -- the disk

    def _begin_write(self) -> None:
        if self._flying is not None:
            return
        flight, life = self._next, self._life
        self._flying, self._next = flight, Flight()
        if self.coordinator is not None and self._dump is None and self.events.chance(0.05):
            self._dump = len(self.log) + len(flight.batches), self.coordinator.begin_dump()
            self._dump_is_over = False
        takes = self.events.random.randint(1, 40)
        if self.events.chance(self.faults.disk_hangs):
            takes = 7_000
            self.events.after(COMMIT_TIMEOUT_MS, lambda: self._time_out(flight))
        fails = self.events.chance(self.faults.write_fails)
        self.events.after(takes, lambda: self._end_write(life, fails=fails))

    def _time_out(self, flight: Flight) -> None:
        flight.timed_out = True
        held, flight.held = flight.held, []
        for call, _ in held:
            self._tell(call, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _end_write(self, life: int, *, fails: bool) -> None:
        flight = self._flying
        if life != self._life or flight is None:
            return
        if fails:
            self._break_off(ErrorCode.NOT_COORDINATOR)
            broken_off = self._life
            self.events.within(500, lambda: self._load(broken_off))
            return
        self.log += flight.batches
        self._flying = None
        self._hold(flight.held, None)
        if self._dump is not None and self._dump_is_over:
            at, dump = self._dump
            self._snapshot, self._dump = (at, b"".join(dump.pieces())), None
        if self._next.batches:
            self._begin_write()

    # -- what goes wrong, and the way back

    def _break_off(self, error: ErrorCode | None) -> None:
        """What is being written may be on disk, or a part of it; what was to be written next is not."""
        flying = self._flying or Flight()
        self.log += flying.batches[: self.events.random.randint(0, len(flying.batches))]
        lost = [call for call, _ in (*flying.held, *self._next.held)] + list(self.waiting)
        if self.coordinator is not None:
            assert set(parked(self.coordinator)) == set(self.waiting), "who waits is not who is parked"
            self.coordinator.released()
            assert self.memory.used == 0
        self.coordinator = None
        self._next, self._flying, self._dump = Flight(), None, None
        self._life += 1
        self.waiting.clear()
        for call in lost:
            self._tell(call, error)

    def crash(self, away_ms: int) -> None:
        if not self.crashed:
            self._break_off(None)
            self.crashed = True
            self.start(away_ms)

    def start(self, after_ms: int) -> None:
        life = self._life

        def started() -> None:
            self.crashed = False
            self._load(life)

        self.events.after(after_ms, started)

    def _load(self, life: int) -> None:
        if life != self._life or self.crashed:
            return
        coordinator, begin = self.new_coordinator(), 0
        if self._snapshot is not None and self.events.chance(0.5):
            begin, dump = self._snapshot
            coordinator.restore(dump)
        for batch in self.log[begin:]:
            replay(coordinator, batch)
        self._clock_is_off_by = self.events.random.choice((0, 0, -4_000, 3_000))
        coordinator.loaded(self.now, self.memory)
        assert self.memory.used == coordinator.group_bytes
        self.coordinator = coordinator
        self.loads += 1
        self.observer.loaded(self.now, self.log, coordinator)
        self._timer_at = None
        self._arm()
        if FOLLOWED not in coordinator.followed:
            self.decide(lambda coordinator, now: coordinator.follow(now, Position(FOLLOWED, 0)))
        # Whoever follows may begin where it likes: what was taken over is not taken over again.
        self._cursor = max(0, coordinator.followed[FOLLOWED].next_offset - self.events.random.choice((0, 0, 4)))
        self._end_at_load = len(self.cluster)
        self._following = False
        self.follow()

    def new_coordinator(self) -> GroupCoordinator:
        return GroupCoordinator(self.settings, lambda: str(next(self._numbers)))

    # -- deadlines

    def _arm(self) -> None:
        due = self.coordinator.next_deadline() if self.coordinator is not None else None
        if due is None or (self._timer_at is not None and self._timer_at <= due):
            return
        self._timer_at = due
        life = self._life
        self.events.after(max(0, due - self.now), lambda: self._expire(life, due))

    def _expire(self, life: int, at: int) -> None:
        if life != self._life or self._timer_at != at:
            return
        self._timer_at = None
        self.decide(lambda coordinator, now: coordinator.expire(now))

    # -- the cluster's log

    def _send_on(self, call: Call, sent_on: TxnOffsetCommitRequest) -> None:
        events, life = self.events, self._life
        arrives = events.random.randint(0, 50)
        if events.chance(0.95):
            events.after(arrives, lambda: self.append_to_cluster(sent_on))
            error = ErrorCode.NONE
        else:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        told = [(topic.name, p.partition_index, int(error)) for topic in sent_on.topics for p in topic.partitions]

        def tell() -> None:
            if life == self._life and call in self.waiting:
                self.decide(lambda coordinator, now: coordinator.txn_offset_commit_told(now, call, told))

        if events.chance(0.97):
            events.after(arrives + events.random.randint(0, 50), tell)

    def append_to_cluster(self, entry: Followed) -> None:
        self.cluster.append(entry)
        self.follow()

    def follow(self) -> None:
        if not self._following:
            self._following = True
            life = self._life
            self.events.within(200, lambda: self._read(life))

    def _read(self, life: int) -> None:
        if life != self._life or self.coordinator is None:
            return
        self._following = False
        if self._cursor >= self._end_at_load:
            self.coordinator.caught_up(FOLLOWED)
        if self._cursor == len(self.cluster):
            return
        entry = self.cluster[self._cursor]
        self._cursor += 1
        position = Position(FOLLOWED, self._cursor)
        if isinstance(entry, TxnOffsetCommitRequest):
            offsets = [
                (
                    OffsetCommitKey(entry.group_id, topic.name, p.partition_index),
                    OffsetCommitValue(
                        p.committed_offset, p.committed_leader_epoch, p.committed_metadata or "", self.events.now
                    ),
                )
                for topic in entry.topics
                for p in topic.partitions
            ]
            batch = FollowedBatch(entry.producer_id, entry.producer_epoch, position, offsets)
            self.decide(lambda coordinator, now: coordinator.follow(now, batch))
        else:
            end = TransactionEnd(entry[0], entry[1], position, entry[2], 7)
            self.decide(lambda coordinator, now: coordinator.follow(now, end))
        self.follow()

    # -- chores

    def look_for_expired_offsets(self) -> None:
        def heard(response: Any) -> None:
            if isinstance(response, RetentionStep) and response.more:
                self.look_for_expired_offsets()

        self.submit(Call("retention", 0, CheckRetention(), heard))

    def delete_topic(self, topic: str) -> None:
        """As `shim.runtime.offsets_of_topics`: again from the beginning where it was broken off. Nobody commits for
        the topic meanwhile."""
        self.topics_in_doubt.add(topic)
        coordinator = self.coordinator
        if coordinator is None:
            self.events.after(1_000, lambda: self.delete_topic(topic))
            return
        deletion = coordinator.delete_topic_offsets(topic)

        def step() -> None:
            if coordinator is not self.coordinator:
                self.delete_topic(topic)
            else:
                self.submit(Call("topics", 0, DeleteTopic(deletion, topic), heard))

        def heard(response: Any) -> None:
            if not isinstance(response, TopicDeletionStep):
                self.events.after(1_000, lambda: self.delete_topic(topic))
            elif response.more:
                step()
            else:
                self.topics_in_doubt.discard(topic)

        step()


def _through_bytes(record: Record) -> Record:
    key = decode_key(encode_key(record[0]))
    assert isinstance(key, OffsetCommitKey | GroupMetadataKey)
    value: Any = None if record[1] is None else decode_value(key, encode_value(record[1]))
    return key, value


def replay(coordinator: GroupCoordinator, batch: Batch) -> None:
    """As `shim.runtime.replaying`."""
    transaction = batch.transaction
    for key, value in batch.records:
        if transaction is not None:
            assert isinstance(key, OffsetCommitKey)
            assert isinstance(value, OffsetCommitValue)
            coordinator.replay_pending(transaction.producer, transaction.position, key, value)
        else:
            coordinator.replay(key, value)
    if isinstance(transaction, TransactionEnd):
        coordinator.replay_end(transaction.producer, transaction.position, committed=transaction.committed)
