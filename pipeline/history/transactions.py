"""Offsets that were committed in transactions: those of committed ones alone, in force from their marker on."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from pipeline.history.errors import DamagedSegment, gone
from pipeline.history.offset_rows import Rows
from pipeline.history.scanning import Bad, Batches, scan
from protocol.own.position import Producer, position_of
from protocol.records.batch_layout import CONTROL, TRANSACTIONAL
from protocol.records.batches import (
    MAX_DECOMPRESSED_SIZE,
    BatchError,
    ControlRecordType,
    Record,
    control_record_type,
    read_header,
    records_of,
)

_EFFECTIVE: Final = "effective_timestamp"
_NO_PARTITION: Final = -1


class Transactions:
    """Of one partition, in the order of its log. What is pending is kept in memory, as in a coordinator."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._pending: dict[Producer, list[Rows]] = {}

    def sorted_out(self, batches: Batches, rows: Rows) -> Iterator[Rows]:
        """Of the rows of these batches those that are in force, and of earlier ones those that come into force now.

        Raises DamagedSegment for a marker that cannot be read.
        """
        attributes = batches.headers["attributes"]
        transactional = (attributes & TRANSACTIONAL) != 0
        if not transactional.any():
            yield rows
            return
        yield _chosen(rows, np.flatnonzero(~transactional[rows.batch]))
        for index in np.flatnonzero(transactional).tolist():
            if attributes[index] & CONTROL:
                yield from self._ended(batches, index)
                continue
            its = np.flatnonzero(rows.batch == index)
            if its.size:
                producer = _producer(batches, index, self._first(batches, index))
                self._pending.setdefault(producer, []).append(_chosen(rows, its))

    def ended_later(self, paths: Sequence[str]) -> Iterator[Rows]:
        """What comes into force by markers in later segments. What of them is damaged is not this one's to tell.

        Raises UnreadableLog for one that is gone: whoever reads it may have been there before.
        """
        for path in paths:
            if not self._pending:
                return
            self._path = path
            try:
                fd = os.open(path, os.O_RDONLY)
            except FileNotFoundError:
                raise gone(path) from None
            try:
                for found in scan(fd, os.fstat(fd).st_size):
                    if isinstance(found, Bad):
                        break
                    if isinstance(found, Batches):
                        both = CONTROL | TRANSACTIONAL
                        for index in np.flatnonzero((found.headers["attributes"] & both) == both).tolist():
                            yield from self._ended(found, index)
            finally:
                os.close(fd)

    def _ended(self, batches: Batches, index: int) -> Iterator[Rows]:
        marker = self._first(batches, index)
        if marker is None:
            return
        try:
            kind = control_record_type(marker)
        except BatchError as error:
            raise DamagedSegment(self._path, self._at(batches, index), f"a control batch: {error.reason}") from None
        if kind not in (ControlRecordType.COMMIT, ControlRecordType.ABORT):
            return
        pending = self._pending.pop(_producer(batches, index, marker), [])
        if kind == ControlRecordType.COMMIT:
            for rows in pending:
                yield _in_force(rows, marker.timestamp)

    def _first(self, batches: Batches, index: int) -> Record | None:
        start = batches.starts[index]
        try:
            records = records_of(batches.raw, start, read_header(batches.raw, start), MAX_DECOMPRESSED_SIZE)
        except BatchError as error:
            reason = f"{error.reason}, under a right CRC"
            raise DamagedSegment(self._path, self._at(batches, index), reason) from None
        return records[0] if records else None

    @staticmethod
    def _at(batches: Batches, index: int) -> int:
        return batches.position + batches.starts[index]


def _producer(batches: Batches, index: int, first: Record | None) -> Producer:
    """The shim's log says of which partition of the cluster's the transaction was taken over; a broker's does not."""
    position = None if first is None else position_of(first.headers)
    followed = _NO_PARTITION if position is None else position.partition
    return Producer(followed, int(batches.headers["producer_id"][index]))


def _chosen(rows: Rows, which: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Rows:
    taken = pa.array(which)
    return Rows({name: column.take(taken) for name, column in rows.columns.items()}, rows.batch[which])


def _in_force(rows: Rows, timestamp: int) -> Rows:
    columns = dict(rows.columns)
    if _EFFECTIVE in columns:
        columns[_EFFECTIVE] = pa.array(np.full(len(rows.batch), timestamp, np.int64))
    return rows._replace(columns=columns)
