"""The records of a batch in columns, without an object for each; :mod:`protocol.records.column_reading` reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import compress, pairwise
from typing import final, overload

from protocol.records.batch_layout import BatchHeader, Record
from protocol.records.batch_reading import records_of


@final
class RecordColumns(Sequence[Record]):
    """The records of one batch, in columns of one length, and a sequence of records for those who do not mind (which
    reads the batch anew each time). Ask for its type: whether it is an instance takes longer, of an abstract class.

    ``keys``, ``offsets``: of each record, the offsets absolute and rising. ``has_tombstones``: whether any of them has
    no value. ``timestamp``: of all of them, milliseconds since the epoch.
    """

    __slots__ = ("_buf", "_header", "_pos", "_starts", "has_tombstones", "keys", "offsets", "timestamp")

    def __init__(self, buf: bytes, pos: int, header: BatchHeader, timestamp: int) -> None:
        """To be filled. ``buf``, ``pos``: the batch, and where it begins."""
        self._buf = buf
        self._pos = pos
        self._header = header
        self._starts: list[int] = []
        self.keys: list[bytes | None] = []
        self.offsets: list[int] = []
        self.has_tombstones = False
        self.timestamp = timestamp

    def framed(self, kept: Iterable[object]) -> list[bytes | bytearray]:
        """The records for which that is true, one after the other, as they stand in the batch."""
        buf = self._buf
        bounds = pairwise((*self._starts, self._pos + self._header.size))
        return [buf[start:end] for start, end in compress(bounds, kept)]

    def add(
        self, starts: Iterable[int], keys: Iterable[bytes | None], offsets: Sequence[int], *, has_values: bool
    ) -> None:
        """Records that begin at ``starts`` in the buffer."""
        self._starts += starts
        self.keys += keys
        self.offsets += offsets
        self.has_tombstones |= not has_values

    def __len__(self) -> int:
        return len(self.keys)

    @overload
    def __getitem__(self, index: int) -> Record: ...

    @overload
    def __getitem__(self, index: slice) -> list[Record]: ...

    def __getitem__(self, index: int | slice) -> Record | list[Record]:
        return self._records()[index]

    def __iter__(self) -> Iterator[Record]:
        return iter(self._records())

    def _records(self) -> list[Record]:
        return records_of(self._buf, self._pos, self._header)
