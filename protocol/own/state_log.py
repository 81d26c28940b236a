"""Keys and values of the records of `__offset_shim_state`: in whose hands each group is, where its offsets are kept,
and how that came about.

They are the shim's own, and no broker's, built like those of `__consumer_offsets`: a key is an int16 type and its
fields, a value an int16 version and its fields, flexible (KIP-482) from version 0 on. A record is in the partition of
the same number as that of its group. Type 0 is the newest word on a group, of which compaction keeps the last; type 1
is the same once more where it has changed, by its time, so that all changes are kept. Type 2 is the outbox's: what
ZooKeeper has of an offset by the shim's own hand, or is about to have.

A group without a record is in nobody's hands yet, unless the log has offsets or members of it: then it is served.
"""

from enum import IntEnum
from typing import Annotated, Final, NamedTuple

from protocol.errors import DecodeError
from protocol.own.typed_records import TypedRecords
from protocol.wire import Int8, Int32, Int64, String, TaggedFields, tag

STATE_TOPIC: Final = "__offset_shim_state"

_GROUP_HANDS: Final = 0
_GROUP_CHANGE: Final = 1
_WRITTEN: Final = 2

NO_OFFSET: Final = -1
NOT_CARRIED: Final = -2
ABSENT: Final = -1
"""As a version: no znode that the shim writes has it; of what it is about to write, the log has deleted an offset that
ZooKeeper was never given."""
_VALUE_AT: Final = 2  # behind the version


class Hands(IntEnum):
    """``PASSED_THROUGH``: the cluster's own coordinator serves the group, and the shim passes its requests on.
    ``SERVED``: the shim does. That outlives the group's deletion, so that offsets that the cluster has kept, or was
    given, never rise again.
    """

    PASSED_THROUGH = 0
    SERVED = 1


class Step(IntEnum):
    """Where the offsets of a group that is served are kept beside the log, in which they always are: `offsets.storage`,
    and with ``_DUAL`` `dual.commit.enabled=true`.

    ``ZOOKEEPER``, ``ZOOKEEPER_DUAL``: in ZooKeeper, which is right where the two differ. ``KAFKA_DUAL``: in ZooKeeper
    too, and the log is right. ``UPSTREAM_DUAL``: in the cluster's own offsets too, before a commit is answered.
    """

    KAFKA = 0
    ZOOKEEPER = 1
    ZOOKEEPER_DUAL = 2
    KAFKA_DUAL = 3
    UPSTREAM_DUAL = 4


ZOOKEEPER_IS_RIGHT: Final = frozenset({Step.ZOOKEEPER, Step.ZOOKEEPER_DUAL})
"""Where the log and ZooKeeper differ."""
IN_ZOOKEEPER: Final = ZOOKEEPER_IS_RIGHT | {Step.KAFKA_DUAL}
"""The offsets are there, too."""


class About(IntEnum):
    """``STANDS``: it does, or nothing more is known, as before this was noted. ``WRITES``: it is about to be written,
    and whether it was nobody knows. ``RESTORES``: likewise, and it is what both had until somebody deleted the znode.
    """

    STANDS = 0
    WRITES = 1
    RESTORES = 2


class GroupHandsKey(NamedTuple):
    group: String
    tagged: TaggedFields = ()


class GroupChangeKey(NamedTuple):
    """`time` is the value's."""

    group: String
    time: Int64
    tagged: TaggedFields = ()


class GroupHandsValue(NamedTuple):
    """`hands` is one of `Hands`. `time`: since when, in milliseconds since the epoch. `cause`: why, for people. `step`:
    one of `Step`, of a group that is served. `from_zookeeper`: 1 where its offsets were in ZooKeeper at first, so that
    this is where its way back leads.
    """

    hands: Int8
    time: Int64
    cause: String = ""
    step: Annotated[Int8, tag(0)] = 0
    from_zookeeper: Annotated[Int8, tag(1)] = 0
    tagged: TaggedFields = ()


class WrittenKey(NamedTuple):
    group: String
    topic: String
    partition: Int32
    tagged: TaggedFields = ()


class WrittenValue(NamedTuple):
    """That the znode of the offset has `version` and says `offset`, or will when what was about to be written is.
    `replaced`: of what somebody else has written there, what the log had until it was carried (-1 for nothing): where
    it still has that, it was not. `NOT_CARRIED` of what is the shim's own. An `offset` of `NO_OFFSET` is about to be
    written by nobody: the log has had something else than the version before says, and has come back to that.
    `about`: one of `About`.
    """

    offset: Int64
    version: Int32
    replaced: Annotated[Int64, tag(0)] = NOT_CARRIED
    about: Annotated[Int8, tag(1)] = 0
    tagged: TaggedFields = ()


StateKey = GroupHandsKey | GroupChangeKey | WrittenKey
StateValue = GroupHandsValue | WrittenValue
StateRecord = tuple[StateKey, StateValue | None]
"""A value of None is a tombstone, which only a WrittenKey can have."""

_RECORDS: Final = TypedRecords(
    {
        _GROUP_HANDS: (GroupHandsKey, GroupHandsValue),
        _GROUP_CHANGE: (GroupChangeKey, GroupHandsValue),
        _WRITTEN: (WrittenKey, WrittenValue),
    }
)


def encode_state(record: StateRecord) -> tuple[bytes, bytes | None]:
    """Key and value as they are in the log. Raises EncodeError."""
    return _RECORDS.encode(*record)


def decode_state(key: bytes, value: bytes | None) -> StateRecord:
    """Raises DecodeError, also for what a later version of the shim has written: who is to serve a group cannot be
    guessed.
    """
    found_key, found = _RECORDS.decode(key, value)
    if found is None and not isinstance(found_key, WrittenKey):
        raise DecodeError("a tombstone, which no shim writes there", 0, "value")
    if isinstance(found, GroupHandsValue):
        for number, words in ((found.hands, Hands), (found.step, Step)):
            if number not in words._value2member_map_:
                raise DecodeError(f"{words.__name__.lower()} {number}", _VALUE_AT, "value")
    return found_key, found
