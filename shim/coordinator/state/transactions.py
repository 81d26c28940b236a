"""Offsets of transactions that have not ended, and how far the cluster's log, where they stand, has been taken over.

As in Kafka 4.3 (`OffsetMetadataManager`): what is pending takes the place of the committed offset when its
transaction is committed, unless a later record has done so already.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass
from struct import Struct
from typing import Final

from protocol.errors import DecodeError
from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue, decode_key, decode_value, encode_key, encode_value
from protocol.own.position import UNKNOWN_EPOCH, Position, Producer
from protocol.own.topic_log import Settled, StillPending
from shim.coordinator.state.dump_reader import DumpReader

_COUNTS: Final = Struct("<IIQ")
_POSITION: Final = Struct("<iqiq16s")
_PRODUCER: Final = Struct("<iqI?")
_ENTRY: Final = Struct("<QII")


@dataclass(slots=True)
class Pending:
    """``written``: rises from record to record. ``value`` None: a later record has overtaken it, however its
    transaction ends."""

    written: int
    value: OffsetCommitValue | None


class Transactions:
    """Of one offsets partition."""

    __slots__ = ("_groups", "_open", "_written", "pending", "positions")

    def __init__(self) -> None:
        self.positions: dict[int, Position] = {}
        """By partition of the cluster's `__consumer_offsets`: how far it has been taken over."""
        self.pending: dict[Producer, dict[OffsetCommitKey, Pending]] = {}
        """To be looked at, not changed, from outside."""
        # Whose records are in the log with no marker behind them, in their order: more than have anything pending, as
        # tombstones take that. And the position behind the first.
        self._open: dict[Producer, Position | None] = {}
        # Whose offsets are pending: by group, topic and partition.
        self._groups: dict[str, dict[tuple[str, int], set[Producer]]] = {}
        self._written = 0

    # -- records

    def taken_over(self, position: Position | None) -> None:
        if position is not None:
            self.positions[position.partition] = position

    def add(
        self, producer: Producer, key: OffsetCommitKey, value: OffsetCommitValue, position: Position | None = None
    ) -> None:
        self._written += 1
        self._open.setdefault(producer, position)
        offsets = self.pending.setdefault(producer, {})
        if key not in offsets:
            self._groups.setdefault(key.group, {}).setdefault((key.topic, key.partition), set()).add(producer)
        offsets[key] = Pending(self._written, value)

    def began(self, producer: Producer, position: Position | None) -> None:
        """Its transaction, of which another record follows, began there, whatever was known of one before."""
        if self._open.get(producer) != position:
            self._open.pop(producer, None)
            self._open[producer] = position

    def overtake(self, key: OffsetCommitKey, before: int | None = None) -> frozenset[int]:
        """An offset was committed by a later record than those that are pending, or than those written before that.
        Gives which offsets those are that it has overtaken."""
        overtaken = set()
        for producer in self._producers(key):
            pending = self.pending[producer][key]
            if pending.value is not None and (before is None or pending.written < before):
                overtaken.add(pending.value.offset)
                pending.value = None
        return frozenset(overtaken)

    def forget(self, key: OffsetCommitKey) -> frozenset[int] | None:
        """A tombstone: it takes what is pending, too. Gives which offsets that were and had not been overtaken; None
        where nothing was."""
        producers = list(self._producers(key))
        if not producers:
            return None
        overtaken = self.overtake(key)
        for producer in producers:
            self._drop(producer, key)
        return overtaken

    def end(self, producer: Producer, *, committed: bool) -> list[Settled]:
        """Nothing of that producer is pending any more. Gives all that was, and what becomes of it."""
        settled = []
        self._open.pop(producer, None)
        alone = self.pending.keys() <= {producer}  # as is usual: nobody else's offsets are to be looked for
        for key, pending in list(self.pending.get(producer, {}).items()):
            self._drop(producer, key)
            if not committed or pending.value is None:
                settled.append(Settled(key, None))
            elif alone:
                settled.append(Settled(key, pending.value))
            else:
                self.overtake(key, pending.written)
                settled.append(Settled(key, pending.value, self._not_overtaken(key)))
        return settled

    def settle(self, producer: Producer, key: OffsetCommitKey) -> bool:
        """That offset is not pending any more, and what may be in force in its place another record says. With the last
        one of a producer goes its transaction, as the log keeps nothing of that. Gives whether it was pending.
        """
        was_pending = key in self.pending.get(producer, ())
        if was_pending:
            self._drop(producer, key)
        if producer not in self.pending:
            self._open.pop(producer, None)
        return was_pending

    def _drop(self, producer: Producer, key: OffsetCommitKey) -> None:
        offsets = self.pending[producer]
        del offsets[key]
        if not offsets:
            del self.pending[producer]
        of_group = self._groups[key.group]
        producers = of_group[key.topic, key.partition]
        producers.discard(producer)
        if not producers:
            del of_group[key.topic, key.partition]
        if not of_group:
            del self._groups[key.group]

    def _not_overtaken(self, key: OffsetCommitKey) -> Sequence[StillPending]:
        """What is pending of that offset and may yet be committed, in the order of the records."""
        producers = self._producers(key)
        if not producers:
            return ()
        found = [(self.pending[producer][key], producer) for producer in producers]
        return [
            StillPending(producer, pending.value, self._open[producer])
            for pending, producer in sorted(found, key=lambda each: each[0].written)
            if pending.value is not None
        ]

    def _producers(self, key: OffsetCommitKey) -> Collection[Producer]:
        return self._groups.get(key.group, {}).get((key.topic, key.partition), ())

    # -- what is open, and what is pending

    def begun(self, producer: Producer) -> Position | None:
        """The position behind the first record of its transaction; None where none is open, or nothing said so."""
        return self._open.get(producer)

    def producers_of(self, key: OffsetCommitKey) -> list[Producer]:
        """In whose transactions the offset is pending."""
        return sorted(self._producers(key))

    def is_open(self, producer: Producer) -> bool:
        """Whether the log has records of a transaction of that producer, and not its end."""
        return producer in self._open

    def open_producers(self) -> Collection[Producer]:
        """Whose transactions those are."""
        return self._open.keys()

    def left_open(self) -> list[Producer]:
        """Those of which the log has records and no end, and of which nothing is pending any more."""
        return [producer for producer in self._open if self.is_left_open(producer)]

    def is_left_open(self, producer: Producer) -> bool:
        return producer in self._open and producer not in self.pending and producer.followed in self.positions

    def lost_behind(self, position: Position) -> list[Producer]:
        """Whose transactions began with what the cluster's log has no more, where it is the one that was read up to
        ``position`` only. Of one that began before it has the rest, or knows at least how it ends.
        """
        return [
            producer
            for producer, begun in self._open.items()
            if producer.followed == position.partition and begun is not None and _is_gone(begun, position)
        ]

    def __contains__(self, key: OffsetCommitKey) -> bool:
        return bool(self._producers(key))

    def has_group(self, group: str) -> bool:
        return group in self._groups

    def groups(self) -> Collection[str]:
        return self._groups.keys()

    def topics(self) -> set[str]:
        return {topic for of_group in self._groups.values() for topic, _ in of_group}

    def of_group(self, group: str) -> Collection[tuple[str, int]]:
        """Every (topic, partition) of which an offset of the group is pending."""
        return self._groups.get(group, {}).keys()

    def offsets_of(self, group: str) -> Set[tuple[str, int, int]]:
        """Every (topic, partition, offset) of the group that is pending, and may yet come into force."""
        return {
            (topic, number, pending.value.offset)
            for (topic, number), producers in self._groups.get(group, {}).items()
            for producer in producers
            if (pending := self.pending[producer][OffsetCommitKey(group, topic, number)]).value is not None
        }

    # -- dump and restore

    def dump(self) -> bytes:
        """All of it, as :meth:`restore` reads it, little-endian: numbers of positions and producers, and of records
        written; the positions; the producers whose transactions are open, with the position where they began, if that
        is known, and their entries, keys and values as in the log."""
        pieces = [_COUNTS.pack(len(self.positions), len(self._open), self._written)]
        pieces += [_POSITION.pack(*each) for each in self.positions.values()]
        for producer, begun in self._open.items():
            offsets = self.pending.get(producer, {})
            pieces.append(_PRODUCER.pack(*producer, len(offsets), begun is not None))
            if begun is not None:
                pieces.append(_POSITION.pack(*begun))
            for key, pending in offsets.items():
                raw_key = encode_key(key)
                raw_value = encode_value(pending.value) if pending.value is not None else b""
                pieces += (_ENTRY.pack(pending.written, len(raw_key), len(raw_value)), raw_key, raw_value)
        return b"".join(pieces)

    @classmethod
    def restore(cls, raw: bytes | bytearray | memoryview) -> Transactions:
        """Raises DecodeError for anything that is no dump."""
        dump = DumpReader(raw)
        self = cls()
        positions, producers, written = dump.unpack(_COUNTS)
        for _ in range(positions):
            self.taken_over(Position(*dump.unpack(_POSITION)))
        for _ in range(producers):
            followed, producer_id, count, has_begun = dump.unpack(_PRODUCER)
            begun = Position(*dump.unpack(_POSITION)) if has_begun else None
            self._open[Producer(followed, producer_id)] = begun
            for _ in range(count):
                order, key_size, value_size = dump.unpack(_ENTRY)
                key, value = _entry(bytes(dump.take(key_size)), bytes(dump.take(value_size)))
                self._written = order - 1
                self.add(Producer(followed, producer_id), key, value or OffsetCommitValue(0))
                if value is None:
                    self.pending[Producer(followed, producer_id)][key].value = None
        self._written = written
        dump.end()
        return self


def _is_gone(begun: Position, position: Position) -> bool:
    """Whether a batch that ended there is in no log that was ``agreed`` upon up to ``position``."""
    return (
        begun.next_offset > position.next_offset
        or begun.is_of_another_topic(position.topic_id)
        or begun.leader_epoch > position.leader_epoch > UNKNOWN_EPOCH
    )


def _entry(raw_key: bytes, raw_value: bytes) -> tuple[OffsetCommitKey, OffsetCommitValue | None]:
    key = decode_key(raw_key)
    value = decode_value(key, raw_value) if raw_value else None
    if not isinstance(key, OffsetCommitKey) or not isinstance(value, OffsetCommitValue | None):
        raise DecodeError("no offset", 0, "Transactions")
    return key, value
