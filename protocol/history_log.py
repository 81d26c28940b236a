"""Keys and values of the records of `__offset_shim_history`: who committed what, and when.

They are the shim's own, and no broker's. They are built like those of `__consumer_offsets`: a key is an int16 type and
its fields, a value an int16 version and its fields, flexible (KIP-482) from version 0 on. Every offset of every commit
has a record, in the partition of the same number as that of its group, in the order in which the offsets were
committed. The key tells two records apart but for commits of one millisecond: those are told apart by their offsets in
the log.
"""

from struct import Struct
from typing import Final, NamedTuple

from protocol.codec import codec
from protocol.errors import DecodeError
from protocol.wire import Int32, Int64, NullableString, OpaqueString, String, TaggedFields

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
    that assigns its partitions itself). `client_host` is in Kafka's form, `/127.0.0.1`.
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
    tagged: TaggedFields = ()


HistoryRecord = tuple[OffsetHistoryKey, OffsetHistoryValue]

_KEY: Final = codec(OffsetHistoryKey, 0, flexible=True)
_VALUE: Final = codec(OffsetHistoryValue, 0, flexible=True)
_KEY_HEAD: Final = _INT16.pack(_OFFSET_HISTORY)
_VALUE_HEAD: Final = _INT16.pack(_VALUE_VERSION)


def encode_history(record: HistoryRecord) -> tuple[bytes, bytes]:
    """Key and value as they are in the log. Raises EncodeError."""
    key, value = record
    return _KEY.encode(key, _KEY_HEAD), _VALUE.encode(value, _VALUE_HEAD)


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
