"""What the shim's history log has of a group: who moved which offset when. It is read beside the commits that go on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final, NamedTuple

from protocol.errors import DecodeError
from protocol.own.history_log import ADOPTED, COMMITTED, DELETED, NOT_TOLD, HistoryRecord, decode_history
from protocol.partition import partition_for
from protocol.records.batches import Record
from shim.coordinator.upkeep.topic_deletion import TOPIC_DELETED
from shim.groups.words import Moved, Partition, Refused, Undone, Window
from shim.log import LogError
from shim.runtime.history_log import HistoryBatch, HistoryLog, NoHistory, Part, Take
from shim.upstream.errors import UpstreamError

_HELD_BYTES: Final = 1 << 20

_Told = Callable[[HistoryBatch, Record], Sequence[HistoryRecord]]
"""What a record says, whatever group it is of."""


class Then(NamedTuple):
    """``offsets``: by topic and partition, NO_OFFSET of what had been deleted. ``doubtful``: of these, what came next
    was adopted from the cluster, which may have had another one at that time. ``deleted``: what is known to have been
    deleted after that time. ``other_topics``: topics that were deleted after that time, so that one of that name is
    another one by now. ``moved``: what the last reset has set and is another offset by now, in words. ``begins``: the
    time of the first that the history has of the group, in milliseconds since the epoch; None where it has nothing.
    ``undoes``: the last reset, where that is what is asked for."""

    offsets: Mapping[Partition, int]
    doubtful: Set[Partition] = frozenset()
    deleted: Set[Partition] = frozenset()
    other_topics: Set[str] = frozenset()
    moved: Mapping[Partition, str] = {}
    begins: int | None = None
    undoes: Undone | None = None


class LastReset(NamedTuple):
    """``moves``: what it has set, or taken away; empty where none is known. ``deleted``: what has been deleted, or has
    expired, since."""

    moves: Sequence[Moved]
    deleted: Set[Partition]


class History:
    """For the event loop. Everything raises Refused where there is no history, or it cannot be read; :meth:`at` and
    :meth:`last_reset`, by which offsets are set, also where a record cannot."""

    def __init__(self, history_log: HistoryLog) -> None:
        self._log = history_log

    async def moves(self, group: str, window: Window) -> list[Moved] | None:
        """In the order of the log; None where there is nothing of the group at all, whatever the window."""
        moves = _Moves(window)
        await self._read(group, moves.add, _told)
        return moves.told

    async def end(self, group: str) -> int:
        """Where the log ends that has this group, with others: while it stays, nothing new is there."""
        with _refused():
            return await self._log.end(self._number(group))

    async def last_commit(self, group: str, since: int = 0) -> Moved | None:
        """The newest; None where there is none at or after the offset ``since`` of that log."""
        number = self._number(group)
        last = _LastCommit(group)
        with _refused():
            for part in await self._log.parts(number, since):
                await self._log.read(number, part, last.take)
                if last.told is not None:
                    return last.told
        return None

    async def at(self, group: str, time_ms: int) -> Then:
        """What was last committed by then."""
        at = _At(time_ms)
        await self._read(group, at.add, _all_told)
        return at.told

    async def last_reset(self, group: str) -> LastReset:
        """That since the cluster has had the group, if it ever had."""
        last = _LastReset()
        await self._read(group, last.add, _all_told)
        return LastReset(last.moves, last.deleted)

    async def _read(self, group: str, add: Callable[[Iterable[HistoryRecord]], None], told: _Told) -> None:
        """All of it."""
        number = self._number(group)
        with _refused():
            if parts := await self._log.parts(number):
                await self._log.read(number, Part(parts[-1].first, parts[0].end), _of(group, add, told))

    def _number(self, group: str) -> int:
        return partition_for(group, self._log.num_partitions)

    def close(self) -> None:
        """What is being read is given up by whoever waits for it."""
        self._log.close()


def utc(time_ms: int) -> str:
    """Of milliseconds since the epoch, to the second."""
    return f"{datetime.fromtimestamp(time_ms // 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"


@contextmanager
def _refused() -> Iterator[None]:
    try:
        yield
    except NoHistory as error:
        raise Refused("no history is kept (offsets.history.retention.minutes=0)") from error
    except (LogError, OSError, UpstreamError) as error:
        raise Refused(f"the history cannot be read now: {error}") from error


def _of(group: str, add: Callable[[Iterable[HistoryRecord]], None], told: _Told) -> Take:
    """What ``told`` has of one group."""
    name = _name(group)

    def records(batches: Iterable[HistoryBatch]) -> Iterator[HistoryRecord]:
        for batch in _naming(group, batches):
            for record in batch.records:
                if name in (record.key or b""):
                    for each in told(batch, record):
                        if each[0].group == group:
                            yield each

    return lambda batches: add(records(batches))


def _naming(group: str, batches: Iterable[HistoryBatch]) -> Iterator[HistoryBatch]:
    """Those that may have something of the group: they are decoded, others are not."""
    name = _name(group)
    return (batch for batch in batches if name in batch.raw)


def _name(group: str) -> bytes:
    """As every type of key has it."""
    return group.encode("utf-8", "surrogatepass")


def _told(_batch: HistoryBatch, record: Record) -> Sequence[HistoryRecord]:
    """Nothing where this version cannot read it: what else is there can be shown, and `log verify` tells damage."""
    try:
        return decode_history(record.key or b"", record.value) or ()
    except DecodeError:
        return ()


def _all_told(batch: HistoryBatch, record: Record) -> Sequence[HistoryRecord]:
    """Raises Refused where this version cannot read it: offsets that are to be set would be older than they were."""
    try:
        told = decode_history(record.key or b"", record.value)
    except DecodeError as error:
        raise Refused(f"{batch.where}: record {record.offset} of the history is damaged: {error}") from error
    if told is None:
        raise Refused(f"{batch.where}: record {record.offset} of the history is of another version of the shim")
    return told


def _move(record: HistoryRecord, before: int | None) -> Moved:
    key, value = record
    who = (value.client_id, value.client_host, value.principal, value.member_id, value.generation_id, value.cause)
    return Moved(key.time, key.topic, key.partition, before, value.offset, *who, value.deleted != COMMITTED)


class _LastCommit:
    """``told``: None where none came. The oldest comes first, and all but the newest would be decoded in vain: so what
    comes is held until there is some of it, and decoded from its end on."""

    def __init__(self, group: str) -> None:
        self._group = group
        self.told: Moved | None = None

    def take(self, batches: Iterable[HistoryBatch]) -> None:
        held: list[HistoryBatch] = []
        size = 0
        for batch in _naming(self._group, batches):
            held.append(batch)
            size += len(batch.raw)
            if size >= _HELD_BYTES:
                self._look_into(held)
                held, size = [], 0
        self._look_into(held)

    def _look_into(self, held: Sequence[HistoryBatch]) -> None:
        for batch in reversed(held):
            for record in reversed(batch.records):
                told = _told(batch, record)
                if (newest := next(filter(self._is_commit, reversed(told)), None)) is not None:
                    before = newest[1].replaced
                    self.told = _move(newest, None if before == NOT_TOLD else before)
                    return

    def _is_commit(self, record: HistoryRecord) -> bool:
        key, value = record
        return key.group == self._group and value.deleted == COMMITTED


class _Moves:
    """``told``: None where nothing came."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._topics = frozenset(window.topics)
        self._before: dict[Partition, int] = {}
        self._fitting: deque[Moved] = deque(maxlen=window.last)

    def add(self, records: Iterable[HistoryRecord]) -> None:
        before = self._before
        for key, value in records:
            at = (key.topic, key.partition)
            move = _move((key, value), before.get(at) if value.replaced == NOT_TOLD else value.replaced)
            before[at] = value.offset
            if self._fits(move):
                self._fitting.append(move)

    def _fits(self, move: Moved) -> bool:
        topics, partitions, window = self._topics, self._window.partitions, self._window
        return (
            (window.all_commits or move.is_move)
            and (window.since_ms is None or move.time_ms >= window.since_ms)
            and (not (topics or partitions) or move.topic in topics or (move.topic, move.partition) in partitions)
        )

    @property
    def told(self) -> list[Moved] | None:
        return list(self._fitting) if self._before else None


class _At:
    def __init__(self, time_ms: int) -> None:
        self._time_ms = time_ms
        self._begins: int | None = None
        self._offsets: dict[Partition, int] = {}
        self._later: dict[Partition, str] = {}
        self._deleted: set[Partition] = set()
        self._other_topics: set[str] = set()

    def add(self, records: Iterable[HistoryRecord]) -> None:
        for key, value in records:
            at = (key.topic, key.partition)
            if self._begins is None:
                self._begins = key.time
            if key.time <= self._time_ms:
                self._offsets[at] = value.offset
            else:
                self._later.setdefault(at, value.cause)
                if value.deleted != COMMITTED:
                    self._deleted.add(at)
                    if value.cause == TOPIC_DELETED:
                        self._other_topics.add(key.topic)

    @property
    def told(self) -> Then:
        doubtful = {at for at, cause in self._later.items() if cause == ADOPTED and at in self._offsets}
        return Then(self._offsets, doubtful, self._deleted, self._other_topics, begins=self._begins)


class _LastReset:
    """Resets say what they replace, and all offsets of one are of one time and cause."""

    def __init__(self) -> None:
        self.moves: list[Moved] = []
        self.deleted: set[Partition] = set()

    def add(self, records: Iterable[HistoryRecord]) -> None:
        for key, value in records:
            if value.deleted == DELETED:
                self.deleted.add((key.topic, key.partition))
            if value.cause == ADOPTED:
                self._forget()
            if value.replaced == NOT_TOLD or value.deleted == DELETED:
                continue
            if self.moves and (self.moves[0].time_ms, self.moves[0].cause) != (key.time, value.cause):
                self._forget()
            if not self.moves:
                self.deleted.clear()
            self.moves.append(_move((key, value), value.replaced))

    def _forget(self) -> None:
        self.moves = []
        self.deleted.clear()
