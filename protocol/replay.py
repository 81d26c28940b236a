"""Reading many records of `__consumer_offsets`, one after the other: as `decode_key` and `decode_value`, but quicker.

A log repeats itself: the groups and topics of its keys are few, and most values are of one version and without
metadata. What is not as usual, malformed bytes among it, is left to the general decoder.
"""

from struct import Struct
from typing import Any, Final

from protocol.offsets_log import Key, OffsetCommitKey, OffsetCommitValue, Value, decode_key, decode_value
from protocol.wire import ZERO_UUID

_MOST_NAMES: Final = 100_000

_PARTITION: Final = Struct(">i")
# Version 3 with an empty metadata string: version, offset, leader epoch, length of the metadata, commit timestamp.
_USUAL_VALUE: Final = Struct(">hqihq")
_USUAL_SIZE: Final = _USUAL_VALUE.size
_USUAL_VERSION: Final = 3

# tuple.__new__ skips the constructor of the named tuple, as the codec does.
_new: Any = tuple.__new__


class RecordDecoder:
    """Keeps the names that it has met, up to a number, so that equal ones are one string."""

    __slots__ = ("_names",)

    def __init__(self) -> None:
        # By all of a key but its last field.
        self._names: dict[bytes, tuple[str, str]] = {}

    def decode(self, raw_key: bytes, raw_value: bytes | None) -> tuple[Key, Value | None]:
        """Key and value (None for a tombstone). Raises DecodeError."""
        names = self._names.get(raw_key[:-4])
        if names is None:
            key = decode_key(raw_key)
            if not isinstance(key, OffsetCommitKey):
                return key, decode_value(key, raw_value)
            if len(self._names) >= _MOST_NAMES:
                self._names.clear()
            self._names[raw_key[:-4]] = (key.group, key.topic)
        else:
            key = _new(OffsetCommitKey, (*names, *_PARTITION.unpack_from(raw_key, len(raw_key) - 4)))
        if raw_value is not None and len(raw_value) == _USUAL_SIZE:
            version, offset, leader_epoch, length, timestamp = _USUAL_VALUE.unpack(raw_value)
            if version == _USUAL_VERSION and not length:
                return key, _new(OffsetCommitValue, (offset, leader_epoch, "", timestamp, -1, ZERO_UUID, ()))
        return key, decode_value(key, raw_value)
