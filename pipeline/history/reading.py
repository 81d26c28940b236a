"""One segment as Arrow batches: what a task of Spark does. Nothing of Spark is needed for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from pipeline.history.errors import DamagedSegment, gone, replaced
from pipeline.history.framing import Framed, NotAtOnce, framed, framed_messages, part_of
from pipeline.history.history_rows import history_rows
from pipeline.history.offset_rows import Rows, offset_rows
from pipeline.history.resuming import next_sound
from pipeline.history.scanning import Bad, Batches, Messages, scan
from pipeline.history.schemas import HISTORY, OFFSETS, SEGMENTS, arrow_schema, column
from pipeline.history.segments import Segment, end_offset
from pipeline.history.transactions import Transactions
from protocol.errors import DecodeError
from protocol.own.history_log import HISTORY_TOPIC

_PARTITION: Final = "log_partition"


class Question(NamedTuple):
    """What is asked of each segment: one of the kinds of :mod:`pipeline.history.schemas`, these columns of it, these
    groups alone (None: all), and whether to read on behind damage."""

    what: str
    names: tuple[str, ...]
    groups: tuple[str, ...] | None = None
    skip_damaged: bool = False


class Ended(NamedTuple):
    """Where reading a segment has come to its end: ``size`` and ``batches`` that were seen, the offset after the last
    one; ``torn_at``: where a torn write begins; ``damaged_at``: where the first damage begins. -1: nowhere."""

    size: int
    batches: int
    next_offset: int
    torn_at: int = -1
    damaged_at: int = -1
    reason: str | None = None


def read_segment(segment: Segment, question: Question) -> Iterator[pa.RecordBatch]:
    """Raises DamagedSegment, unless damage is to be skipped; UnreadableLog for a file that is gone, or another one by
    now; OSError."""
    schema = arrow_schema(question.what, question.names)
    with _opened(segment) as fd:
        if question.what == SEGMENTS:
            yield _described(segment, fd, schema)
            return
        for rows in _rows(segment, question, fd):
            count = len(rows.batch)
            if count:
                partition = pa.array(np.full(count, segment.partition, np.int32))
                arrays = [partition if name == _PARTITION else rows.columns[name] for name in question.names]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)


@contextmanager
def _opened(segment: Segment) -> Iterator[int]:
    try:
        fd = os.open(segment.path, os.O_RDONLY)
    except FileNotFoundError:
        raise gone(segment.path) from None
    try:
        # What compaction took out stands in segments that were not there yet when these were looked for.
        size = os.fstat(fd).st_size
        if size < segment.size or (size > segment.size and segment.next_base is not None):
            raise replaced(segment.path)
        yield fd
    finally:
        os.close(fd)


def _described(segment: Segment, fd: int, schema: pa.Schema) -> pa.RecordBatch:
    walk = _Walk(segment, fd, skip_damaged=True)
    decode = _decoder(Question(HISTORY if segment.topic == HISTORY_TOPIC else OFFSETS, ()))
    undecodable = []
    for found in walk:
        for _, error in _decoded(segment.path, found, decode):
            if isinstance(error, _Undecodable):
                undecodable.append(error)
    ended = walk.ended
    if undecodable and (ended.damaged_at < 0 or undecodable[0].position < ended.damaged_at):
        ended = ended._replace(damaged_at=undecodable[0].position, reason=undecodable[0].reason)
    row = {"topic": segment.topic, _PARTITION: segment.partition, "path": segment.path, **ended._asdict()}
    return pa.RecordBatch.from_arrays([column(SEGMENTS, name, [row[name]]) for name in schema.names], schema=schema)


def _rows(segment: Segment, question: Question, fd: int) -> Iterator[Rows]:
    decode = _decoder(question)
    transactions = Transactions(segment.path)
    for found in _Walk(segment, fd, skip_damaged=question.skip_damaged):
        for batches, each in _decoded(segment.path, found, decode):
            if isinstance(each, _Undecodable):
                if not question.skip_damaged:
                    raise DamagedSegment(segment.path, each.position, each.reason)
                continue
            for rows in each:
                if batches is None or question.what == HISTORY:
                    yield rows
                else:
                    yield from transactions.sorted_out(batches, rows)
    yield from transactions.ended_later(segment.later)


# --- decoding, and where it cannot be --------------------------------------------------------------------------------

Decode = Callable[[Framed], Iterator[Rows]]


class _Undecodable(NamedTuple):
    """What is sound, and says nothing that is known here."""

    position: int
    reason: str


Its = Iterator[Rows] | _Undecodable


def _decoder(question: Question) -> Decode:
    names = tuple(name for name in question.names if name != _PARTITION)
    groups = None if question.groups is None else pa.array(question.groups, pa.string())
    if question.what == HISTORY:
        return lambda records: history_rows(records, names, groups)
    return lambda records: iter((offset_rows(records, names, groups),))


def _decoded(path: str, found: Batches | Messages, decode: Decode) -> Iterator[tuple[Batches | None, Its]]:
    """The rows, with the batches that they are of (None: messages); batch by batch where it cannot be done at once."""
    try:
        yield _at_once(path, found, decode)
    except (NotAtOnce, DecodeError, DamagedSegment):
        for single in _singles(found):
            position = single.position + (single.starts[0] if isinstance(single, Batches) else 0)
            told: tuple[Batches | None, Its]
            try:
                told = _at_once(path, single, decode)
            except (DecodeError, DamagedSegment) as error:
                told = None, _Undecodable(position, error.reason)
            yield told


def _at_once(path: str, found: Batches | Messages, decode: Decode) -> tuple[Batches | None, Iterator[Rows]]:
    if isinstance(found, Messages):
        return None, decode(framed_messages(found.records))
    return found, decode(framed(path, found))


def _singles(found: Batches | Messages) -> Iterator[Batches | Messages]:
    if isinstance(found, Messages):
        return (Messages(found.position, [record]) for record in found.records)
    return (part_of(found, at, at + 1) for at in range(len(found.starts)))


# --- the bytes ------------------------------------------------------------------------------------------------------


class _Walk:
    """The sound parts of a segment. ``ended`` is told when all have been given."""

    def __init__(self, segment: Segment, fd: int, *, skip_damaged: bool) -> None:
        self._segment = segment
        self._fd = fd
        self._skip = skip_damaged
        self.ended = Ended(0, 0, segment.base_offset)

    def __iter__(self) -> Iterator[Batches | Messages]:
        segment, fd = self._segment, self._fd
        size = os.fstat(fd).st_size
        position: int | None = 0
        batches, due = 0, segment.base_offset
        torn_at = -1
        damage: tuple[int, str] | None = None
        while position is not None:
            bad = None
            for found in scan(fd, size, position, due):
                if isinstance(found, Bad):
                    bad = found
                    break
                batches += len(found.starts) if isinstance(found, Batches) else len(found.records)
                due = end_offset(found.headers[-1]) if isinstance(found, Batches) else found.records[-1].offset + 1
                yield found
            if bad is None:
                break
            sound = None if bad.intact else next_sound(fd, size, bad.position)
            if segment.next_base is None and not bad.intact and sound is None and not segment.path.endswith(".swap"):
                torn_at = bad.position
                break
            if not self._skip:
                raise DamagedSegment(segment.path, bad.position, bad.reason)
            damage = damage or (bad.position, bad.reason)
            # No CRC covers a base offset: which of two is wrong cannot be told, so what follows is taken as it is.
            position, due = next_sound(fd, size, bad.position + 1), 0
        if damage is None and (why := self._wrong_end(due)):
            if not self._skip:
                raise DamagedSegment(segment.path, size, why)
            damage = size, why
        self.ended = Ended(size, batches, due, torn_at, *(damage or (-1, None)))

    def _wrong_end(self, due: int) -> str | None:
        next_base, gapless = self._segment.next_base, self._segment.gapless
        if next_base is None or due == next_base or (due < next_base and not gapless):
            return None
        told = f"the segment ends here at offset {due}, the next one begins at {next_base}"
        # Where the cleaner has just made one of both, too.
        return f"{told}; read again, if the log is in use" if due > next_base else told
