"""Keys and values of what an offsets partition on a Kafka topic holds beside the records of `__consumer_offsets`.

Source: docs/decisions/0018. There is one partition for all, and it is compacted: of each key the newest record stays.
Offsets and groups are as in `__consumer_offsets`, byte for byte; the records of `__offset_shim_state` have `STATE`
added to the type of their key. What a log on disk says by transactional batches and markers, and by their headers, is
plain records here, as a broker takes such a batch only from the producer whose transaction it is:

- 20010, a pending offset: committed by a producer in a transaction that has not ended. The end of the transaction, and
  a tombstone of the offset, write a tombstone of it, too;
- 20011, the position: how far a partition of the cluster's `__consumer_offsets` has been taken over;
- 20020, the owner: which process writes to the partition from here on;
- 20021, the place: whether what is here counts, or what a data directory has. Without it, what is here does.

Where a pending offset and a committed one are of the same group, topic and partition, the later record wins, however
the transaction ends. So when one is committed with its transaction, and another one of them was pending in a later
record, that record is written once more, behind the committed one (`Settled.later`): the order of the partition says
all that there is to say about order.

Source of the latter rule: Kafka 4.3 (`OffsetMetadataManager`).
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from protocol.errors import DecodeError
from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue, decode_value, encode_value
from protocol.own.position import Position, Producer
from protocol.own.state_log import StateRecord, decode_state, encode_state
from protocol.own.typed_records import TypedRecords, key_type, with_type
from protocol.wire import Bool, Bytes, Int32, Int64, String, TaggedFields, Uuid

OWN_TYPES: Final = range(20_000, 20_100)
"""Of keys, far from those that Kafka's coordinators use (0 to 16 in 4.3)."""
STATE: Final = OWN_TYPES.start

_PENDING: Final = 20_010
_POSITION: Final = 20_011
_OWNER: Final = 20_020
_PLACE: Final = 20_021


class PendingKey(NamedTuple):
    """`followed` and `producer_id`: whose transaction, as in `Producer`. The others: of which offset."""

    followed: Int32
    producer_id: Int64
    group: String
    topic: String
    partition: Int32
    tagged: TaggedFields = ()

    @property
    def producer(self) -> Producer:
        return Producer(self.followed, self.producer_id)

    @property
    def offset(self) -> OffsetCommitKey:
        return OffsetCommitKey(self.group, self.topic, self.partition)


class PositionKey(NamedTuple):
    """`followed`: the partition of the cluster's."""

    followed: Int32
    tagged: TaggedFields = ()


class PositionValue(NamedTuple):
    """What `Position` says of a partition."""

    next_offset: Int64
    leader_epoch: Int32
    epoch_offset: Int64
    topic_id: Uuid
    tagged: TaggedFields = ()

    def of(self, followed: int) -> Position:
        return Position(followed, *self[:-1])


class PendingValue(NamedTuple):
    """`committed`: the value that the offset has in `__consumer_offsets` once it is committed, its version included.
    `begun`: the position behind the first batch of the transaction, of which no other record may be left; None where it
    is not known.
    """

    committed: Bytes
    begun: PositionValue | None = None
    tagged: TaggedFields = ()

    @property
    def value(self) -> OffsetCommitValue:
        """Raises DecodeError."""
        found = decode_value(_ANY_OFFSET, self.committed)
        assert isinstance(found, OffsetCommitValue)
        return found


class OwnerKey(NamedTuple):
    """There is one owner."""

    tagged: TaggedFields = ()


class Owner(NamedTuple):
    """`incarnation`: of a process, from one start to the next. `name`: for people. `lease_ms`: for so many milliseconds
    after an acknowledged write of its own was sent it may tell what it knows. `released`: it does not any more, and
    nobody has to wait for that.
    """

    incarnation: Uuid
    name: String
    lease_ms: Int32
    released: Bool = False
    tagged: TaggedFields = ()


class PlaceKey(NamedTuple):
    """There is one place that counts."""

    tagged: TaggedFields = ()


class Place(NamedTuple):
    """`here`: what the partition has counts. Otherwise what is in the data directory does whose `shim.instance.id` is
    `directory`, which is whoever has written this.
    """

    directory: String
    here: Bool
    tagged: TaggedFields = ()


PendingRecord: TypeAlias = tuple[PendingKey, PendingValue | None]
"""A value of None is a tombstone: that offset is not pending any more."""
OwnRecord: TypeAlias = (
    StateRecord | PendingRecord | tuple[PositionKey, PositionValue] | tuple[OwnerKey, Owner] | tuple[PlaceKey, Place]
)

_FIRST_OWN, _LAST_OWN = (with_type(type_, b"") for type_ in (OWN_TYPES[0], OWN_TYPES[-1]))
_ANY_OFFSET: Final = OffsetCommitKey("", "", 0)
_RECORDS: Final = TypedRecords(
    {
        _PENDING: (PendingKey, PendingValue),
        _POSITION: (PositionKey, PositionValue),
        _OWNER: (OwnerKey, Owner),
        _PLACE: (PlaceKey, Place),
    }
)


class StillPending(NamedTuple):
    """An offset that is pending in another transaction. ``begun``: where that began, if it is known."""

    producer: Producer
    value: OffsetCommitValue
    begun: Position | None


class Settled(NamedTuple):
    """What the end of a transaction makes of an offset that was pending in it.

    ``value``: it is committed; None: it is not, since the transaction is aborted, or as a later record has won.
    ``later``: it is pending in other transactions, and was made so in later records than here; in their order.
    """

    key: OffsetCommitKey
    value: OffsetCommitValue | None
    later: Sequence[StillPending] = ()


def pending_key(producer: Producer, key: OffsetCommitKey) -> PendingKey:
    return PendingKey(producer.followed, producer.producer_id, key.group, key.topic, key.partition)


def pending(producer: Producer, key: OffsetCommitKey, raw_value: bytes, begun: Position | None) -> PendingRecord:
    """``raw_value``: as in `__consumer_offsets`."""
    return pending_key(producer, key), PendingValue(raw_value, None if begun is None else PositionValue(*begun[1:]))


def still_pending(key: OffsetCommitKey, later: StillPending) -> PendingRecord:
    """That record once more. Raises EncodeError."""
    return pending(later.producer, key, encode_value(later.value), later.begun)


def position_record(position: Position) -> tuple[PositionKey, PositionValue]:
    return PositionKey(position.partition), PositionValue(*position[1:])


def is_own(key: bytes) -> bool:
    """Whether :func:`decode_own` is to read it; asked of every record."""
    return _FIRST_OWN <= key[: len(_FIRST_OWN)] <= _LAST_OWN


def own_state(key: bytes) -> bytes:
    """The key of a record of `__offset_shim_state` as it is here. Raises DecodeError."""
    return with_type(STATE + key_type(key), key)


def encode_own(record: OwnRecord) -> tuple[bytes, bytes | None]:
    """Key and value as they are in the partition. Raises EncodeError."""
    key, value = record
    if isinstance(key, PendingKey | PositionKey | OwnerKey | PlaceKey):
        return _RECORDS.encode(key, value)
    raw_key, raw_value = encode_state(record)  # type: ignore[arg-type]
    return own_state(raw_key), raw_value


def decode_own(key: bytes, value: bytes | None) -> OwnRecord:
    """Raises DecodeError, also for what a later version of the shim has written: see `decode_state`."""
    if key_type(key) < _PENDING:
        return decode_state(with_type(key_type(key) - STATE, key), value)
    found_key, found = _RECORDS.decode(key, value)
    if found is None and not isinstance(found_key, PendingKey):
        raise DecodeError("a tombstone, which no shim writes there", 0, "value")
    return found_key, found
