"""The committed offsets of one group for one topic, in few bytes.

An entry is a slot of 21 bytes in one bytearray, at the place of its partition number, as long as the numbers are
dense enough; the others, whatever their numbers, are far: in a dict of slots. What few commits have, metadata and an
expire timestamp, stands aside, in dicts that are made when needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import compress
from struct import Struct
from typing import Any, Final, TypeVar

from protocol.commit_rows import OFFSET_AT, ROW_SIZE, CommitRows
from protocol.offsets_log import CommittedOffset
from shim.coordinator.state.dump_reader import DumpReader

T = TypeVar("T")


# Flags, offset, leader epoch, commit timestamp. Clients choose the numbers freely, so none of them can stand for an
# empty slot: that is what the flags are for.
_SLOT: Final = Struct("<Bqiq")
_SIZE: Final = _SLOT.size
_EMPTY: Final = bytes(_SIZE)

_PLAIN: Final = 1  # an offset is held, and nothing of it stands aside
_METADATA: Final = 2
_EXPIRE: Final = 4
_FLAGS: Final = bytes((0, _PLAIN, _PLAIN | _METADATA, _PLAIN | _EXPIRE, _PLAIN | _METADATA | _EXPIRE))

# A partition number gets a slot at its place while there are at most so many slots an entry, and a few more. A far
# entry takes as much memory as seven slots, and as fifteen when it is the only one.
_SLOTS_PER_ENTRY: Final = 4
_SLOTS_AT_FIRST: Final = 10

# From so many rows on, columns are faster than rows. Which byte of a slot is which one of a row: offset and leader
# epoch are little-endian in the one and big-endian in the other.
_MANY_ROWS: Final = 8
_COLUMNS: Final = (
    *((1 + place, OFFSET_AT + 7 - place) for place in range(8)),
    *((9 + place, ROW_SIZE - 1 - place) for place in range(4)),
)

_INT32: Final = range(-(2**31), 2**31)
_INT64: Final = range(-(2**63), 2**63)
_COUNTS: Final = Struct("<IIII")

# tuple.__new__ skips the constructor of the named tuple, as the codec does.
_new: Any = tuple.__new__
_pack, _unpack, _unpack_from = _SLOT.pack, _SLOT.unpack, _SLOT.unpack_from


class TopicOffsets:
    """Committed offsets by partition number, which may be any int32."""

    __slots__ = ("_count", "_expire", "_far", "_metadata", "_settle_at", "_slots")

    def __init__(self) -> None:
        self._slots = bytearray()
        self._far: dict[int, bytes] | None = None
        self._metadata: dict[int, str] | None = None
        self._expire: dict[int, int] | None = None
        self._count = 0
        self._settle_at = 4

    def __len__(self) -> int:
        return self._count

    def get(self, partition: int) -> CommittedOffset | None:
        """The committed offset, or None."""
        slots = self._slots
        at = partition * _SIZE
        if 0 <= at < len(slots) and slots[at]:
            flags, offset, leader_epoch, commit_timestamp = _unpack_from(slots, at)
        elif self._far is not None and (slot := self._far.get(partition)):
            flags, offset, leader_epoch, commit_timestamp = _unpack(slot)
        else:
            return None
        if flags == _PLAIN:
            committed: CommittedOffset = _new(CommittedOffset, (offset, leader_epoch, "", commit_timestamp, -1))
            return committed
        return self._committed(partition, flags, offset, leader_epoch, commit_timestamp)

    def set(self, partition: int, committed: CommittedOffset | tuple[int, int, str, int, int]) -> bool:
        """Keep the committed offset, in place of an earlier one. True when there was none.

        Raises ValueError or struct.error, with nothing changed, for a number that its type on the wire cannot hold.
        """
        offset, leader_epoch, metadata, commit_timestamp, expire_timestamp = committed
        flags = _PLAIN
        if metadata:
            flags |= _METADATA
        if expire_timestamp != -1:
            flags |= _EXPIRE
            if expire_timestamp not in _INT64:
                raise ValueError(f"expire timestamp {expire_timestamp} is no int64")
        slot = _pack(flags, offset, leader_epoch, commit_timestamp)
        slots = self._slots
        at = partition * _SIZE
        if 0 <= at < len(slots) and (before := slots[at]):
            slots[at : at + _SIZE] = slot
        elif self._far is not None and (replaced := self._far.get(partition)):
            before = replaced[0]
            self._far[partition] = slot
        else:
            before = 0
            self._add(partition, slot)
        if flags | before > _PLAIN:
            self._put_aside(partition, metadata, expire_timestamp)
        return not before

    def set_rows(self, rows: CommitRows, commit_timestamp: int) -> int:
        """:meth:`set` for each row, without metadata and expire timestamp; gives how many there were none of."""
        if rows.last is not None:
            rows = rows.last
        count, first = rows.size, rows.lowest
        if count == 1:
            partition, offset, leader_epoch = rows.first()
            return self.set(partition, (offset, leader_epoch, "", commit_timestamp, -1))
        slots, begin, end = self._slots, first * _SIZE, (first + count) * _SIZE
        if (
            count < _MANY_ROWS
            or not rows.consecutive
            or not 0 <= begin < end <= len(slots)
            or slots[begin:end:_SIZE].count(_PLAIN) < count
        ):
            # Of a partition that is there many times the last row is what remains.
            last = {partition: (offset, epoch) for partition, offset, epoch in rows.values()}
            return sum([self.set(p, (offset, epoch, "", commit_timestamp, -1)) for p, (offset, epoch) in last.items()])
        # All of them are plain, and remain it: the slots are made anew, a column at a time.
        made = bytearray(_pack(_PLAIN, 0, 0, commit_timestamp)) * count
        columns = rows.columns
        for place, row_place in _COLUMNS:
            made[place::_SIZE] = columns[row_place]
        slots[begin:end] = made
        return 0

    def delete(self, partition: int) -> bool:
        """Forget the committed offset. False when there is none."""
        slots = self._slots
        at = partition * _SIZE
        if 0 <= at < len(slots) and (before := slots[at]):
            slots[at : at + _SIZE] = _EMPTY
        elif self._far is not None and (deleted := self._far.pop(partition, None)):
            before = deleted[0]
        else:
            return False
        self._count -= 1
        if before > _PLAIN:
            self._put_aside(partition, "", -1)
        return True

    def partitions(self) -> list[int]:
        """The partitions that have an offset, by number."""
        flags = self._slots[::_SIZE]
        partitions = list(compress(range(len(flags)), flags))
        if self._far is not None:
            partitions += self._far
            partitions.sort()
        return partitions

    @property
    def has_expire_timestamps(self) -> bool:
        """Whether any of the offsets has one."""
        return self._expire is not None

    def __iter__(self) -> Iterator[tuple[int, CommittedOffset]]:
        """Every (partition, committed offset), by partition number, as they are when asked for."""
        # All at once: the bytearray could not grow while somebody has an iterator of its slots, used or forgotten.
        slots = _SLOT.iter_unpack(self._slots)
        entries: list[tuple[int, CommittedOffset]] = [
            (
                partition,
                _new(CommittedOffset, (offset, leader_epoch, "", commit_timestamp, -1))
                if flags == _PLAIN
                else self._committed(partition, flags, offset, leader_epoch, commit_timestamp),
            )
            for partition, (flags, offset, leader_epoch, commit_timestamp) in enumerate(slots)
            if flags
        ]
        if self._far is not None:
            entries += [
                (partition, self._committed(partition, *_unpack(slot))) for partition, slot in self._far.items()
            ]
            entries.sort()
        return iter(entries)

    def _committed(
        self, partition: int, flags: int, offset: int, leader_epoch: int, commit_timestamp: int
    ) -> CommittedOffset:
        metadata = self._metadata[partition] if flags & _METADATA and self._metadata is not None else ""
        expire_timestamp = self._expire[partition] if flags & _EXPIRE and self._expire is not None else -1
        return CommittedOffset(offset, leader_epoch, metadata, commit_timestamp, expire_timestamp)

    def _add(self, partition: int, slot: bytes) -> None:
        if partition not in _INT32:
            raise ValueError(f"partition {partition} is no int32")
        count = self._count = self._count + 1
        if 0 <= partition < _SLOTS_PER_ENTRY * count + _SLOTS_AT_FIRST:
            self._place(partition, slot)
        elif self._far is None:
            self._far = {partition: slot}
        else:
            self._far[partition] = slot
        if self._far is not None and count >= self._settle_at:
            self._settle(self._far)

    def _place(self, partition: int, slot: bytes) -> None:
        slots = self._slots
        at = partition * _SIZE
        if at > len(slots):
            slots.extend(bytes(at - len(slots)))
        slots[at : at + _SIZE] = slot

    def _settle(self, far: dict[int, bytes]) -> None:
        """Place the far entries that are dense by now. Once for every doubling, so that it costs an entry little."""
        self._settle_at = 2 * self._count
        below = _SLOTS_PER_ENTRY * self._count + _SLOTS_AT_FIRST
        still_far = {}
        for partition, slot in far.items():
            if 0 <= partition < below:
                self._place(partition, slot)
            else:
                still_far[partition] = slot
        self._far = still_far or None

    def _put_aside(self, partition: int, metadata: str, expire_timestamp: int) -> None:
        self._metadata = _put(self._metadata, partition, _shared(metadata) if metadata else None)
        self._expire = _put(self._expire, partition, expire_timestamp if expire_timestamp != -1 else None)

    # -- dump and restore

    def dump(self) -> bytes:
        """The entries as :meth:`restore` reads them: four counts (uint32) and what they count, all little-endian.

        The slots as they are; the far entries (partitions int32, then slots); the expire timestamps (partitions, then
        int64); the metadata (partitions, then lengths uint32, then UTF-8, lone surrogates encoded like characters).
        """
        far, expire, metadata = self._far or {}, self._expire or {}, self._metadata or {}
        counts = _COUNTS.pack(len(self._slots) // _SIZE, len(far), len(expire), len(metadata))
        if not (far or expire or metadata):
            return counts + self._slots
        texts = [text.encode("utf-8", "surrogatepass") for text in metadata.values()]
        return b"".join(
            (
                counts,
                self._slots,
                _many(len(far), "i").pack(*far),
                *far.values(),
                _many(len(expire), "i").pack(*expire),
                _many(len(expire), "q").pack(*expire.values()),
                _many(len(metadata), "i").pack(*metadata),
                _many(len(metadata), "I").pack(*map(len, texts)),
                *texts,
            )
        )

    @classmethod
    def restore(cls, dump: DumpReader) -> TopicOffsets:
        """What :meth:`dump` wrote, from the reader's place on. Raises DecodeError."""
        slots, far, expire, metadata = dump.unpack(_COUNTS)
        self = cls()
        self._slots = bytearray(dump.take(slots * _SIZE))
        flags = self._slots[::_SIZE]
        self._count = far + slots - flags.count(0)
        if not self._count:
            dump.fail("a topic without an offset")
        if not (far or expire or metadata) and flags.count(_PLAIN) == self._count:
            return self  # as most are
        if far:
            partitions = dump.unpack(_many(far, "i"))
            self._far = {partition: bytes(dump.take(_SIZE)) for partition in partitions}
            if len(self._far) < far or any(0 <= p < slots and flags[p] for p in partitions):
                dump.fail("two offsets of one partition")
            far_flags = bytes(slot[0] for slot in self._far.values())
            if 0 in far_flags:
                dump.fail("a far partition without an offset")
            flags += far_flags
        if expire:
            partitions = dump.unpack(_many(expire, "i"))
            self._expire = dict(zip(partitions, dump.unpack(_many(expire, "q")), strict=True))
        if metadata:
            partitions = dump.unpack(_many(metadata, "i"))
            lengths = dump.unpack(_many(metadata, "I"))
            self._metadata = {p: _shared(dump.text(n)) for p, n in zip(partitions, lengths, strict=True)}
        if flags.translate(None, _FLAGS):
            dump.fail("unknown flags")
        # So many partitions say that something stands aside, and each of those for which something does says so.
        for flag, asides, count in ((_METADATA, self._metadata, metadata), (_EXPIRE, self._expire, expire)):
            flagged = sum(flags.count(known) for known in _FLAGS if known & flag)
            if not flagged == count == len(asides or ()) or not all(self._flags(p) & flag for p in asides or ()):
                dump.fail("metadata or expire timestamps of other partitions than have them")
        if "" in (self._metadata or {}).values() or -1 in (self._expire or {}).values():
            dump.fail("metadata or an expire timestamp that is none")
        return self

    def _flags(self, partition: int) -> int:
        at = partition * _SIZE
        flags = self._slots[at] if 0 <= at < len(self._slots) else 0
        return flags or (self._far or {}).get(partition, _EMPTY)[0]


def _many(count: int, kind: str) -> Struct:
    return Struct(f"<{count}{kind}")


def _put(aside: dict[int, T] | None, partition: int, value: T | None) -> dict[int, T] | None:
    if value is not None:
        aside = aside if aside is not None else {}
        aside[partition] = value
    elif aside is not None:
        aside.pop(partition, None)
    return aside or None


@lru_cache(maxsize=1024)
def _shared(metadata: str) -> str:
    # One string for all partitions of a commit. Interning would cost those who write a new one each time.
    return metadata
