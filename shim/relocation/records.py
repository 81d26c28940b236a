"""What an offsets partition has, as record sets of the log that it comes into: what makes it there, and before that
what takes away whatever was there.

Each set is right by itself; all together are what counts, and until the last one nothing of it does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, groupby
from typing import Final

from protocol.offsets_log import GroupMetadataKey, OffsetCommitValue, encode_key, encode_value
from protocol.own.position import Position, Producer, position_header
from protocol.own.record_sets import EndOfTransaction, TransactionalSet
from protocol.own.state_log import GroupChangeKey, GroupHandsKey, GroupHandsValue, StateRecord, encode_state
from protocol.own.topic_log import encode_own, pending, pending_key, position_record
from protocol.records.batches import encoded_size
from shim.coordinator import Contents
from shim.coordinator.state.contents import PendingOffset
from shim.coordinator.upkeep.followed import NOBODY
from shim.log.segments.transactions import NO_PARTITION
from shim.runtime.flight import Batch, Record

Changes = Mapping[GroupChangeKey, GroupHandsValue]
"""Where groups stood before."""

SET_BYTES: Final = 64 << 10
"""Of one set, where no single record is larger."""

_OF_NOBODY: Final = Producer(NO_PARTITION, NOBODY)
_METADATA_VERSION: Final = 4
"""It holds whatever a record of any version holds."""


def on_topic(contents: Contents, changes: Changes, before: Contents) -> Iterator[list[Record]]:
    """``before``: what the topic has."""
    yield from _sets(chain(_taken_away_there(before), _overruled_there(contents), _there(contents, changes)))


def in_directory(contents: Contents, before: Contents) -> Iterator[Batch]:
    """Of the offsets. ``before``: what the directory has."""
    for producer in before.open_transactions():
        yield _end(producer, before.positions.get(producer.followed))
    yield from _sets(_tombstones(before))
    yield from _overruled(contents)
    yield from _transactional(contents.overtaken())
    yield from _sets(_committed(contents))
    yield from _transactional(contents.pending())
    for position in contents.positions.values():
        yield _end(Producer(position.partition, NOBODY), position)


def state_in_directory(contents: Contents, changes: Changes, before: Contents) -> Iterator[list[Record]]:
    """Of the shim's own state."""
    gone: Iterator[StateRecord] = ((key, None) for key, _ in before.written())
    yield from _sets(encode_state(record) for records in (gone, _state(contents, changes)) for record in records)


# -- what both have


def _tombstones(before: Contents) -> Iterator[Record]:
    for key, _ in before.offsets():
        yield encode_key(key), None
    for group in before.group_ids():
        yield encode_key(GroupMetadataKey(group)), None


def _committed(contents: Contents) -> Iterator[Record]:
    for group, value in contents.groups():
        yield encode_key(group), encode_value(value, _METADATA_VERSION)
    for key, committed in contents.offsets():
        yield encode_key(key), encode_value(committed)


def _state(contents: Contents, changes: Changes) -> Iterator[StateRecord]:
    for group, hands in contents.hands.items():
        yield GroupHandsKey(group), hands
    yield from changes.items()
    yield from contents.written()


# -- on a topic


def _taken_away_there(before: Contents) -> Iterator[Record]:
    for each in (*before.overtaken(), *before.pending()):
        yield encode_own((pending_key(each.producer, each.key), None))
    yield from _tombstones(before)
    for key, _ in before.written():
        yield encode_own((key, None))


def _overruled_there(contents: Contents) -> Iterator[Record]:
    """Which offsets those were is told no more; nor does a log that was compacted."""
    for key in contents.overruled():
        yield encode_own((pending_key(_OF_NOBODY, key), None))


def _there(contents: Contents, changes: Changes) -> Iterator[Record]:
    """In an order in which what is overtaken has what has won behind it, and nothing else has."""
    yield from map(_pending, contents.overtaken())
    yield from _committed(contents)
    yield from map(_pending, contents.pending())
    for position in contents.positions.values():
        yield encode_own(position_record(position))
    yield from map(encode_own, _state(contents, changes))


def _pending(each: PendingOffset) -> Record:
    return encode_own(pending(each.producer, each.key, encode_value(each.value), each.begun))


# -- in the directory


def _overruled(contents: Contents) -> Iterator[Batch]:
    """Something pending in a transaction, which is deleted then, with the groups that this makes."""
    if keys := contents.overruled():
        yield from _transactional(PendingOffset(_OF_NOBODY, key, OffsetCommitValue(-1), None) for key in keys)
        groups = dict.fromkeys(key.group for key in keys)
        raw_keys = chain(map(encode_key, keys), (encode_key(GroupMetadataKey(group)) for group in groups))
        yield from _sets((raw_key, None) for raw_key in raw_keys)
        yield _end(_OF_NOBODY, None)


def _transactional(offsets: Iterable[PendingOffset]) -> Iterator[TransactionalSet]:
    """Of which the first one of a producer says where its transaction began, as it did once."""
    for (producer, begun), some in groupby(offsets, key=lambda each: (each.producer, each.begun)):
        headers = () if begun is None else (position_header(begun),)
        for records in _sets((encode_key(each.key), encode_value(each.value)) for each in some):
            # Of no use to anybody is the producer's epoch, which a topic does not have.
            yield TransactionalSet(producer.producer_id, 0, records, headers, begun)


def _end(producer: Producer, position: Position | None) -> EndOfTransaction:
    headers = () if position is None else (position_header(position),)
    return EndOfTransaction(producer.producer_id, 0, False, 0, headers)


def _sets(records: Iterable[Record]) -> Iterator[list[Record]]:
    """The records one after the other, as many in each set as SET_BYTES has room for."""
    some: list[Record] = []
    room = SET_BYTES
    for record in records:
        size = encoded_size([record])
        if some and size > room:
            yield some
            some, room = [], SET_BYTES
        some.append(record)
        room -= size
    if some:
        yield some
