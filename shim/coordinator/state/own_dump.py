"""The shim's own state of an offsets partition, as bytes: whose hands its groups are in, and what ZooKeeper has.

::

    each record: length uint32, its key; length uint32, its value

Little-endian, keys and values as in `__offset_shim_state`. Changes of hands are not in it, which no coordinator knows.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from struct import Struct
from typing import Final

from protocol.own.state_log import (
    GroupHandsKey,
    GroupHandsValue,
    StateKey,
    StateRecord,
    StateValue,
    WrittenKey,
    WrittenValue,
    decode_state,
    encode_state,
)
from shim.coordinator.state.dump_reader import DumpReader
from shim.coordinator.state.partition_state import PartitionState

_LENGTH: Final = Struct("<I")
_RECORDS_A_STEP: Final = 200


class OwnDump:
    """A dump of the state as it is now, made in steps; what is decided or replayed between them does not show."""

    __slots__ = ("_done", "_records")

    def __init__(self, state: PartitionState) -> None:
        self._done: list[bytes] = []
        # As in StateDump: lists of what is there, and nothing is made of it before its step.
        hands = zip(list(state.hands), list(state.hands.values()), strict=True)
        written = [(group, dict(its)) for group, its in state.written.items()]
        self._records: Iterator[StateRecord] = _records(hands, written)

    def step(self) -> bool:
        """Do a little more. False at the end."""
        pieces = [_piece(each) for each in islice(self._records, _RECORDS_A_STEP)]
        self._done += pieces
        return bool(pieces)

    def give_up(self) -> None:
        """Nobody will ask for the pieces."""
        self._done, self._records = [], iter(())

    def pieces(self) -> list[bytes]:
        """All of it, in pieces that belong one after the other. Once, after the last step."""
        done, self._done = self._done, []
        return done


def restore_own(
    raw: bytes | bytearray | memoryview,
    replay: Callable[[StateKey, StateValue | None], None],
    check: Callable[[], None],
) -> None:
    """Have each record replayed. Raises DecodeError, and what ``check`` raises, which is called for each."""
    dump = DumpReader(raw)
    while not dump.is_at_end:
        check()
        key, value = (bytes(dump.take(dump.unpack(_LENGTH)[0])) for _ in range(2))
        replay(*decode_state(key, value))


def _records(
    hands: Iterable[tuple[str, GroupHandsValue]], written: list[tuple[str, dict[tuple[str, int], WrittenValue]]]
) -> Iterator[StateRecord]:
    for group, value in hands:
        yield GroupHandsKey(group), value
    for group, its in written:
        for (topic, partition), znode in its.items():
            yield WrittenKey(group, topic, partition), znode


def _piece(record: StateRecord) -> bytes:
    key, value = encode_state(record)
    assert value is not None, "what is there is no tombstone"
    return b"".join((_LENGTH.pack(len(key)), key, _LENGTH.pack(len(value)), value))
