"""One write of the log, and everything that waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol, TypeAlias

from protocol.errors import ErrorCode
from protocol.own.record_sets import DroppingSet, EndOfTransaction, Runs, TransactionalSet
from shim.coordinator import RowsOfTopic


class Ticket(Protocol):
    """Whoever sent a request to the coordinator and waits for its answer.

    It is told once, by one of these. Neither may raise: whoever tells one has others to tell too.
    """

    def answer(self, response: Any) -> None: ...

    def fail(self, error: ErrorCode) -> None: ...


Record = tuple[bytes, bytes | None]
RecordSet = list[Record] | Runs
Batch = RecordSet | DroppingSet | TransactionalSet | EndOfTransaction
"""One decision's records, plain or in a transaction, or the end of a transaction."""


SET_BYTES: Final = 16 << 20
"""Of keys and values in one record set of the shim's own state."""

History: TypeAlias = Sequence[bytes] | Sequence[RowsOfTopic]
"""One decision's records of the history, each right by itself: from behind their offset delta on, or what is made into
such when it is written (:func:`protocol.own.history_runs.history_of`), then that of all decisions at once."""


class PartitionRecords:
    """What is to be written to one partition: record sets of offsets, one for each decision, and of the shim's own
    state."""

    __slots__ = ("count", "offsets", "state")

    def __init__(self) -> None:
        self.offsets: list[Batch] = []
        self.state: list[RecordSet] = []
        self.count = 0
        """Records of the offsets."""

    def add(self, offsets: Batch) -> None:
        self.offsets.append(offsets)
        if isinstance(offsets, list):
            self.count += len(offsets)
        elif isinstance(offsets, Runs):
            self.count += offsets.total
        else:
            self.count += 1 if isinstance(offsets, EndOfTransaction) else len(offsets.records)

    def add_state(self, records: RecordSet) -> None:
        assert isinstance(records, list)
        self.state += _divided(records)


def _divided(records: list[Record]) -> Iterator[list[Record]]:
    """What a transaction has to say, or a group that is deleted, which has no bound, in sets that the log takes: each
    note of many is right by itself."""
    first = size = 0
    for at, (key, value) in enumerate(records):
        more = len(key) + len(value or b"")
        if at > first and size + more > SET_BYTES:
            yield records[first:at]
            first, size = at, 0
        size += more
    if records:
        yield records[first:]


class Flight:
    """Records of all partitions that become durable together, and the answers held until they are.

    A partition's answers leave in the order in which they were decided. After ``offsets.commit.timeout.ms`` they are
    answered COORDINATOR_NOT_AVAILABLE, as the broker does; the records stay in flight, their outcome unknown.
    """

    __slots__ = ("_answers", "_timer", "history", "history_numbers", "over", "records", "timed_out")

    def __init__(self) -> None:
        self.records: dict[int, PartitionRecords] = {}
        self.history: list[bytes | RowsOfTopic] = []
        """Of all decisions, in their order."""
        self.history_numbers: list[int] = []
        """Of each of these its partition."""
        self.timed_out = False
        self.over = asyncio.Event()
        """Set when the log has let go of the records, written or not."""
        self._answers: dict[int, list[tuple[Ticket, Any]]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def append(self, partition: int, records: Batch, history: History, timeout_seconds: float) -> None:
        """``records`` are one decision's: they are recovered whole or not at all."""
        self.begin(partition, timeout_seconds).add(records)
        self.history += history
        self.history_numbers += [partition] * len(history)

    def append_state(self, partition: int, records: RecordSet, timeout_seconds: float) -> None:
        self.begin(partition, timeout_seconds).add_state(records)

    def begin(self, partition: int, timeout_seconds: float) -> PartitionRecords:
        """The partition's answers wait for this flight from here on, also where it has nothing to write."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(timeout_seconds, self._time_out)
        of_partition = self.records.get(partition)
        if of_partition is None:
            of_partition = self.records[partition] = PartitionRecords()
        return of_partition

    def hold(self, partition: int, ticket: Ticket, response: Any) -> None:
        if self.timed_out:
            ticket.fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        else:
            self._answers.setdefault(partition, []).append((ticket, response))

    def landed(self, partition: int) -> None:
        """The partition's records are durable."""
        for ticket, response in self._answers.pop(partition, ()):
            ticket.answer(response)

    def lost(self, partition: int) -> list[Ticket]:
        """The partition's records may or may not be on disk; what was not written yet will not be.

        Gives the tickets that were held for them, for the caller to fail.
        """
        self.records.pop(partition, None)
        self.drop_history(partition)
        if not self.records:
            # Nothing is waited for any more: the time-out begins with what is appended next.
            self._stop_timer()
            self.timed_out = False
        return [ticket for ticket, _ in self._answers.pop(partition, ())]

    def drop_history(self, partition: int) -> None:
        """None of the partition is written. Others may go on with the lists that were there."""
        if partition in self.history_numbers:
            left = [(of, its) for of, its in zip(self.history_numbers, self.history, strict=True) if of != partition]
            self.history_numbers, self.history = [of for of, _ in left], [its for _, its in left]

    def close(self) -> None:
        """The log has let go of the records."""
        self._stop_timer()
        self.over.set()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_out(self) -> None:
        self.timed_out = True
        for partition in list(self._answers):
            for ticket, _ in self._answers.pop(partition, ()):
                ticket.fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)
