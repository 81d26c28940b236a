"""Records of the shim's own as bytes, built like those of `__consumer_offsets`: a key is an int16 type and its fields,
a value an int16 version and its fields, flexible (KIP-482) from version 0 on, which is the only one so far.
"""

from collections.abc import Mapping
from struct import Struct
from typing import Any, Final, TypeVar

from protocol.codec import codec
from protocol.errors import DecodeError

_INT16: Final = Struct(">h")
_VALUE_VERSION: Final = 0

T = TypeVar("T")


class TypedRecords:
    """By the type of its key, the NamedTuples of a record's key and value."""

    __slots__ = ("_kinds", "_types")

    def __init__(self, kinds: Mapping[int, tuple[type[Any], type[Any]]]) -> None:
        self._kinds = kinds
        self._types = {key: type_ for type_, (key, _) in kinds.items()}

    def encode(self, key: Any, value: Any) -> tuple[bytes, bytes | None]:
        """Key and value as they are in the log. Raises EncodeError."""
        raw_key = codec(type(key), 0, flexible=True).encode(key, _INT16.pack(self._types[type(key)]))
        if value is None:
            return raw_key, None
        return raw_key, encode_value(value)

    def decode(self, key: bytes, value: bytes | None) -> tuple[Any, Any]:
        """A value of None is a tombstone. Raises DecodeError, also for what a later version of the shim has written."""
        kind = self._kinds.get(key_type(key))
        if kind is None:
            raise DecodeError(f"key type {key_type(key)} is of a later version of the shim", 0, "key")
        found_key = _whole(kind[0], key, "key")
        if value is None:
            return found_key, None
        return found_key, decode_value(kind[1], value, "value")


def encode_value(value: Any) -> bytes:
    """A NamedTuple as a value, its version in front. Raises EncodeError."""
    return codec(type(value), 0, flexible=True).encode(value, _INT16.pack(_VALUE_VERSION))


def decode_value(cls: type[T], raw: bytes, what: str) -> T:
    """`what` it is, for the error. Raises DecodeError, also for what a later version of the shim has written."""
    if (version := head(raw, what)) != _VALUE_VERSION:
        raise DecodeError(f"{what} version {version} is of a later version of the shim", 0, what)
    return _whole(cls, raw, what)


def key_type(raw: bytes) -> int:
    """The type that a key begins with. Raises DecodeError."""
    return head(raw, "key")


def with_type(type_: int, raw: bytes) -> bytes:
    """The same key under another type."""
    return _INT16.pack(type_) + raw[_INT16.size :]


def _whole(cls: type[T], raw: bytes, what: str) -> T:
    """What is behind the type or version, and nothing else."""
    found, end = codec(cls, 0, flexible=True).decode(raw, _INT16.size)
    if end != len(raw):
        raise DecodeError(f"{len(raw) - end} bytes too many", end, what)
    return found


def head(raw: bytes, what: str) -> int:
    """The type, or the version, that a key or value begins with. Raises DecodeError."""
    if len(raw) < _INT16.size:
        raise DecodeError(f"a {what} of {len(raw)} bytes", 0, what)
    found: int = _INT16.unpack_from(raw)[0]
    return found
