"""Keys and values of the records of `__consumer_offsets`.

Source: Kafka 4.3 (group coordinator records), KIP-915 (flexible values).

A key is an int16 type and its fields; a value an int16 version and its fields; a tombstone has no value. Key types 3
and up (KIP-848 consumer, share and streams groups) come back as `UnknownKey`, their values as the raw bytes.
"""

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from struct import error as struct_error
from typing import Annotated, Any, Final, NamedTuple, TypeAlias, cast

from protocol.codec import Codec, codec
from protocol.commit_rows import OFFSET_AT, ROW_SIZE, CommitRows
from protocol.errors import DecodeError, EncodeError
from protocol.records.record_runs import Run, runs
from protocol.records.varints import zigzag
from protocol.wire import (
    ZERO_UUID,
    Bytes,
    Int32,
    Int64,
    NullableString,
    OpaqueString,
    String,
    TaggedFields,
    Uuid,
    ignorable,
    only,
    since,
    tag,
)

NO_TIMESTAMP: Final = -1


class OffsetCommitKey(NamedTuple):
    group: String
    topic: String
    partition: Int32


class OffsetCommitValue(NamedTuple):
    """Timestamps are in milliseconds since the epoch; `expire_timestamp` is -1 without a retention time.

    Versions 0-2 have no leader epoch, only version 1 has the expire timestamp, and only 4 the topic id.
    """

    offset: Int64
    leader_epoch: Annotated[Int32, since(3), ignorable] = -1
    metadata: OpaqueString = ""
    commit_timestamp: Int64 = NO_TIMESTAMP
    expire_timestamp: Annotated[Int64, only(1), ignorable] = NO_TIMESTAMP
    topic_id: Annotated[Uuid, since(4), tag(0), ignorable] = ZERO_UUID
    tagged: TaggedFields = ()


class CommittedOffset(NamedTuple):
    """An offset as it is known, whatever the version of its record. `leader_epoch` is -1 when unknown; times are
    milliseconds since the epoch, -1 for none."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    expire_timestamp: int = -1


class GroupMetadataKey(NamedTuple):
    group: String


class MemberMetadata(NamedTuple):
    """Timeouts are in milliseconds; `rebalance_timeout` is -1 where the version (0) lacks it."""

    member_id: String
    group_instance_id: Annotated[NullableString, since(3), ignorable] = None
    client_id: String = ""
    client_host: String = ""
    rebalance_timeout: Annotated[Int32, since(1), ignorable] = -1
    session_timeout: Int32 = 0
    subscription: Bytes = b""
    assignment: Bytes = b""
    tagged: TaggedFields = ()


class GroupMetadataValue(NamedTuple):
    """`current_state_timestamp` is in milliseconds since the epoch, -1 for none."""

    protocol_type: String
    generation: Int32
    protocol: NullableString
    leader: NullableString
    current_state_timestamp: Annotated[Int64, since(2), ignorable] = NO_TIMESTAMP
    members: tuple[MemberMetadata, ...] = ()
    tagged: TaggedFields = ()


class UnknownKey(NamedTuple):
    """A key of a type that is not decoded here: its type, and the whole key as it is."""

    version: int
    raw: bytes


Key: TypeAlias = OffsetCommitKey | GroupMetadataKey | UnknownKey
Value: TypeAlias = OffsetCommitValue | GroupMetadataValue | bytes

OFFSET_COMMIT_KEY: Final = 1
GROUP_METADATA_KEY: Final = 2

# Versions 3 are the newest that every broker since 2.1 reads; flexible ones need 3.5 (KIP-915).
_OFFSET_VERSION: Final = 3
_OFFSET_VERSION_WITH_EXPIRY: Final = 1
_GROUP_VERSION: Final = 3
_NEWEST_VALUE: Final = 4
_FLEXIBLE_VALUE_SINCE: Final = 4

_INT16 = Struct(">h")
_INT32 = Struct(">i")
# A key's type says which struct follows; the struct itself has one version.
_KEYS: Final[dict[int, type[OffsetCommitKey] | type[GroupMetadataKey]]] = {
    0: OffsetCommitKey,
    OFFSET_COMMIT_KEY: OffsetCommitKey,
    GROUP_METADATA_KEY: GroupMetadataKey,
}
_KEY_HEADS: Final[dict[type[Any], bytes]] = {
    OffsetCommitKey: _INT16.pack(OFFSET_COMMIT_KEY),
    GroupMetadataKey: _INT16.pack(GROUP_METADATA_KEY),
}


def decode_key(raw: bytes) -> Key:
    """Raises DecodeError. A type that is not known here is no error.

    Bytes after the key are refused, unlike in brokers: by such a key compaction would keep an offset for good that was
    overwritten or deleted under the key as it is written here.
    """
    version = _version(raw, "key")
    cls = _KEYS.get(version)
    if cls is None:
        return UnknownKey(version, raw)
    key, end = _codec(cls, 0).decode(raw, 2)
    if end != len(raw):
        raise DecodeError(f"{len(raw) - end} bytes too many", end, cls.__name__)
    return cast(Key, key)


def decode_value(key: Key, raw: bytes | None) -> Value | None:
    """The value that belongs to `key`: None for a tombstone, `raw` itself for an unknown key. Raises DecodeError.

    Bytes after the value are left alone, as brokers do.
    """
    if raw is None or isinstance(key, UnknownKey):
        return raw
    cls = OffsetCommitValue if isinstance(key, OffsetCommitKey) else GroupMetadataValue
    version = _version(raw, "value")
    if not 0 <= version <= _NEWEST_VALUE:
        raise DecodeError(f"version {version} is not one of 0-{_NEWEST_VALUE}", 0, cls.__name__)
    return cast(Value, _codec(cls, version).decode(raw, 2)[0])


def encode_key(key: Key) -> bytes:
    """Offset commit keys as type 1, group metadata keys as type 2. Raises EncodeError."""
    if isinstance(key, UnknownKey):
        return key.raw
    if isinstance(key, OffsetCommitKey):
        try:
            if len(key.group) + len(key.topic) <= _SHORT:
                return _names(key.group, key.topic) + _INT32.pack(key.partition)
        except (struct_error, TypeError):
            pass  # the codec says what is wrong
    return _codec(type(key), 0).encode(key, _KEY_HEADS[type(key)])


# Most commits are of groups and topics that have just had one. What a cache of them takes is bounded by both numbers.
_SHORT: Final = 512


@lru_cache(maxsize=1024)
def _names(group: str, topic: str) -> bytes:
    """All of a key but its partition."""
    key = OffsetCommitKey(group, topic, 0)
    return _codec(OffsetCommitKey, 0).encode(key, _KEY_HEADS[OffsetCommitKey])[: -_INT32.size]


def encode_value(value: Value, version: int | None = None) -> bytes:
    """The value in `version`, or, without one, in the version of `version_of`. Raises EncodeError."""
    if isinstance(value, bytes):
        return value
    if version is None:
        version = version_of(value)
    elif not 0 <= version <= _NEWEST_VALUE:
        raise EncodeError(f"version {version} is not one of 0-{_NEWEST_VALUE}", type(value).__name__)
    return _codec(type(value), version).encode(value, _INT16.pack(version))


def commit_runs(group: str, topic: str, rows: CommitRows, commit_timestamp: int) -> Sequence[Run]:
    """The records of these offsets, without metadata and expire timestamp: what `encode_key` and `encode_value` give.

    Raises EncodeError. The names are to be short, as those of plain commits are: they are kept.
    """
    return runs(_run_beginning(group, topic), _VALUE_BEGINNING, _VALUE_END.pack(0, commit_timestamp, 0), rows)


_VALUE_END: Final = Struct(">hqB")  # the length of no metadata, commit timestamp, no headers of the record
_VALUE_SIZE: Final = _INT16.size + ROW_SIZE - OFFSET_AT + _VALUE_END.size - 1
_VALUE_BEGINNING: Final = zigzag(_VALUE_SIZE) + _INT16.pack(_OFFSET_VERSION)


@lru_cache(maxsize=1024)
def _run_beginning(group: str, topic: str) -> bytes:
    """A record up to its partition: the length of the key, and its names."""
    names = encode_key(OffsetCommitKey(group, topic, 0))[: -_INT32.size]
    return zigzag(len(names) + _INT32.size) + names


def version_of(value: OffsetCommitValue | GroupMetadataValue) -> int:
    """The version in which a value is written when none is asked for.

    For offsets 1 when there is an expire timestamp, as brokers do, and 3 otherwise; for groups 3.
    """
    if isinstance(value, GroupMetadataValue):
        return _GROUP_VERSION
    return _OFFSET_VERSION if value.expire_timestamp == NO_TIMESTAMP else _OFFSET_VERSION_WITH_EXPIRY


def _codec(cls: type[Any], version: int) -> Codec[Any]:
    return codec(cls, version, version >= _FLEXIBLE_VALUE_SINCE)


def _version(raw: bytes, what: str) -> int:
    if len(raw) < _INT16.size:
        raise DecodeError(f"a {what} of {len(raw)} bytes", 0, what)
    version: int = _INT16.unpack_from(raw)[0]
    return version
