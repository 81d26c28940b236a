"""Keys and values of the records of `__offset_shim_history`: who committed what, and when.

They are the shim's own, and no broker's. They are built like those of `__consumer_offsets`: a key is an int16 type and
its fields, a value an int16 version and its fields, flexible (KIP-482) from version 0 on. Every offset of every commit
has a record, in the partition of the same number as that of its group, in the order in which the offsets were
committed. The key tells two records apart but for commits of one millisecond: those are told apart by their offsets in
the log.
"""

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from struct import error as struct_error
from typing import Annotated, Final, NamedTuple

from protocol.codec import codec
from protocol.commit_rows import CommitRows
from protocol.errors import DecodeError
from protocol.records.record_runs import Run, runs
from protocol.records.varints import zigzag
from protocol.wire import Int32, Int64, NullableString, OpaqueString, String, TaggedFields, tag

HISTORY_TOPIC: Final = "__offset_shim_history"

_INT16: Final = Struct(">h")
_OFFSET_HISTORY: Final = 0  # the type of the key
_VALUE_VERSION: Final = 0


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
_KEY_HEAD: Final = _INT16.pack(_OFFSET_HISTORY)
_VALUE_HEAD: Final = _INT16.pack(_VALUE_VERSION)


def encode_history(record: HistoryRecord) -> tuple[bytes, bytes]:
    """Key and value as they are in the log. Raises EncodeError."""
    key, value = record
    return _encode_key(key), _encode_value(value)


# One commit has many records of the same names, and a member commits again and again: what is the same in each is
# encoded once. What the caches take is bounded by both numbers.
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
    who = Who(*value[4:-1])
    try:
        size = sum(len(name or "") for name in who[1:])
        if metadata == "" and not value.tagged and size <= _SHORT:
            beginning = _VALUE_BEGINNING.pack(_VALUE_VERSION, offset, leader_epoch, 1, commit_timestamp)
            return beginning + _who(who)
    except (struct_error, TypeError):
        pass  # the codec says what is wrong
    return _VALUE.encode(value, _VALUE_HEAD)


@lru_cache(_KEPT)
def _who(who: Who) -> bytes:
    """What comes after the beginning of a value without metadata."""
    value = OffsetHistoryValue(0, 0, "", 0, *who)
    return _VALUE.encode(value, _VALUE_HEAD)[_VALUE_BEGINNING.size :]


def history_runs(group: str, topic: str, rows: CommitRows, time: int, who: Who) -> Sequence[Run]:
    """The records of these offsets, without metadata, taken and committed at that time: what `encode_history` gives.

    Raises EncodeError. The names are to be short, as those of plain commits are: they are kept.
    """
    beginning, before_offset, end = _run_parts(group, topic, who)
    packed_time = _TIME.pack(time)
    return runs(beginning, packed_time + before_offset, b"\x01" + packed_time + end, rows)  # 1: no metadata


_TIME: Final = Struct(">q")


@lru_cache(_KEPT)
def _run_parts(group: str, topic: str, who: Who) -> tuple[bytes, bytes, bytes]:
    """Of a record what is before its partition, between its time and its offset, and behind its commit timestamp."""
    key = _KEY.encode(OffsetHistoryKey(group, topic, 0, 0), _KEY_HEAD)
    value = _VALUE.encode(OffsetHistoryValue(0, 0, "", 0, *who), _VALUE_HEAD)
    beginning = zigzag(len(key)) + key[: -_KEY_END.size]
    no_headers = b"\x00"
    return beginning, key[-1:] + zigzag(len(value)) + _VALUE_HEAD, value[_VALUE_BEGINNING.size :] + no_headers


def decode_history(key: bytes, value: bytes | None) -> HistoryRecord | None:
    """The record; None for one of a later version of the shim, which this one cannot read. Raises DecodeError."""
    if value is None or _head(key, "key") != _OFFSET_HISTORY or _head(value, "value") != _VALUE_VERSION:
        return None
    decoded_key, key_end = _KEY.decode(key, _INT16.size)
    decoded_value, value_end = _VALUE.decode(value, _INT16.size)
    for raw, end, name in ((key, key_end, "OffsetHistoryKey"), (value, value_end, "OffsetHistoryValue")):
        if end != len(raw):
            raise DecodeError(f"{len(raw) - end} bytes too many", end, name)
    return decoded_key, decoded_value


def _head(raw: bytes, what: str) -> int:
    if len(raw) < _INT16.size:
        raise DecodeError(f"a {what} of {len(raw)} bytes", 0, what)
    head: int = _INT16.unpack_from(raw)[0]
    return head
