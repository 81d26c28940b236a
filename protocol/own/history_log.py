"""Keys and values of the records of `__offset_shim_history`: who committed what, and when.

They are the shim's own, and no broker's. They are built like those of `__consumer_offsets`: a key is an int16 type and
its fields, a value an int16 version and its fields, flexible (KIP-482) from version 0 on. Every offset of every commit
is there, in the partition of the same number as that of its group, in the order in which the offsets were committed:
with a record of its own (type 0), or, of plain commits, in one with the others of its topic: row by row (type 1), or,
where they are many, column by column (type 2), which takes a quarter of the bytes. The key tells two records apart but
for commits of one millisecond: those are told apart by their offsets in the log. Offsets that were deleted, or have
expired, have a record of type 0 that says so.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from struct import Struct
from struct import error as struct_error
from typing import Annotated, Any, Final, NamedTuple

from protocol.codec import Codec, codec
from protocol.commit_rows import ROW, ROW_SIZE
from protocol.errors import DecodeError
from protocol.own.typed_records import head
from protocol.wire import (
    Bytes,
    Int8,
    Int32,
    Int64,
    NullableOpaqueString,
    NullableString,
    OpaqueString,
    String,
    TaggedFields,
    UInt16,
    tag,
)

HISTORY_TOPIC: Final = "__offset_shim_history"

_INT16: Final = Struct(">h")
OFFSET_HISTORY: Final = 0
"""The type of the key of a record for one offset."""
ROWS_HISTORY: Final = 1
"""Of one for many, row by row."""
COLUMNS_HISTORY: Final = 2
"""Of one for many, column by column."""
ALWAYS_A_COLUMN: Final = 1 << 3
"""The bit in `varying` of the partition's lowest byte, which is a column even where it is the same in all rows. So no
record says that there are more rows than it has bytes."""
NOT_TOLD: Final = -2
"""As the offset that was replaced: clients do not say."""
NONE_REPLACED: Final = -1
"""Likewise: there was none."""
ADOPTED: Final = "adopted from the cluster"
"""The cause of offsets that a group has brought along. What it had before that in the cluster is not in the history."""
READ_IN_ZOOKEEPER: Final = "zookeeper"
"""The client id of what somebody has written, or deleted, there directly: nobody knows who. It comes from no host."""
_VALUE_VERSION: Final = 0

COMMITTED: Final = 0
DELETED: Final = 1
TAKEN_AWAY: Final = 2
"""What became of an offset: the last is a deletion that is a part of a reset."""
NO_OFFSET: Final = -1
"""As the offset, where it was deleted. A client may have committed that, too."""


class OffsetHistoryKey(NamedTuple):
    """`time`: when the shim took the commit, in milliseconds since the epoch by its own clock."""

    group: String
    topic: String
    partition: Int32
    time: Int64
    tagged: TaggedFields = ()


class OffsetHistoryValue(NamedTuple):
    """What was committed, and by whom. `commit_timestamp` is the one that is served with the offset: old clients may
    choose it; otherwise it is the key's `time`.

    `generation_id` is -1 and `member_id` "" for a commit from outside of the group (an administrator's tool, a consumer
    that assigns its partitions itself). `client_host` is in Kafka's form, `/127.0.0.1`, and so is `principal`,
    `User:alice`: "" where the cluster asks nobody who he is.

    Who looks after the groups and sets an offset says why, `cause`, and is told what it replaces: `replaced`, an offset
    or NONE_REPLACED. Of all others these are "" and NOT_TOLD.

    Of an offset that was deleted (`deleted` is not COMMITTED) the offset is NO_OFFSET, `cause` says by what, and
    `replaced` which one it was.
    """

    offset: Int64
    leader_epoch: Int32
    metadata: OpaqueString
    commit_timestamp: Int64
    generation_id: Int32
    member_id: String
    group_instance_id: NullableString
    client_id: String
    client_host: String
    principal: Annotated[String, tag(0)] = ""
    cause: Annotated[String, tag(1)] = ""
    replaced: Annotated[Int64, tag(2)] = NOT_TOLD
    deleted: Annotated[Int8, tag(3)] = COMMITTED
    tagged: TaggedFields = ()


class RowsHistoryKey(NamedTuple):
    """Of types 1 and 2. `time`: as of type 0, and the commit timestamp too."""

    group: String
    topic: String
    time: Int64
    tagged: TaggedFields = ()


class HistoryRow(NamedTuple):
    """One offset, in the bytes that it has in OffsetCommit since version 8."""

    partition: Int32
    offset: Int64
    leader_epoch: Int32
    metadata: NullableOpaqueString = ""
    tagged: TaggedFields = ()


class RowsHistoryValue(NamedTuple):
    """As of type 0, but that there are many offsets."""

    generation_id: Int32
    member_id: String
    group_instance_id: NullableString
    client_id: String
    client_host: String
    rows: tuple[HistoryRow, ...]
    principal: Annotated[String, tag(0)] = ""
    tagged: TaggedFields = ()


class ColumnsHistoryValue(NamedTuple):
    """As of type 1, without metadata and tagged fields of the rows. A row is ROW_SIZE bytes, as in OffsetCommit:
    partition, offset, leader epoch.

    `columns` begins with the first row. Behind it comes, for each place in a row of which `varying` has the bit (the
    lowest is that of place 0), the byte that is there, of each row. At all other places the rows are as the first one.
    """

    generation_id: Int32
    member_id: String
    group_instance_id: NullableString
    client_id: String
    client_host: String
    varying: UInt16
    columns: Bytes
    principal: Annotated[String, tag(0)] = ""
    tagged: TaggedFields = ()


class Who(NamedTuple):
    """Who has committed."""

    generation_id: int
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    principal: str = ""


HistoryRecord = tuple[OffsetHistoryKey, OffsetHistoryValue]

_KEY: Final = codec(OffsetHistoryKey, 0, flexible=True)
_VALUE: Final = codec(OffsetHistoryValue, 0, flexible=True)
ROWS_KEY: Final = codec(RowsHistoryKey, 0, flexible=True)
ROWS_VALUE: Final = codec(RowsHistoryValue, 0, flexible=True)
COLUMNS_VALUE: Final = codec(ColumnsHistoryValue, 0, flexible=True)
_KEY_HEAD: Final = _INT16.pack(OFFSET_HISTORY)
VALUE_HEAD: Final = _INT16.pack(_VALUE_VERSION)


def encode_history(record: HistoryRecord) -> tuple[bytes, bytes]:
    """Key and value as they are in the log. Raises EncodeError."""
    key, value = record
    return _encode_key(key), _encode_value(value)


# What a transaction commits has many records of the same names, and a member commits again and again: what is the same
# in each is encoded once. What the caches take is bounded by both numbers.
_SHORT: Final = 512
_KEPT: Final = 1024
_KEY_END: Final = Struct(">iqB")  # partition, time, no tagged fields
_VALUE_BEGINNING: Final = Struct(">hqiBq")  # version, offset, leader epoch, the length of no metadata, commit timestamp


def _encode_key(key: OffsetHistoryKey) -> bytes:
    group, topic, partition, time, tagged = key
    try:
        if not tagged and len(group) + len(topic) <= _SHORT:
            return _names(group, topic) + _KEY_END.pack(partition, time, 0)
    except (struct_error, TypeError):
        pass  # the codec says what is wrong
    return _KEY.encode(key, _KEY_HEAD)


@lru_cache(_KEPT)
def _names(group: str, topic: str) -> bytes:
    """What comes before the end of a key."""
    return _KEY.encode(OffsetHistoryKey(group, topic, 0, 0), _KEY_HEAD)[: -_KEY_END.size]


def _encode_value(value: OffsetHistoryValue) -> bytes:
    offset, leader_epoch, metadata, commit_timestamp = value[:4]
    who = Who(*value[4:10])
    try:
        size = sum(len(name or "") for name in who[1:])
        plain = metadata == "" and value.replaced == NOT_TOLD and not (value.cause or value.deleted or value.tagged)
        if plain and size <= _SHORT:
            beginning = _VALUE_BEGINNING.pack(_VALUE_VERSION, offset, leader_epoch, 1, commit_timestamp)
            return beginning + _who(who)
    except (struct_error, TypeError):
        pass  # the codec says what is wrong
    return _VALUE.encode(value, VALUE_HEAD)


@lru_cache(_KEPT)
def _who(who: Who) -> bytes:
    """What comes after the beginning of a value without metadata."""
    value = OffsetHistoryValue(0, 0, "", 0, *who)
    return _VALUE.encode(value, VALUE_HEAD)[_VALUE_BEGINNING.size :]


def is_known(key: bytes, value: bytes | None) -> bool:
    """Whether :func:`decode_history` can read it, or find it damaged. Raises DecodeError."""
    return value is not None and head(key, "key") in _CODECS and head(value, "value") == _VALUE_VERSION


def decode_history(key: bytes, value: bytes | None) -> list[HistoryRecord] | None:
    """What the record says, as if each offset had one of its own; None for one of a later version of the shim, which
    this one cannot read. Raises DecodeError."""
    if value is None or not is_known(key, value):
        return None
    kind = head(key, "key")
    decoded = []
    for raw, of_kind in zip((key, value), _CODECS[kind], strict=True):
        fields, end = of_kind.decode(raw, _INT16.size)
        if end != len(raw):
            raise DecodeError(f"{len(raw) - end} bytes too many", end, of_kind.cls.__name__)
        decoded.append(fields)
    return list(_RECORDS[kind](*decoded))


def _of_one(key: OffsetHistoryKey, value: OffsetHistoryValue) -> Iterator[HistoryRecord]:
    yield key, value


def _of_rows(key: RowsHistoryKey, value: RowsHistoryValue) -> Iterator[HistoryRecord]:
    who = Who(*value[:5], value.principal)
    for partition, offset, leader_epoch, metadata, _ in value.rows:
        yield (
            OffsetHistoryKey(key.group, key.topic, partition, key.time),
            OffsetHistoryValue(offset, leader_epoch, metadata or "", key.time, *who),
        )


def _of_columns(key: RowsHistoryKey, value: ColumnsHistoryValue) -> Iterator[HistoryRecord]:
    who = Who(*value[:5], value.principal)
    for partition, offset, leader_epoch in ROW.iter_unpack(rows_of_columns(value.varying, value.columns)):
        yield (
            OffsetHistoryKey(key.group, key.topic, partition, key.time),
            OffsetHistoryValue(offset, leader_epoch, "", key.time, *who),
        )


def rows_of_columns(varying: int, columns: bytes) -> bytes:
    """The rows, one behind the other, of :class:`ColumnsHistoryValue`. Raises DecodeError."""
    size = len(columns) - ROW_SIZE
    count, rest = divmod(size, max(1, varying.bit_count()))
    if size < 0 or rest or not varying & ALWAYS_A_COLUMN:
        raise DecodeError(f"columns of {len(columns)} bytes where {varying:#06x} vary", 0, ColumnsHistoryValue.__name__)
    rows = bytearray(columns[:ROW_SIZE] * count)
    at = ROW_SIZE
    for place in range(ROW_SIZE):
        if varying & 1 << place:
            rows[place::ROW_SIZE] = columns[at : at + count]
            at += count
    return bytes(rows)


_CODECS: Final[Mapping[int, tuple[Codec[Any], Codec[Any]]]] = {
    OFFSET_HISTORY: (_KEY, _VALUE),
    ROWS_HISTORY: (ROWS_KEY, ROWS_VALUE),
    COLUMNS_HISTORY: (ROWS_KEY, COLUMNS_VALUE),
}
_RECORDS: Final[Mapping[int, Callable[..., Iterator[HistoryRecord]]]] = {
    OFFSET_HISTORY: _of_one,
    ROWS_HISTORY: _of_rows,
    COLUMNS_HISTORY: _of_columns,
}
