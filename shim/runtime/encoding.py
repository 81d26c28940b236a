"""What a coordinator has decided, as it goes to the log: its records encoded, its answers beside those who wait."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from protocol.offsets_log import commit_runs, encode_key, encode_value
from protocol.own.history_log import encode_history
from protocol.own.position import position_header
from protocol.own.record_sets import DroppingSet, EndOfTransaction, Runs, TransactionalSet
from protocol.own.state_log import encode_state
from protocol.records.record_runs import Run, run_of
from shim.coordinator import GroupEvent, Outcome, RowsOfTopic, TransactionBatch, TransactionEnd
from shim.runtime.flight import Batch, History, Record, Ticket

_new: Final[Any] = tuple.__new__  # it skips the constructors of named tuples


class Decided(NamedTuple):
    """An outcome with which nothing can go wrong any more: its records encoded, its tickets known to wait.

    Not the history of plain commits, but that always can be: their names were decoded and are short, and a principal is
    text (security/principals.py). An error in that would end the log.
    """

    batches: list[Batch]
    history: History
    answers: list[tuple[Ticket, Any]]
    state: Sequence[Record] = ()
    events: Sequence[GroupEvent] = ()


def encoded(waiting: Mapping[object, Ticket], outcome: Outcome) -> Decided:
    """``waiting``: who waits for the partition's coordinator. Raises where it has decided what cannot be carried out;
    nothing has been told or written then."""
    answers = [(waiting[asker], response) for asker, response in outcome.answers]
    if len(answers) > 1 and len({asker for asker, _ in answers}) < len(answers):
        raise RuntimeError("two answers to one request")
    state = [encode_state(record) for record in outcome.state] if outcome.state else ()
    if outcome.rows:
        return _rows(outcome.rows, answers, state, outcome.events)
    records = [(encode_key(key), None if value is None else encode_value(value)) for key, value in outcome.records]
    history = [run_of(*encode_history(record)) for record in outcome.history]
    if outcome.transaction is not None:
        return Decided([_transactional(outcome.transaction, records)], history, answers, state, outcome.events)
    return Decided(_batches(records, outcome), history, answers, state, outcome.events)


def _rows(
    rows: Sequence[RowsOfTopic],
    answers: list[tuple[Ticket, Any]],
    state: Sequence[Record],
    events: Sequence[GroupEvent],
) -> Decided:
    count = 0
    offsets: list[Run] = []
    history: History = rows if rows[0].caller is not None else ()  # they are of one decision
    for request, topic, of_topic, now, caller in rows:
        left = of_topic
        if caller is not None:
            # What is overwritten by the same decision nobody is ever served. The history has it.
            left = of_topic.last or of_topic
        count += left.size
        offsets += commit_runs(request.group_id, topic, left, now)
    batch: Runs = _new(Runs, (offsets, count))
    made: Decided = _new(Decided, ([batch], history, answers, state, events))
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
