"""Keys and values of the records of `__offset_shim_state`: in whose hands each group is, and how that came about.

They are the shim's own, and no broker's, built like those of `__consumer_offsets`: a key is an int16 type and its
fields, a value an int16 version and its fields, flexible (KIP-482) from version 0 on. A record is in the partition of
the same number as that of its group. Type 0 is the newest word on a group, of which compaction keeps the last; type 1
is the same once more where it has changed, by its time, so that all changes are kept.

A group without a record is in nobody's hands yet, unless the log has offsets or members of it: then it is served.
"""

from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from protocol.codec import codec
from protocol.errors import DecodeError
from protocol.wire import Int8, Int64, String, TaggedFields

STATE_TOPIC: Final = "__offset_shim_state"

_INT16: Final = Struct(">h")
_GROUP_HANDS: Final = 0
_GROUP_CHANGE: Final = 1
_VALUE_VERSION: Final = 0


class Hands(IntEnum):
    """``PASSED_THROUGH``: the cluster's own coordinator serves the group, and the shim passes its requests on.
    ``SERVED``: the shim does. That outlives the group's deletion, so that offsets that the cluster has kept, or was
    given, never rise again.
    """

    PASSED_THROUGH = 0
    SERVED = 1


class GroupHandsKey(NamedTuple):
    group: String
    tagged: TaggedFields = ()


class GroupChangeKey(NamedTuple):
    """`time` is the value's."""

    group: String
    time: Int64
    tagged: TaggedFields = ()


class GroupHandsValue(NamedTuple):
    """`hands` is one of `Hands`. `time`: since when, in milliseconds since the epoch. `cause`: why, for people."""

    hands: Int8
    time: Int64
    cause: String = ""
    tagged: TaggedFields = ()


StateKey = GroupHandsKey | GroupChangeKey
StateRecord = tuple[StateKey, GroupHandsValue]

_KEYS: Final[dict[int, type[GroupHandsKey] | type[GroupChangeKey]]] = {
    _GROUP_HANDS: GroupHandsKey,
    _GROUP_CHANGE: GroupChangeKey,
}
_TYPES: Final = {cls: type_ for type_, cls in _KEYS.items()}
_VALUE: Final = codec(GroupHandsValue, _VALUE_VERSION, flexible=True)


def encode_state(record: StateRecord) -> tuple[bytes, bytes]:
    """Key and value as they are in the log. Raises EncodeError."""
    key, value = record
    cls = type(key)
    raw_key = codec(cls, 0, flexible=True).encode(key, _INT16.pack(_TYPES[cls]))
    return raw_key, _VALUE.encode(value, _INT16.pack(_VALUE_VERSION))


def decode_state(key: bytes, value: bytes | None) -> StateRecord:
    """Raises DecodeError, also for what a later version of the shim has written: who is to serve a group cannot be
    guessed.
    """
    cls = _KEYS.get(_head(key, "key"))
    if cls is None:
        raise DecodeError(f"key type {_head(key, 'key')} is of a later version of the shim", 0, "key")
    if value is None:
        raise DecodeError("a tombstone, which no shim writes there", 0, "value")
    if (version := _head(value, "value")) != _VALUE_VERSION:
        raise DecodeError(f"value version {version} is of a later version of the shim", 0, "value")
    found_key, end = codec(cls, 0, flexible=True).decode(key, _INT16.size)
    found, value_end = _VALUE.decode(value, _INT16.size)
    for raw, at, what in ((key, end, "key"), (value, value_end, "value")):
        if at != len(raw):
            raise DecodeError(f"{len(raw) - at} bytes too many", at, what)
    if found.hands not in Hands._value2member_map_:
        raise DecodeError(f"hands {found.hands}", _INT16.size, "value")
    return found_key, found


def _head(raw: bytes, what: str) -> int:
    if len(raw) < _INT16.size:
        raise DecodeError(f"a {what} of {len(raw)} bytes", 0, what)
    head: int = _INT16.unpack_from(raw)[0]
    return head
