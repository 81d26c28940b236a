"""The state that the records of an offsets partition have made, as bytes: what a snapshot of the partition holds.

::

    magic "OSPS", version uint16, number of groups uint32
    each group, in the order in which the log makes them:
        length uint32, group id; length uint32, its last record's value, of no bytes where there is none
    length uint32, what is pending (transactions.py)
    length uint32, what the cluster has to be told (overruled.py)
    the offset table (offset_table.py)

All little-endian, the values as in the log. Who is parked and what is due is in no record, and so not in here: it is
the state after a recovery, not that of the running process.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from struct import Struct
from typing import Final

from protocol.offsets_log import GroupMetadataKey, GroupMetadataValue, decode_value, encode_value
from shim.coordinator.state.dump_reader import DumpReader
from shim.coordinator.state.offset_table import OffsetTable
from shim.coordinator.state.overruled import OverruledOffsets
from shim.coordinator.state.partition_state import PartitionState
from shim.coordinator.state.transactions import Transactions

_HEAD: Final = Struct("<4sHI")
_MAGIC: Final = b"OSPS"
_VERSION: Final = 4
_LENGTH: Final = Struct("<I")
# Of group metadata the newest one: it holds whatever a record of any version holds.
_VALUE_VERSION: Final = 4
_GROUPS_A_STEP: Final = 100


class StateDump:
    """A dump of the state as it is now, made in steps; what is decided or replayed between them does not show."""

    __slots__ = ("_done", "_groups", "_of_transactions", "_offsets")

    def __init__(self, state: PartitionState) -> None:
        self._done = [_HEAD.pack(_MAGIC, _VERSION, len(state.recorded))]
        # Two lists, as a list of pairs would be as many objects more, at one stroke.
        self._groups: Iterator[tuple[str, GroupMetadataValue | None]] = zip(
            list(state.recorded), list(state.recorded.values()), strict=True
        )
        # At one stroke: transactions last for seconds, and what they had is known of so many.
        its = state.offsets
        self._of_transactions = [_sized(its.transactions.dump()), _sized(its.overruled.dump())]
        self._offsets = state.offsets.committed.begin_dump()

    def step(self) -> bool:
        """Do a little more, some milliseconds' worth at most as long as no single group is huge. False at the end."""
        pieces = [_group(*group) for group in islice(self._groups, _GROUPS_A_STEP)]
        self._done += pieces
        return bool(pieces) or self._offsets.step()

    def give_up(self) -> None:
        """Nobody will ask for the pieces: no step does anything any more, and the next dump does not wait for this."""
        self._done, self._groups, self._of_transactions = [], iter(()), []
        self._offsets.give_up()

    def pieces(self) -> list[bytes]:
        """All of it, in pieces that belong one after the other. Once, after the last step: nothing is left here."""
        done, self._done = self._done, []
        return [*done, *self._of_transactions, *self._offsets.pieces()]


def restore_state(state: PartitionState, raw: bytes | bytearray | memoryview, check: Callable[[], None]) -> None:
    """Make a new state what it was at the dump. Raises DecodeError, and what `check` raises, which is called for each
    group; the state is of no more use then.
    """
    dump = DumpReader(raw)
    magic, version, num_groups = dump.unpack(_HEAD)
    if (magic, version) != (_MAGIC, _VERSION):
        dump.fail(f"no dump of version {_VERSION}: {magic!r}, version {version}")
    for _ in range(num_groups):
        check()
        group_id, value = dump.name(), bytes(dump.take(dump.unpack(_LENGTH)[0]))
        if group_id in state.recorded:
            dump.fail("a group twice")
        state.restore_group(group_id, _decoded(group_id, value) if value else None)
    state.offsets.transactions = Transactions.restore(dump.take(dump.unpack(_LENGTH)[0]))
    state.offsets.overruled = OverruledOffsets.restore(dump.take(dump.unpack(_LENGTH)[0]))
    state.offsets.committed = OffsetTable.restore(dump.rest(), check)
    if not state.recorded.keys() >= set(state.offsets.groups()):
        dump.fail("offsets of a group that is not there")


def _sized(raw: bytes) -> bytes:
    return _LENGTH.pack(len(raw)) + raw


def _group(group_id: str, value: GroupMetadataValue | None) -> bytes:
    name = group_id.encode("utf-8", "surrogatepass")
    raw = encode_value(value, _VALUE_VERSION) if value is not None else b""
    return b"".join((_LENGTH.pack(len(name)), name, _LENGTH.pack(len(raw)), raw))


def _decoded(group_id: str, raw: bytes) -> GroupMetadataValue | None:
    value = decode_value(GroupMetadataKey(group_id), raw)
    return value if isinstance(value, GroupMetadataValue) else None
