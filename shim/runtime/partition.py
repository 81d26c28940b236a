"""One offsets partition as the runtime sees it, and what its coordinator has decided."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from protocol.errors import ErrorCode
from protocol.offsets_log import commit_runs, encode_key, encode_value
from protocol.own.history_log import encode_history
from protocol.own.history_runs import history_run
from protocol.own.position import position_header
from protocol.own.state_log import encode_state
from protocol.records.record_runs import Run
from shim.coordinator import GroupCoordinator, Outcome, RowsOfTopic, TransactionBatch, TransactionEnd
from shim.log import DroppingSet, EndOfTransaction, Runs, TransactionalSet
from shim.runtime.failing import Failing
from shim.runtime.flight import Batch, Record, RecordSet, Ticket

_new: Final[Any] = tuple.__new__  # it skips the constructors of named tuples


class Partition:
    """Of one number: its coordinator while there is one, and who waits for that."""

    __slots__ = (
        "_rebalances", "coordinator", "due", "failing", "is_admitted", "is_held", "is_ours", "last", "number", "served",
        "timer", "unavailable", "waiting", "was_forgotten",
    )  # fmt: skip

    def __init__(self, number: int) -> None:
        self.number = number
        # Whether this process is to serve it, and whether it may have it in the log, and has to give it up there.
        self.is_ours = self.is_held = self.was_forgotten = False
        # The one that was loaded, and the same for requests: they reach it from admit on.
        self.coordinator: GroupCoordinator | None = None
        self.served: GroupCoordinator | None = None
        self.is_admitted = False
        # The one that was there at the stop, as long as all that it has decided is in the log or on its way there.
        self.last: GroupCoordinator | None = None
        # What a request gets while it is not served; COORDINATOR_LOAD_IN_PROGRESS, too, between load and admit.
        self.unavailable = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        # Whom the coordinator has been asked for and has not answered: parked requests, and the one being decided.
        self.waiting: dict[object, Ticket] = {}
        self.timer: asyncio.TimerHandle | None = None
        self.due: int | None = None
        self.failing = Failing()
        self._rebalances = 0

    @property
    def why_not(self) -> ErrorCode:
        """NONE where it is served; otherwise what a request gets."""
        return self.unavailable if self.served is None else ErrorCode.NONE

    @property
    def is_to_be_loaded(self) -> bool:
        """Not where it is damaged, or another process has it: then somebody has to say that it is to be tried again."""
        its = self.coordinator, self.unavailable
        return self.is_ours and its == (None, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    @property
    def is_to_be_released(self) -> bool:
        return self.is_held and not self.is_ours

    @property
    def rebalances(self) -> int:
        """Of all coordinators that it has had."""
        return self._rebalances + (self.coordinator.rebalances if self.coordinator is not None else 0)

    def begin(self, coordinator: GroupCoordinator) -> None:
        """It was loaded."""
        self.coordinator = coordinator
        self.served = coordinator if self.is_admitted else None

    def admit(self) -> None:
        """Let requests reach the coordinator, and those that come after it."""
        self.is_admitted = True
        self.served = self.coordinator

    def retire(self, unavailable: ErrorCode) -> list[Ticket]:
        """Have no coordinator any more. Gives those who wait for it, for the caller to fail."""
        if self.coordinator is not None:
            self._rebalances += self.coordinator.rebalances
            self.coordinator.released()
        self.coordinator = self.served = None
        self.unavailable = unavailable
        if self.timer is not None:
            self.timer.cancel()
            self.timer = self.due = None
        waiting, self.waiting = self.waiting, {}
        return list(waiting.values())


class Decided(NamedTuple):
    """An outcome with which nothing can go wrong any more: its records encoded, its tickets known to wait."""

    batches: list[Batch]
    history: RecordSet
    answers: list[tuple[Ticket, Any]]
    state: Sequence[Record] = ()


def encoded(partition: Partition, outcome: Outcome) -> Decided:
    """Raises where the coordinator has decided what cannot be carried out; nothing has been told or written then."""
    answers = [(partition.waiting[asker], response) for asker, response in outcome.answers]
    if len(answers) > 1 and len({asker for asker, _ in answers}) < len(answers):
        raise RuntimeError("two answers to one request")
    if outcome.rows:
        return _rows(outcome.rows, answers)
    records = [(encode_key(key), None if value is None else encode_value(value)) for key, value in outcome.records]
    history: list[Record] = [encode_history(record) for record in outcome.history]
    if outcome.transaction is not None:
        return Decided([_transactional(outcome.transaction, records)], history, answers)
    state = [encode_state(record) for record in outcome.state]
    return Decided(_batches(records, outcome), history, answers, state)


def _rows(rows: Sequence[RowsOfTopic], answers: list[tuple[Ticket, Any]]) -> Decided:
    count = 0
    offsets: list[Run] = []
    history: list[Run] = []
    for group, topic, of_topic, now, who in rows:
        count += of_topic.size
        offsets += commit_runs(group, topic, of_topic, now)
        if who is not None:
            history.append(history_run(group, topic, of_topic, now, who))
    batch: Runs = _new(Runs, (offsets, count))
    made: Decided = _new(Decided, ([batch], _new(Runs, (history, len(history))) if history else [], answers, ()))
    return made


def _transactional(part: TransactionBatch | TransactionEnd, records: list[Record]) -> Batch:
    headers = (position_header(part.position),)
    if isinstance(part, TransactionBatch):
        return TransactionalSet(part.producer_id, part.producer_epoch, records, headers, part.begun)
    if records:
        raise RuntimeError("records beside the end of a transaction")
    of_producer = (part.producer_id, part.producer_epoch)
    return EndOfTransaction(*of_producer, part.committed, part.coordinator_epoch, headers, part.settled)


def _batches(records: list[Record], outcome: Outcome) -> list[Batch]:
    cuts, dropped = outcome.cuts, outcome.dropped
    if not cuts and not dropped:
        return [records] if records else []
    batches: list[Batch] = []
    for first, end in pairwise((0, *cuts, len(records))):
        of_these = dropped[bisect_left(dropped, (first,)) : bisect_left(dropped, (end,))]
        if of_these:
            batches.append(DroppingSet(records[first:end], [key for _, key in of_these]))
        elif first < end:
            batches.append(records[first:end])
    return batches
