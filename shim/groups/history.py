"""What the shim's history log has of a group: who moved which offset when. It is read beside the commits that go on."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import NamedTuple, TypeVar

from protocol.errors import DecodeError
from protocol.own.history_log import ADOPTED, HISTORY_TOPIC, NOT_TOLD, HistoryRecord, decode_history
from protocol.partition import partition_for
from shim.groups.words import Moved, Partition, Refused, Window
from shim.log import CorruptLog, LogError, OffsetsLog
from shim.log.partition import PartitionLog

Read = TypeVar("Read")


class Then(NamedTuple):
    """``offsets``: by topic and partition. ``doubtful``: of these, what came next was adopted from the cluster, which
    may have had another one at that time."""

    offsets: Mapping[Partition, int]
    doubtful: Set[Partition]


class History:
    """For the event loop; the reading is done in a thread of its own, one question after the other. Everything raises
    Refused where there is no history, or it cannot be read."""

    def __init__(self, offsets_log: OffsetsLog) -> None:
        self._log = offsets_log
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="history")

    async def moves(self, group: str, window: Window) -> list[Moved] | None:
        """In the order of the log; None where there is nothing of the group at all, whatever the window."""
        return await self._read(group, lambda reading: _fitting(_moves(reading.all()), window))

    def end(self, group: str) -> int:
        """Where the log ends that has this group, with others: while it stays, nothing new is there."""
        try:
            return self._partition(group).log_end_offset
        except LogError as error:
            raise _not_now(error) from error

    async def last_commit(self, group: str, since: int = 0) -> Moved | None:
        """The newest; None where there is none at or after the offset ``since`` of that log."""
        return await self._read(group, lambda reading: _last_commit(reading, since))

    async def at(self, group: str, time_ms: int) -> Then:
        """What was last committed by then."""
        return await self._read(group, lambda reading: _at(reading.all(), time_ms))

    async def last_reset(self, group: str) -> list[Moved]:
        """What the last reset has set. Empty where none is known, nor any since the cluster has had the group."""
        return await self._read(group, lambda reading: _last_reset(reading.all()))

    async def _read(self, group: str, read: Callable[[_Reading], Read]) -> Read:
        given_up = threading.Event()

        def reading() -> Read:
            try:
                return read(_Reading(self._partition(group), group, given_up))
            except (CorruptLog, LogError, OSError) as error:
                raise _not_now(error) from error

        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, reading)
        finally:
            given_up.set()

    def _partition(self, group: str) -> PartitionLog:
        try:
            return self._log.partition_log(partition_for(group, self._log.num_partitions), topic=HISTORY_TOPIC)
        except ValueError as error:
            raise Refused("no history is kept (offsets.history.retention.minutes=0)") from error

    def close(self) -> None:
        """What is being read is given up by whoever waits for it."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def _not_now(error: Exception) -> Refused:
    return Refused(f"the history cannot be read now: {error}")


class _Reading:
    """Of one group's records those that this version can read. Damage is told by `log verify`; what else is there can
    be told."""

    def __init__(self, partition: PartitionLog, group: str, given_up: threading.Event) -> None:
        self._partition = partition
        self._group = group
        self._name = group.encode("utf-8", "surrogatepass")
        self._given_up = given_up

    def all(self) -> Iterator[HistoryRecord]:
        return self._between(0, None)

    def newest_segments_first(self, since: int) -> Iterator[Iterator[HistoryRecord]]:
        """None of them with what is before ``since`` alone."""
        closed = self._partition.closed_segments()
        yield self._between(max(since, closed[-1].next_offset if closed else 0), None)
        for segment in reversed(closed):
            if segment.next_offset <= since:
                return
            yield self._between(max(since, segment.base_offset), segment.next_offset)

    def _between(self, first: int, end: int | None) -> Iterator[HistoryRecord]:
        for batch in self._partition.read(first):
            if self._given_up.is_set():
                raise LogError("nobody waits for it any more")
            if end is not None and batch.header.base_offset >= end:
                return
            if self._name not in batch.raw:
                continue
            for record in batch.records:
                for told in _told(record.key, record.value):
                    if told[0].group == self._group:
                        yield told


def _told(key: bytes | None, value: bytes | None) -> Sequence[HistoryRecord]:
    try:
        return decode_history(key or b"", value) or ()
    except DecodeError:
        return ()


def _move(record: HistoryRecord, before: int | None) -> Moved:
    key, value = record
    who = (value.client_id, value.client_host, value.principal, value.member_id, value.generation_id, value.cause)
    return Moved(key.time, key.topic, key.partition, before, value.offset, *who)


def _moves(records: Iterable[HistoryRecord]) -> Iterator[Moved]:
    before: dict[Partition, int] = {}
    for key, value in records:
        at = (key.topic, key.partition)
        yield _move((key, value), before.get(at) if value.replaced == NOT_TOLD else value.replaced)
        before[at] = value.offset


def _fitting(moves: Iterator[Moved], window: Window) -> list[Moved] | None:
    first = next(moves, None)
    if first is None:
        return None
    topics, partitions = frozenset(window.topics), window.partitions
    fitting = (
        each
        for each in chain((first,), moves)
        if (window.all_commits or each.is_move)
        and (window.since_ms is None or each.time_ms >= window.since_ms)
        and (not (topics or partitions) or each.topic in topics or (each.topic, each.partition) in partitions)
    )
    return list(deque(fitting, window.last))


def _last_commit(reading: _Reading, since: int) -> Moved | None:
    for records in reading.newest_segments_first(since):
        if found := deque(records, 1):
            key, value = found[0]
            return _move((key, value), None if value.replaced == NOT_TOLD else value.replaced)
    return None


def _at(records: Iterable[HistoryRecord], time_ms: int) -> Then:
    offsets: dict[Partition, int] = {}
    later: dict[Partition, str] = {}
    for key, value in records:
        at = (key.topic, key.partition)
        if key.time <= time_ms:
            offsets[at] = value.offset
        else:
            later.setdefault(at, value.cause)
    return Then(offsets, {at for at, cause in later.items() if cause == ADOPTED and at in offsets})


def _last_reset(records: Iterable[HistoryRecord]) -> list[Moved]:
    """Resets say what they replace, and all offsets of one are of one time and cause."""
    found: list[Moved] = []
    for key, value in records:
        if value.cause == ADOPTED:
            found = []
        if value.replaced == NOT_TOLD:
            continue
        if found and (found[0].time_ms, found[0].cause) != (key.time, value.cause):
            found = []
        found.append(_move((key, value), value.replaced))
    return found
